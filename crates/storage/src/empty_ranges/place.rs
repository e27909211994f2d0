//! Places: positions among all rows of a table. A place is the path of a partition, as a memtable's
//! trie has it, followed by the path of a row or a bound in the partition.

use std::rc::Rc;

use espalier_mutation::{DecoratedKey, DecoratedKeyRef, KeyBound, path, schema::TableMetadata};

use crate::{ReadPosition, StorageError};

/// The path behind all partitions.
const END: &[u8] = &[path::BEHIND];

/// Returns the path of a partition.
pub(super) fn path_of(key: DecoratedKeyRef<'_>) -> Vec<u8> {
    let mut partition = Vec::with_capacity(key.key.len() + 16);
    path::put_partition(key, &mut partition);
    partition
}

/// A position between rows, ordered as rows are read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    path: Rc<[u8]>,
    /// The length of the partition's part of the path; 0 if the path is a token's, or the end.
    /// Places with equal paths have equal lengths here: partition paths are prefix-free, and a
    /// token's path is shorter than any of them. So the derived order is that of the paths.
    partition_bytes: usize,
}

impl Place {
    /// Returns the place of a bound as the start of a range of partitions.
    pub(crate) fn start(bound: &KeyBound) -> Self {
        let mut path = Vec::new();
        path::put_key_bound(bound, &mut path);
        let partition_bytes = match bound {
            KeyBound::BeforeKey(_) => path.len(),
            KeyBound::AfterKey(_) => path.len() - 1,
            _ => 0,
        };
        Self { path: path.into(), partition_bytes }
    }

    /// Returns the place of a bound as the end of a range of partitions.
    pub(crate) fn end(bound: &KeyBound) -> Self {
        match bound {
            KeyBound::Unbounded => Self { path: END.into(), partition_bytes: 0 },
            bound => Self::start(bound),
        }
    }

    /// Returns the place in front of the partition with this path.
    pub(crate) fn before_partition(partition: &[u8]) -> Self {
        Self { path: partition.into(), partition_bytes: partition.len() }
    }

    /// Returns the place behind the partition with this path.
    pub(crate) fn behind_partition(partition: &[u8]) -> Self {
        Self::within(partition, &[path::BEHIND])
    }

    /// Returns the places in front of and behind a row of the partition with this path. In a table
    /// without clustering columns they are those around the partition.
    pub(super) fn around<V: AsRef<[u8]>>(
        table: &TableMetadata,
        partition: &[u8],
        clustering: &[Option<V>],
    ) -> (Self, Self) {
        if clustering.is_empty() {
            return Self::around_partition(partition);
        }
        let mut row = Vec::new();
        path::put_row(table.comparator(), clustering, &mut row);
        Self::around_row(partition, &row)
    }

    /// Returns the places in front of and behind a partition.
    pub(crate) fn around_partition(partition: &[u8]) -> (Self, Self) {
        (Self::before_partition(partition), Self::behind_partition(partition))
    }

    /// Returns the place behind the row at which a read stopped, or behind its partition.
    pub(crate) fn behind(table: &TableMetadata, position: &ReadPosition) -> Self {
        let partition = path_of(position.key.borrowed());
        match &position.clustering {
            Some(clustering) => Self::around(table, &partition, &clustering.values).1,
            None => Self::behind_partition(&partition),
        }
    }

    /// Returns the place of a bound in a partition, by its path there.
    pub(crate) fn within(partition: &[u8], bound: &[u8]) -> Self {
        // Behind the last row there is nothing more of the partition.
        let bound = if bound == [path::TOP] { &[path::BEHIND] } else { bound };
        Self { path: [partition, bound].concat().into(), partition_bytes: partition.len() }
    }

    /// Returns the places in front of and behind a row, by its path in the partition.
    pub(crate) fn around_row(partition: &[u8], row: &[u8]) -> (Self, Self) {
        let mut bound = row.to_vec();
        let mut at = |terminator| {
            if let Some(last) = bound.last_mut() {
                *last = terminator;
            }
            Self::within(partition, &bound)
        };
        (at(path::BOTTOM), at(path::TOP))
    }

    /// Returns the places in front of and behind the static row.
    pub(crate) fn around_static_row(partition: &[u8]) -> (Self, Self) {
        let at = |byte| Self::within(partition, &[byte]);
        (at(path::STATIC), at(path::STATIC + 1))
    }

    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns the path within a partition, if the place is in it.
    pub(crate) fn in_partition(&self, partition: &[u8]) -> Option<&[u8]> {
        (self.partition_bytes == partition.len())
            .then(|| self.path.strip_prefix(partition))
            .flatten()
    }

    /// Returns the partition that the place lies in or directly in front of, and the path within
    /// the partition. `None` if the place is behind a partition or at a bound of tokens.
    pub(crate) fn split(&self) -> Result<Option<(DecoratedKey, &[u8])>, StorageError> {
        let (partition, rest) = self.path.split_at(self.partition_bytes);
        if partition.is_empty() || rest == [path::BEHIND] {
            return Ok(None);
        }
        Ok(Some((partition_key(partition)?, rest)))
    }

    /// Returns the bound from which a scan of partitions finds all rows behind the place; `None` if
    /// there are none.
    pub(crate) fn key_bound(&self) -> Result<Option<KeyBound>, StorageError> {
        if *self.path == *END {
            return Ok(None);
        }
        let (partition, rest) = self.path.split_at(self.partition_bytes);
        if partition.is_empty() {
            return Ok(Some(path::token_bound(&self.path).unwrap_or(KeyBound::Unbounded)));
        }
        let key = partition_key(partition)?;
        Ok(Some(match rest {
            [path::BEHIND] => KeyBound::AfterKey(key),
            _ => KeyBound::BeforeKey(key),
        }))
    }
}

fn partition_key(partition: &[u8]) -> Result<DecoratedKey, StorageError> {
    path::partition_key(partition, true).map_err(StorageError::malformed_key("cached empty range"))
}
