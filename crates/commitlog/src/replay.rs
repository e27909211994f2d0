//! The replay finds the segments of an earlier run, determines their ends and reads their records.
//!
//! The first marker of a segment's successor is the end of the segment. The last segment of a shard
//! has no successor: its records end before the first damaged record. If a later marker shows that
//! the log had been durable beyond that point, the segment is corrupt.

use std::{collections::BTreeMap, path::PathBuf};

use bytes::Bytes;
use espalier_mutation::{LogPosition, schema::TableId};
use espalier_runtime::{file::FileSystem, maybe_yield, random};
use uuid::Uuid;

use super::{
    CommitLogError, LogKind, ReplayPolicy,
    columns::table_of_mapping,
    layout::{
        HEADER_BYTES, RECORD_OVERHEAD, SegmentHeader, checksum_seed, decode_marker, put_record,
        record_checksum,
    },
    reader::{Opened, Read, SegmentReader},
};

/// Bytes of records that [`make_durable`] gathers before it writes them (arbitrary). A marker
/// behind them may still report them as durable; then they are dropped unwritten. So the limit is
/// above most sync batches.
const MAX_REWRITE_BYTES: usize = 4 << 20;

/// A segment of an earlier run.
#[derive(Clone, Debug)]
pub struct FoundSegment {
    /// Its id.
    pub id: u64,
    /// Its file.
    pub path: PathBuf,
    /// The shard that wrote it.
    pub shard: u32,
    /// Number of shards of the run that wrote it.
    pub shard_count: u32,
    /// Offset in bytes where the segment ends, if its successor says so.
    pub known_end: Option<u32>,
}

/// The segments found in a directory.
#[derive(Clone, Debug, Default)]
pub struct FoundSegments {
    /// Segments that may have records, ordered by id.
    pub segments: Vec<FoundSegment>,
    /// Files that were being created or recycled when the node stopped, and so have no needed
    /// records; the caller may remove them.
    pub unused: Vec<PathBuf>,
    /// The greatest id found, also among the unused files.
    pub greatest_id: u64,
}

/// Finds the segments of a log in `directory`. Under [`ReplayPolicy::Ignore`] a segment with a
/// damaged header is skipped and its file stays.
///
/// # Errors
/// [`CommitLogError::Corrupt`] if a segment has an unknown version, or a damaged header
/// under [`ReplayPolicy::Stop`]; I/O errors of the directory and its files.
pub async fn find_segments(
    file_system: &FileSystem,
    directory: &std::path::Path,
    kind: LogKind,
    policy: ReplayPolicy,
) -> Result<FoundSegments, CommitLogError> {
    let mut found = FoundSegments::default();
    // By shard count and shard: (header, path, first marker).
    let mut shards: BTreeMap<(u32, u32), Vec<(SegmentHeader, PathBuf, Option<LogPosition>)>> =
        BTreeMap::new();
    for entry in file_system.read_dir(directory).await? {
        let Some((_, id)) = kind.parse_file_name(&entry.name) else { continue };
        found.greatest_id = found.greatest_id.max(id);
        match SegmentReader::open(file_system, &entry.path, id).await? {
            Opened::Unused => found.unused.push(entry.path),
            Opened::Damaged => {
                let reason = "its header is damaged, but it has records".to_owned();
                let error = CommitLogError::Corrupt { path: entry.path, offset: 0, reason };
                match policy {
                    ReplayPolicy::Stop => return Err(error),
                    ReplayPolicy::Ignore => tracing::error!(
                        %error,
                        "commit log replay: skipping a damaged segment (commit_failure_policy: \
                        ignore); its writes are lost"
                    ),
                }
            }
            Opened::Version(version) => {
                return Err(CommitLogError::Corrupt {
                    path: entry.path,
                    offset: 0,
                    reason: format!(
                        "version {version} is not known to this release; replay it with the \
                        release that wrote it"
                    ),
                });
            }
            Opened::Segment(header, mut reader) => {
                let marker = reader.first_marker().await?;
                let shard = shards.entry((header.shard_count, header.shard)).or_default();
                shard.push((header, entry.path, marker));
            }
        }
    }
    for segments in shards.values_mut() {
        segments.sort_by_key(|(header, ..)| header.id);
        for (index, (header, path, _)) in segments.iter().enumerate() {
            let successors = segments.iter().skip(index + 1);
            let known_end = successors
                .filter_map(|(_, _, marker)| *marker)
                .find(|durable| durable.segment == header.id)
                .map(|durable| durable.offset);
            found.segments.push(FoundSegment {
                id: header.id,
                path: path.clone(),
                shard: header.shard,
                shard_count: header.shard_count,
                known_end,
            });
        }
    }
    found.segments.sort_by_key(|segment| segment.id);
    Ok(found)
}

