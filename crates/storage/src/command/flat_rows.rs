//! The rows of a scan in flat form: one buffer holds the values of all rows.
//!
//! A scan of many rows creates no object for each row. It appends the values that the reader asked
//! for, each as the native protocol encodes it, so that the reader can copy the values into its
//! answer. One shard sends the values to another in the same form.
//!
//! Memory bound: the limits of the read, and the values of one row.

use espalier_mutation::{ColumnData, DecoratedKey, Row, schema::ColumnId};
use espalier_types::collection::write_value;

/// The values of each flat row, in this order: clustering columns, then regular ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatColumns {
    clustering: usize,
    regular: Box<[ColumnId]>,
    /// Each regular column with its index in `regular`, in the order of the columns.
    slots: Box<[(ColumnId, usize)]>,
}

/// The maximum number of columns that a search goes through one by one. Arbitrary.
const FEW: usize = 8;

impl FlatColumns {
    /// Creates the list. `clustering` is the number of clustering columns whose values come first:
    /// all of the table's or none. No regular column is a counter or has several cells.
    pub fn new(clustering: usize, regular: impl Into<Box<[ColumnId]>>) -> Self {
        let regular = regular.into();
        let mut slots: Box<[_]> = regular.iter().copied().zip(0..).collect();
        slots.sort_unstable();
        Self { clustering, regular, slots }
    }

    /// Returns the number of clustering columns whose values come first.
    #[inline]
    pub fn clustering(&self) -> usize {
        self.clustering
    }

    /// Returns the regular columns.
    #[inline]
    pub fn regular(&self) -> &[ColumnId] {
        &self.regular
    }

    /// Returns the index of a regular column among the values of a row.
    #[inline]
    pub fn index_of(&self, id: ColumnId) -> Option<usize> {
        self.slot_of(id).map(|slot| self.clustering + slot)
    }

    /// Returns the index of a column among the regular columns.
    #[inline]
    fn slot_of(&self, id: ColumnId) -> Option<usize> {
        if self.regular.len() <= FEW {
            return self.regular.iter().position(|other| *other == id);
        }
        let found = self.slots.binary_search_by_key(&id, |(other, _)| *other).ok()?;
        self.slots.get(found).map(|(_, slot)| *slot)
    }

    /// Stores the value of a cell among the values of the regular columns, if its column is one of
    /// them.
    #[inline]
    pub(crate) fn put<'r>(&self, id: ColumnId, value: &'r [u8], values: &mut [Option<&'r [u8]>]) {
        if let Some(place) = self.slot_of(id).and_then(|slot| values.get_mut(slot)) {
            *place = Some(value);
        }
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

/// Returns the bytes of a partition's key and static row, as [`super::ReadLimits`] counts them in
/// its `bytes`.
pub(crate) fn partition_bytes(key: &DecoratedKey, static_row: Option<&Row>) -> usize {
    size_of::<FlatPartition>() + key.key.len() + static_row.map_or(0, Row::page_bytes)
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
        if self.partitions.is_empty() && self.ends.is_empty() {
            *self = other;
            return;
        }
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

    /// Appends the values of a visible row.
    pub(crate) fn push_row(&mut self, columns: &FlatColumns, row: &Row) {
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

    /// Returns the bytes of the rows and partitions as [`ReadLimits::bytes`](super::ReadLimits)
    /// counts them.
    pub(crate) fn bytes(&self) -> usize {
        let partitions = self
            .partitions
            .iter()
            .map(|partition| partition_bytes(&partition.key, partition.static_row.as_ref()));
        self.values.len() + partitions.sum::<usize>()
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
