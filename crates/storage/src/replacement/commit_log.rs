//! Checks whether the commit log of a Cassandra node has writes that no SSTable has.
//!
//! A segment has a header, then sections. Each section begins with the position of the next one and
//! a checksum, and holds entries: length, checksum, a mutation, checksum. A mutation begins with
//! the number of its tables and the id of the first one; all are of one keyspace. `nodetool drain`
//! removes all segments with writes of users. The segment that it leaves may have writes of tables
//! of `system`, which this node does not need, except those of `system.paxos`.

use std::{collections::BTreeSet, path::Path};

use espalier_runtime::file::FileSystem;
use uuid::Uuid;

use crate::{
    StorageError,
    system::{SYSTEM_KEYSPACE, keyspaces},
};

/// Bytes of the version, the id and the length of the parameters.
const HEADER_START: usize = 4 + 8 + 2;
/// Bytes of a checksum.
const CHECKSUM: usize = 4;
/// Bytes of the position of the next section, with its checksum.
const MARKER: usize = 8;

/// Checks that each segment has at most writes of `system` that this node does not need.
///
/// # Errors
/// Fails if a segment has other writes, or cannot be understood.
pub(super) async fn check_drained(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<(), StorageError> {
    if !file_system.exists(directory).await? {
        return Ok(());
    }
    let system = unneeded_tables();
    for entry in file_system.read_dir(directory).await? {
        if !entry.name.starts_with("CommitLog-") || !entry.name.ends_with(".log") {
            continue;
        }
        let content = file_system.read(&entry.path).await?;
        if !is_drained(&content, &system) {
            return Err(StorageError::NotReplaceable(format!(
                "{} has writes that no SSTable has: start the Cassandra node again, run nodetool \
                 drain, and stop it",
                entry.path.display()
            )));
        }
    }
    Ok(())
}

/// Returns the tables of `system` whose writes this node does not need. It needs the promises in
/// `system.paxos`, because the ring relies on them.
fn unneeded_tables() -> BTreeSet<Uuid> {
    let system = keyspaces().into_iter().find(|keyspace| keyspace.name == SYSTEM_KEYSPACE);
    let tables = system.iter().flat_map(|keyspace| keyspace.tables.values());
    tables.filter(|table| table.name != "paxos").map(|table| table.id.0).collect()
}

/// Returns whether a segment has no writes but those of the tables `system`. If a segment has
/// sections that cannot be understood, such as compressed or encrypted ones, they count as other
/// writes.
fn is_drained(segment: &[u8], system: &BTreeSet<Uuid>) -> bool {
    let is_empty = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    if is_empty(segment) {
        return true;
    }
    let Some(parameters) = segment.get(HEADER_START - 2..HEADER_START) else { return false };
    let length = usize::from(u16::from_be_bytes([parameters[0], parameters[1]]));
    let mut at = HEADER_START + length + CHECKSUM;
    let Some(sections) = segment.get(at..) else { return false };
    if is_empty(sections) {
        return true;
    }
    let is_plain = segment[HEADER_START..].starts_with(b"{}");
    while let Some(next) = number(segment, at).filter(|_| is_plain) {
        if next == 0 {
            return is_empty(&segment[at..]);
        }
        let end = next.min(segment.len());
        if !segment.get(at + MARKER..end).is_some_and(|section| has_only(section, system)) {
            return false;
        }
        at = end;
    }
    is_plain
}

/// Returns whether all entries of a section are of the tables `system`.
fn has_only(section: &[u8], system: &BTreeSet<Uuid>) -> bool {
    let mut at = 0;
    // A length of 0 ends the section before its end.
    while let Some(length) = number(section, at).filter(|length| *length > 0) {
        let start = at + 2 * CHECKSUM;
        let Some(mutation) = section.get(start..start + length) else { return false };
        // The number of tables is a vint of one byte, unless there are more than 127.
        let table = mutation.get(1..17).and_then(|id| Uuid::from_slice(id).ok());
        if mutation[0] > 127 || !table.is_some_and(|table| system.contains(&table)) {
            return false;
        }
        at = start + length + CHECKSUM;
    }
    section.get(at..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0))
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    let number = i32::from_be_bytes(bytes.try_into().ok()?);
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::table;

    const SYSTEM: Uuid = Uuid::from_u128(7);

    /// Returns a segment with these sections, each with one mutation of each table.
    fn segment(parameters: &[u8], sections: &[&[Uuid]], rest: &[u8]) -> Vec<u8> {
        let mut bytes = [&7u32.to_be_bytes()[..], &5u64.to_be_bytes()].concat();
        bytes.extend((parameters.len() as u16).to_be_bytes());
        bytes.extend(parameters);
        bytes.extend([9; 4]);
        for tables in sections {
            let mut section = Vec::new();
            for table in *tables {
                section.extend(30u32.to_be_bytes());
                section.extend([9; 4]);
                section.push(1);
                section.extend(table.as_bytes());
                section.extend([9; 13 + 4]);
            }
            let next = bytes.len() + MARKER + section.len();
            bytes.extend((next as u32).to_be_bytes());
            bytes.extend([9; 4]);
            bytes.extend(section);
        }
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn a_drained_log_has_writes_of_the_system_at_most() {
        let (own, other) = (SYSTEM, Uuid::from_u128(8));
        let zeros: &[u8] = &[0; 64];
        let system = BTreeSet::from([SYSTEM]);
        for (bytes, expected) in [
            (Vec::new(), true),
            (zeros.to_vec(), true),
            (segment(b"{}", &[], zeros), true),
            (segment(b"{}", &[&[own]], zeros), true),
            (segment(b"{}", &[&[own, own], &[], &[own]], zeros), true),
            (segment(b"{}", &[&[own]], &[]), true),
            (segment(b"{}", &[&[own, other]], zeros), false),
            (segment(b"{}", &[&[own], &[other]], zeros), false),
            (segment(b"{}", &[&[own]], &[&[0; 8][..], &[1]].concat()), false),
            (segment(b"{\"compressionClass\":\"x\"}", &[], zeros), true),
            (segment(b"{\"compressionClass\":\"x\"}", &[&[own]], zeros), false),
            (vec![0, 0, 0, 7], false),
        ] {
            assert_eq!(is_drained(&bytes, &system), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_log_with_promises_is_not_drained() {
        let of = |name| segment(b"{}", &[&[table(SYSTEM_KEYSPACE, name).id.0]], &[0; 64]);
        assert!(is_drained(&of("sstable_activity"), &unneeded_tables()));
        assert!(!is_drained(&of("paxos"), &unneeded_tables()));
    }

    #[test]
    fn a_torn_segment_is_refused_or_taken_without_a_panic() {
        let system = BTreeSet::from([SYSTEM]);
        let whole = segment(b"{}", &[&[SYSTEM], &[Uuid::from_u128(8)]], &[0; 16]);
        for end in 0..whole.len() {
            is_drained(&whole[..end], &system);
        }
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x80;
            is_drained(&flipped, &system);
        }
    }
}