/// Returns a copy of a segment from which a replay applies only the writes to some tables.
///
/// In the copy, the mapping of each table for which `is_kept` is false names a table that does not
/// exist. All records keep their positions, because SSTables and truncations name positions.
///
/// # Errors
///
/// I/O errors.
pub async fn copy_for_tables(
    file_system: &FileSystem,
    segment: &FoundSegment,
    is_kept: impl Fn(TableId) -> bool,
) -> Result<Vec<u8>, CommitLogError> {
    let mut content = file_system.read(&segment.path).await?;
    let (seed, nowhere) = (checksum_seed(segment.id), random::uuid_v4());
    let mut rest = content.get_mut(HEADER_BYTES..).unwrap_or_default();
    while let Some((head, after)) = rest.split_first_chunk_mut::<RECORD_OVERHEAD>() {
        let [a, b, c, d, e, f, g, h] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let Some((body, next)) = after.split_at_mut_checked(length) else { break };
        let crc = u32::from_le_bytes([e, f, g, h]);
        if body.is_empty() || record_checksum(seed, body) != crc {
            break;
        }
        if let Some(id) = table_of_mapping(body)
            && !is_kept(TableId(Uuid::from_bytes(*id)))
        {
            id.copy_from_slice(nowhere.as_bytes());
            head[4..].copy_from_slice(&record_checksum(seed, body).to_le_bytes());
        }
        rest = next;
        maybe_yield().await;
    }
    Ok(content)
}

/// Makes the records of a segment durable that a replay reads.
///
/// If a sync fails, Linux goes on to show the bytes that it could not write, and no later sync
/// writes them. The process may have ended after such a failure. So this function writes the
/// records again that no marker reports as durable, before it syncs the file.
///
/// # Errors
///
/// I/O errors.
pub async fn make_durable(
    file_system: &FileSystem,
    segment: &FoundSegment,
) -> Result<(), CommitLogError> {
    make_durable_in_parts(file_system, segment, MAX_REWRITE_BYTES).await
}

/// Makes records durable like [`make_durable`], and writes them in parts of at least `part_bytes`.
async fn make_durable_in_parts(
    file_system: &FileSystem,
    segment: &FoundSegment,
    part_bytes: usize,
) -> Result<(), CommitLogError> {
    let file = file_system.open_write(&segment.path).await?;
    let opened = SegmentReader::open(file_system, &segment.path, segment.id).await?;
    if let Opened::Segment(_, mut reader) = opened {
        if let Some(end) = segment.known_end {
            reader.skip_to(u64::from(end));
        }
        let seed = checksum_seed(segment.id);
        let (mut start, mut records) = (reader.offset(), Vec::new());
        while let Read::Record { body, .. } = reader.next().await? {
            put_record(seed, &body, &mut records);
            if let Some(durable) = decode_marker(&body)
                && durable.segment == segment.id
            {
                let known = u64::from(durable.offset).saturating_sub(start) as usize;
                let known = known.min(records.len());
                records.drain(..known);
                start += known as u64;
            }
            if records.len() >= part_bytes {
                let written = file.write_at(start, std::mem::take(&mut records)).await?;
                start += written.len() as u64;
            }
            maybe_yield().await;
        }
        file.write_at(start, records).await?;
    }
    Ok(file.sync_data().await?)
}

