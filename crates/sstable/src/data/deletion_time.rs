//! A deletion time in full form, as the head of a partition stores it. Format:
//! docs/formats/README.md.

use bytes::BufMut;
use espalier_mutation::DeletionTime;

use super::input::{DataInput, Decoded, Malformed};
use crate::versions::{DeletionTimeForm, LocalDeletionTimes, VersionFeatures};

const LIVE: u8 = 0x80;

#[inline]
pub(crate) fn read(input: &mut DataInput<'_>, form: DeletionTimeForm) -> Decoded<DeletionTime> {
    match form {
        // The timestamp alone decides whether the deletion is live.
        DeletionTimeForm::Legacy => {
            let (time, timestamp) = (input.u32()?, input.i64()?);
            let deletion = DeletionTime::new(timestamp, time);
            Ok(if deletion.is_live() { DeletionTime::LIVE } else { deletion })
        }
        DeletionTimeForm::Unsigned => {
            let first = input.clone().u8()?;
            if first == LIVE {
                input.u8()?;
                return Ok(DeletionTime::LIVE);
            }
            if first > LIVE {
                return Err(Malformed::Wrong("a deletion time with an unknown flag"));
            }
            let timestamp = input.i64()?;
            Ok(DeletionTime::new(timestamp, input.u32()?))
        }
    }
}

/// Appends a deletion that [`check_deletion`] accepts.
pub(crate) fn write(deletion: DeletionTime, form: DeletionTimeForm, out: &mut Vec<u8>) {
    match form {
        DeletionTimeForm::Legacy => {
            let times = LocalDeletionTimes::Signed;
            out.put_u32(times.stored(deletion.local_deletion_time));
            out.put_i64(deletion.marked_for_delete_at);
        }
        DeletionTimeForm::Unsigned if deletion.is_live() => out.push(LIVE),
        DeletionTimeForm::Unsigned => {
            out.put_i64(deletion.marked_for_delete_at);
            out.put_u32(deletion.local_deletion_time);
        }
    }
}

/// The scope of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionScope {
    /// A whole partition.
    Partition,
    /// A range of rows.
    Range,
    /// A row, a collection or a cell.
    Row,
}

/// A deletion that a format version cannot store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnstorableDeletion {
    /// The timestamp's sign bit is a flag in the full form.
    #[error(
        "a {scope} cannot be deleted at the negative timestamp {timestamp}: \
         version '{version}' of SSTables has no room for it"
    )]
    NegativeTimestamp {
        /// `partition` or `range`.
        scope: &'static str,
        /// In µs.
        timestamp: i64,
        /// The version.
        version: crate::versions::Version,
    },
    /// The second is beyond the range, or is the value for "none".
    #[error("a deletion at second {time} cannot be stored: {maximum} is the latest")]
    LocalDeletionTime {
        /// In seconds since 1970.
        time: u32,
        /// The latest second that can be stored.
        maximum: u32,
    },
}

/// Checks whether SSTables of a version can store a deletion. The engine calls this function before
/// it acknowledges a write, because it must not accept a write that it cannot flush.
///
/// # Errors
///
/// Returns [`UnstorableDeletion`] if the version has no room for the timestamp or the deletion
/// time.
pub fn check_deletion(
    features: &VersionFeatures,
    scope: DeletionScope,
    deletion: DeletionTime,
) -> Result<(), UnstorableDeletion> {
    if deletion.is_live() {
        return Ok(());
    }
    let scope = match scope {
        DeletionScope::Partition => Some("partition"),
        // The row index stores the deletion in full if it is open at the start of a block.
        DeletionScope::Range => Some("range"),
        DeletionScope::Row => None,
    };
    if let (Some(scope), DeletionTimeForm::Unsigned) = (scope, features.deletion_time)
        && deletion.marked_for_delete_at < 0
    {
        let timestamp = deletion.marked_for_delete_at;
        let version = features.version;
        return Err(UnstorableDeletion::NegativeTimestamp { scope, timestamp, version });
    }
    let (time, times) = (deletion.local_deletion_time, features.local_deletion_times);
    let maximum = LocalDeletionTimes::Unsigned.maximum();
    // Versions that end in 2038 store their last second instead of later ones, as Cassandra does.
    if times.stored(time) <= maximum {
        Ok(())
    } else {
        Err(UnstorableDeletion::LocalDeletionTime { time, maximum })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::versions::VERSIONS;

    #[test]
    fn full_forms_round_trip() {
        for deletion in [
            DeletionTime::LIVE,
            DeletionTime::new(0, 0),
            DeletionTime::new(3000, 1_795_210_853),
            DeletionTime::new(i64::MAX, u32::MAX - 2),
        ] {
            let mut out = Vec::new();
            write(deletion, DeletionTimeForm::Unsigned, &mut out);
            let bytes = Bytes::from(out);
            let mut input = DataInput::new(&bytes, 0);
            assert_eq!(read(&mut input, DeletionTimeForm::Unsigned), Ok(deletion));
            assert_eq!(input.offset(), bytes.len());
        }
        let bytes = Bytes::from_static(&[0x81, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(
            read(&mut DataInput::new(&bytes, 0), DeletionTimeForm::Unsigned),
            Err(Malformed::Wrong(_))
        ));
    }

    #[test]
    fn deletions_that_a_version_cannot_store_are_refused() {
        let da = &VERSIONS[0];
        let negative = DeletionTime::new(-1, 5);
        let error = check_deletion(da, DeletionScope::Partition, negative).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a partition cannot be deleted at the negative timestamp -1: version 'da' of SSTables has no room for it"
        );
        assert!(check_deletion(da, DeletionScope::Range, negative).is_err());
        assert_eq!(check_deletion(da, DeletionScope::Row, negative), Ok(()));
        let late = DeletionTime::new(1, u32::MAX - 1);
        assert!(check_deletion(da, DeletionScope::Row, late).is_err());
        assert_eq!(check_deletion(da, DeletionScope::Partition, DeletionTime::LIVE), Ok(()));
    }
}
