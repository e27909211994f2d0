//! A column of a header: how its cells are encoded, and the table's column that stores them.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::value::ValueForm;
use crate::schema::{ColumnId, is_before_drop};

/// A column of the header of a file or of a message, and how a reader treats its cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedColumn {
    /// True if the column has a cell for each element.
    pub is_complex: bool,
    /// True if the column has counters, whose shards a reader sorts.
    pub is_counter: bool,
    /// True if a reader returns a complex column without a cell or deletion, which only messages
    /// have.
    pub keeps_empty: bool,
    /// The form of its values.
    pub form: ValueForm,
    /// The table's column; `None` if the cells are discarded.
    pub target: Option<ColumnId>,
    /// The reader discards cells at or before this timestamp (µs): they belong to an earlier,
    /// dropped column of this name.
    pub dropped_time_us: i64,
}

impl EncodedColumn {
    /// Returns whether data of this timestamp was dropped with an earlier column of the name.
    #[inline]
    pub fn has_dropped(&self, timestamp: i64) -> bool {
        is_before_drop(self.dropped_time_us, timestamp)
    }
}

/// The header's columns of one kind, and the index of each by its column id.
#[derive(Clone, Debug)]
pub struct EncodedColumns {
    columns: Vec<EncodedColumn>,
    index_by_id: SmallVec<[Option<u32>; 16]>,
}

impl EncodedColumns {
    /// Indexes columns, which are in the order of the header.
    pub fn new(columns: Vec<EncodedColumn>) -> Self {
        let ids = || columns.iter().filter_map(|column| column.target);
        let count = ids().map(|id| id.0 as usize + 1).max().unwrap_or(0);
        let mut index_by_id: SmallVec<[Option<u32>; 16]> = SmallVec::from_elem(None, count);
        for (index, column) in columns.iter().enumerate() {
            let slot = column.target.and_then(|id| index_by_id.get_mut(id.0 as usize));
            if let Some(slot) = slot {
                *slot = Some(index as u32);
            }
        }
        Self { columns, index_by_id }
    }

    /// Returns the columns in the order of the header.
    #[inline]
    pub fn columns(&self) -> &[EncodedColumn] {
        &self.columns
    }

    /// Returns the place of a column in the header.
    #[inline]
    pub fn index(&self, id: ColumnId) -> Option<u32> {
        self.index_by_id.get(id.0 as usize).copied().flatten()
    }
}

/// Compares column names in the order of headers. They are ordered by bytes, but names with a first
/// byte of 80 or above come first, because Cassandra compares the first bytes as a number and flips
/// its sign bit once too often.
pub fn compare_names(left: &str, right: &str) -> Ordering {
    let first = |name: &str| name.as_bytes().first().copied().unwrap_or_default() ^ 0x80;
    first(left).cmp(&first(right)).then_with(|| left.as_bytes().cmp(right.as_bytes()))
}