/// Passes each record of a segment to `take`, with its position. Returns the offset where the
/// segment ends.
///
/// Damage that loses durable records is an error with file and offset. Under
/// [`ReplayPolicy::Ignore`] it is logged, and the segment ends there. An error of `take` ends the
/// reading.
///
/// # Errors
///
/// [`CommitLogError::Corrupt`] for such damage; I/O errors; and the errors of `take`.
pub async fn read_segment<E: From<CommitLogError>>(
    file_system: &FileSystem,
    segment: &FoundSegment,
    policy: ReplayPolicy,
    mut take: impl AsyncFnMut(LogPosition, Bytes) -> Result<(), E>,
) -> Result<u32, E> {
    let opened = SegmentReader::open(file_system, &segment.path, segment.id).await;
    let Opened::Segment(_, mut reader) = opened.map_err(CommitLogError::from)? else {
        return Ok(HEADER_BYTES as u32);
    };
    // Clients have no acknowledgement of the records behind the known end, unless a disk failure
    // under periodic sync ended the segment. The replay reads all of these records that are whole.
    loop {
        match reader.next().await.map_err(CommitLogError::from)? {
            Read::Record { offset, body } => {
                take(LogPosition { segment: segment.id, offset: offset as u32 }, body).await?;
                maybe_yield().await;
            }
            Read::Nothing { offset, reason } => {
                let durable = match segment.known_end {
                    Some(end) => end,
                    None => {
                        let behind = reader.durable_offset_behind(offset).await;
                        behind.map_err(CommitLogError::from)?
                    }
                };
                if u64::from(durable) > offset {
                    let error = CommitLogError::Corrupt {
                        path: reader.path().to_owned(),
                        offset,
                        reason: format!("{reason}, but the log was durable up to offset {durable}"),
                    };
                    match policy {
                        ReplayPolicy::Stop => return Err(error.into()),
                        ReplayPolicy::Ignore => {
                            tracing::error!(
                                %error,
                                "commit log replay: skipping the rest of a damaged segment \
                                (commit_failure_policy: ignore); its writes are lost"
                            );
                        }
                    }
                }
                break;
            }
        }
    }
    Ok(reader.offset() as u32)
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{
        block_on,
        file::{
            Operation,
            simulated::{Effect, Fault},
        },
    };

    use super::*;
    use crate::layout::marker_body;

    /// The sync of the last two records has failed. A marker before them reports the others as
    /// durable.
    #[test]
    fn a_rewrite_in_parts_makes_the_records_of_a_failed_sync_durable() {
        const ID: u64 = 7;
        const DURABLE: usize = HEADER_BYTES + 5 * (RECORD_OVERHEAD + 100);
        let mut bytes = SegmentHeader { shard: 0, shard_count: 1, id: ID }.encode().to_vec();
        for number in 0..7u8 {
            if number == 5 {
                let durable = LogPosition { segment: ID, offset: DURABLE as u32 };
                put_record(checksum_seed(ID), &marker_body(durable), &mut bytes);
            }
            put_record(checksum_seed(ID), &[number; 100], &mut bytes);
        }
        // The first part has three records. The marker comes before the second part is full, and
        // drops two records from it.
        let cases = [(None, 2), (Some(DURABLE as u32), 1)];
        for (seed, (known_end, writes)) in (0..20).flat_map(|seed| cases.map(|case| (seed, case))) {
            block_on(async {
                let file_system = FileSystem::simulated(seed);
                let disk = file_system.simulated_disk().unwrap().clone();
                let file = file_system.create("segment").await.unwrap();
                file_system.sync_dir("").await.unwrap();
                file.write_at(0, bytes[..DURABLE].to_vec()).await.unwrap();
                file.sync_data().await.unwrap();
                file.write_at(DURABLE as u64, bytes[DURABLE..].to_vec()).await.unwrap();
                disk.inject(Fault::nth(Operation::Sync, 0, Effect::InputOutput));
                file.sync_data().await.unwrap_err();
                let before = disk.operations_of(Operation::Write);
                let path = PathBuf::from("segment");
                let segment = FoundSegment { id: ID, path, shard: 0, shard_count: 1, known_end };
                make_durable_in_parts(&file_system, &segment, 250).await.unwrap();
                assert_eq!(disk.operations_of(Operation::Write) - before, writes);
                let after = FileSystem::on(disk.crash(seed));
                assert_eq!(after.read("segment").await.unwrap(), bytes, "seed {seed}");
            });
        }
    }
}
