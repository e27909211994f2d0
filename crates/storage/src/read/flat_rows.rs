//! The rows of a scan in flat form: one buffer holds the values of all rows.
//!
//! A scan of many rows makes no object of a row. It appends the values that the reader asked for,
//! each as the native protocol encodes it, so that a reader may copy them into its answer. Another
//! shard can get them as they are.
//!
//! Memory bound: the limits of the read, and the values of one row.

use espalier_mutation::{ColumnData, DecoratedKey, Row, schema::ColumnId};
use espalier_types::collection::write_value;

use super::PartitionRows;

/// The values of each flat row, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatColumns {
    /// The number of clustering columns whose values come first: all of the table or none.
    pub clustering: usize,
    /// The regular columns, none of which is a counter or has several cells.
    pub regular: Box<[ColumnId]>,
}

impl FlatColumns {
    /// Returns the index of a regular column among the values of a row.
    #[inline]
    pub fn index_of(&self, id: ColumnId) -> Option<usize> {
        self.slot_of(id).map(|slot| self.clustering + slot)
    }

    /// Returns the index of a column among the regular columns.
    #[inline]
    pub(crate) fn slot_of(&self, id: ColumnId) -> Option<usize> {
        self.regular.iter().position(|other| *other == id)
    }
}

/// A partition of flat rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatPartition {
    /// The partition key.
    pub key: DecoratedKey,
    /// The static row, if it is live.
    pub static_row: Option<Row>,
    /// The number of rows up to the end of this partition.
    pub rows_end: usize,
}

/// The rows that a read returns, in flat form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlatRows {
    /// The partitions in ring order. Each has a row or a static row.
    pub partitions: Vec<FlatPartition>,
    /// For each row the end of its values in `values`.
    pub ends: Vec<usize>,
    /// The values of all rows, each behind its length as a be32 (−1: null).
    pub values: Vec<u8>,
}

impl FlatRows {
    /// Returns the number of rows; a partition that has only a static row counts as one.
    pub(crate) fn row_count(&self) -> usize {
        let mut start = 0;
        let only_static = self.partitions.iter().filter(|partition| {
            let is_empty = partition.rows_end == start;
            start = partition.rows_end;
            is_empty
        });
        self.ends.len() + only_static.count()
    }

    /// Appends the rows of another shard.
    pub(crate) fn append(&mut self, other: FlatRows) {
        let (rows, bytes) = (self.ends.len(), self.values.len());
        self.ends.extend(other.ends.iter().map(|end| end + bytes));
        self.values.extend_from_slice(&other.values);
        self.partitions.extend(other.partitions.into_iter().map(|mut partition| {
            partition.rows_end += rows;
            partition
        }));
    }

    /// Ends a row whose values were appended.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        self.ends.push(self.values.len());
    }

    /// Drops the values that were appended since the end of the last row.
    #[inline]
    pub(crate) fn drop_unfinished(&mut self) {
        self.values.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Appends the visible rows of a partition, or of the rest of the last one.
    pub(crate) fn push_partition(&mut self, columns: &FlatColumns, partition: PartitionRows) {
        for row in &partition.rows {
            row.clustering.append_to(columns.clustering, &mut self.values);
            for id in &columns.regular {
                let value = match row.column(*id) {
                    Some(ColumnData::Simple(cell)) => Some(&*cell.value),
                    _ => None,
                };
                write_value(value, &mut self.values);
            }
            self.end_row();
        }
        self.end_partition(&partition.key, partition.static_row);
    }

    /// Ends a partition whose rows were appended.
    pub(crate) fn end_partition(&mut self, key: &DecoratedKey, static_row: Option<Row>) {
        let rows_end = self.ends.len();
        match self.partitions.last_mut() {
            Some(last) if last.key == *key => last.rows_end = rows_end,
            _ => self.partitions.push(FlatPartition { key: key.clone(), static_row, rows_end }),
        }
    }
}
