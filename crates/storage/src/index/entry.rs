//! Splits and decodes the bytes of an entry.
//!
//! ```text
//! 40 escaped form of the value 38     the value
//! 40 token 40 escaped key 38          the partition, as in the memtable's trie
//! clustering, 38                      the row, as there; none if the index lists partitions
//! ```
//!
//! Entries of one value are in the order of the table. Values are in the order of their forms
//! (`put_form` of the mutation crate), even if a form was cut.

use espalier_mutation::{Clustering, ClusteringComparator, DecoratedKey, Listed, path};
use espalier_types::byte_comparable::{TERMINATOR, escaped_length};

use crate::StorageError;

/// Greater than the byte behind any value in an entry.
pub(super) const BEHIND: u8 = path::BEHIND;

/// Returns the length of the value at the beginning of an entry.
#[inline]
pub(super) fn value_length(entry: &[u8]) -> Result<usize, StorageError> {
    part_length(entry, 1).ok_or_else(|| corrupt("its value does not end"))
}

/// Splits the place behind the value of an entry into the partition and the row.
pub(crate) fn split_place(place: &[u8]) -> Result<(&[u8], &[u8]), StorageError> {
    const KEY: usize = 1 + size_of::<u64>() + 1;
    let length = part_length(place, KEY).ok_or_else(|| corrupt("its key does not end"))?;
    Ok(place.split_at(length))
}

/// Returns the length of `head` bytes, an escaped string, and the terminator behind it.
#[inline]
fn part_length(bytes: &[u8], head: usize) -> Option<usize> {
    let end = head + escaped_length(bytes.get(head..)?)?;
    (bytes.get(end) == Some(&TERMINATOR)).then_some(end + 1)
}

/// Decodes the partition of an entry.
pub(crate) fn partition_key(partition: &[u8]) -> Result<DecoratedKey, StorageError> {
    path::partition_key(partition, true)
        .map_err(|error| corrupt(&format!("a partition key in a secondary index: {error}")))
}

/// Decodes the row of an entry.
pub(crate) fn clustering(
    comparator: &ClusteringComparator,
    row: &[u8],
) -> Result<Clustering, StorageError> {
    path::clustering(comparator, row).map_err(|error| corrupt(&error.to_string()))
}

/// Checks that an entry can be split and decoded.
pub(super) fn check(
    comparator: &ClusteringComparator,
    listed: Listed,
    entry: &[u8],
) -> Result<(), StorageError> {
    let place = entry.get(value_length(entry)?..).unwrap_or_default();
    check_place(comparator, listed, place)
}

/// Checks that a place can be split and decoded.
pub(super) fn check_place(
    comparator: &ClusteringComparator,
    listed: Listed,
    place: &[u8],
) -> Result<(), StorageError> {
    let (partition, row) = split_place(place)?;
    partition_key(partition)?;
    if listed == Listed::Rows {
        clustering(comparator, row)?;
    }
    Ok(())
}

/// Names an entry in errors.
const ENTRY: &str = "an entry of a secondary index";

fn corrupt(reason: &str) -> StorageError {
    StorageError::Corrupt { what: ENTRY.into(), reason: reason.into() }
}

/// Returns whether an error says that an entry is malformed.
pub(crate) fn is_malformed(error: &StorageError) -> bool {
    matches!(error, StorageError::Corrupt { what, .. } if what == ENTRY)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use espalier_mutation::put_entry_value;
    use espalier_types::CqlType;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_entry_is_split_where_it_was_joined(
            form in prop::collection::vec(any::<u8>(), 0..8),
            key in prop::collection::vec(any::<u8>(), 1..8),
            value in prop::collection::vec(any::<u8>(), 0..5),
        ) {
            let comparator = ClusteringComparator { types: [(CqlType::Blob, true)].into() };
            let key = DecoratedKey::new(key.into());
            let row = [Some(Bytes::from(value))];
            let mut entry = Vec::new();
            put_entry_value(&form, &mut entry);
            path::put_partition(key.borrowed(), &mut entry);
            path::put_row(&comparator, &row, &mut entry);
            let (_, place) = entry.split_at(value_length(&entry).unwrap());
            let (partition, rest) = split_place(place).unwrap();
            prop_assert_eq!(partition_key(partition).unwrap(), key);
            prop_assert_eq!(clustering(&comparator, rest).unwrap().values.to_vec(), row.to_vec());
        }

        #[test]
        fn random_bytes_are_an_error_and_no_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..30),
        ) {
            let _ = value_length(&bytes);
            if let Ok((partition, row)) = split_place(&bytes) {
                let _ = partition_key(partition);
                let _ = clustering(&ClusteringComparator { types: [].into() }, row);
            }
        }
    }
}
