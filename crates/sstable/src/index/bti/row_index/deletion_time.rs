//! This module encodes the deletions in Rows.db. A partition's deletion has the form of `oa` and
//! `da`, also in `ms` and `mt`. A deletion that is open at a block is stored without a flag.
//!
//! The byte `80` means that the partition is not deleted. Otherwise the deletion is the timestamp
//! (be64, its top bit 0) and the local deletion time (be32). ScyllaDB extends the form by the byte
//! `C0`, after which the timestamp may be negative.

use espalier_mutation::DeletionTime;

use super::super::error::IndexWriteError;
use super::layout::NegativeDeletions;

const LIVE: u8 = 0x80;
const NEGATIVE: u8 = 0xC0;

/// Length in bytes of a deletion without a flag.
pub(super) const RAW_SIZE: usize = 12;

pub(super) fn write_raw(deletion: DeletionTime, output: &mut Vec<u8>) {
    output.extend_from_slice(&deletion.marked_for_delete_at.to_be_bytes());
    output.extend_from_slice(&deletion.local_deletion_time.to_be_bytes());
}

pub(super) fn read_raw(bytes: &[u8]) -> Option<DeletionTime> {
    let (timestamp, rest) = bytes.split_first_chunk()?;
    let (local_deletion_time, _) = rest.split_first_chunk()?;
    Some(DeletionTime {
        marked_for_delete_at: i64::from_be_bytes(*timestamp),
        local_deletion_time: u32::from_be_bytes(*local_deletion_time),
    })
}

pub(super) fn write(
    deletion: DeletionTime,
    negative: NegativeDeletions,
    output: &mut Vec<u8>,
) -> Result<(), IndexWriteError> {
    if deletion.is_live() {
        output.push(LIVE);
        return Ok(());
    }
    if deletion.marked_for_delete_at < 0 {
        negative.check(deletion)?;
        output.push(NEGATIVE);
    }
    write_raw(deletion, output);
    Ok(())
}

pub(super) fn read(bytes: &[u8]) -> Option<DeletionTime> {
    match *bytes.first()? {
        LIVE => Some(DeletionTime::LIVE),
        NEGATIVE => read_raw(bytes.get(1..)?),
        first if first < LIVE => read_raw(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_come_back() {
        for (timestamp, size) in [(i64::MIN, 1), (0, 12), (3000, 12), (i64::MAX, 12), (-5, 13)] {
            let deletion = match timestamp {
                i64::MIN => DeletionTime::LIVE,
                timestamp => DeletionTime {
                    marked_for_delete_at: timestamp,
                    local_deletion_time: 1_795_210_853,
                },
            };
            let mut bytes = Vec::new();
            write(deletion, NegativeDeletions::Extended, &mut bytes).unwrap();
            assert_eq!((bytes.len(), read(&bytes)), (size, Some(deletion)));
            assert_eq!(read(&bytes[..size - 1]), None);
            let refused = write(deletion, NegativeDeletions::Refused, &mut bytes).is_err();
            assert_eq!(refused, timestamp == -5);
        }
        for flag in 0x81..=0xFF {
            let mut bytes = [0; 13];
            bytes[0] = flag;
            assert_eq!(read(&bytes).is_some(), flag == NEGATIVE);
        }
    }
}
