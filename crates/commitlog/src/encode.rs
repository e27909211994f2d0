//! This module encodes a mutation as the body of a commit log record.
//!
//! ```text
//! body       kind 3, vint count of updates, updates
//! update     vint mapping number, vint length and partition key, flags u8, then by flag
//!   1        partition deletion: timestamp i64, local deletion time u32
//!   2        static row: u32 length and packed row
//!   4        vint count, rows: clustering, u32 length and packed row
//!   8        vint count, range tombstones: start bound, end bound, timestamp i64,
//!            local deletion time u32
//! clustering vint count, for each value vint length + 1 (0: null) and bytes;
//!            a bound has its kind u8 in front
//! ```
//!
//! A write packs each row only here; the memtable copies the packed bytes from the same buffer.

use std::ops::Range;

use espalier_mutation::{
    ColumnRef, Mutation, PartitionUpdate, RowContent, encoding::body, pack_row,
};

use super::layout::{KIND_MUTATION, RECORD_OVERHEAD};
use crate::CommitLogError;

pub(crate) const UPDATE_DELETION: u8 = 1;
pub(crate) const UPDATE_STATIC: u8 = 2;
pub(crate) const UPDATE_ROWS: u8 = 4;
pub(crate) const UPDATE_RANGES: u8 = 8;

/// The body of a mutation's record, and the ranges of the packed rows in it. The buffers are reused
/// and allocate only to grow; the owner calls [`EncodedMutation::shrink_to`] after a large
/// mutation.
#[derive(Default)]
pub struct EncodedMutation {
    /// The body.
    pub body: Vec<u8>,
    /// Byte ranges in `body`: for each update in turn the static row, if any, then its rows in
    /// order.
    pub(crate) packed_rows: Vec<Range<u32>>,
}

impl EncodedMutation {
    /// Encodes `mutation`. `mapping_number` returns the column mapping's number for the update with
    /// the given index.
    ///
    /// # Errors
    /// [`CommitLogError::MutationTooLarge`] if the record would have more than `maximum` bytes.
    /// Many rows may share one large value, so the encoder stops before the row that exceeds the
    /// maximum. It then frees both buffers.
    pub fn encode(
        &mut self,
        mutation: &Mutation,
        maximum: usize,
        mut mapping_number: impl FnMut(usize) -> u32,
    ) -> Result<(), CommitLogError> {
        self.begin(mutation.updates.len());
        let mut updates = mutation.updates.iter().enumerate();
        let encoded = updates.try_for_each(|(index, update)| {
            self.put_update(update, mapping_number(index), maximum)
        });
        if encoded.is_err() {
            self.shrink_to(0);
        }
        encoded
    }

    /// Encodes a mutation that consists of one row.
    ///
    /// # Errors
    /// [`CommitLogError::MutationTooLarge`] if the values have more than `maximum` bytes. Many
    /// columns may share one large value, so the encoder copies nothing then.
    #[inline]
    pub fn encode_row<V: AsRef<[u8]>>(
        &mut self,
        mapping: u32,
        key: &[u8],
        clustering: &[Option<V>],
        row: &impl RowContent,
        maximum: usize,
    ) -> Result<(), CommitLogError> {
        self.begin(1);
        self.check(value_bytes(row), maximum)?;
        self.put_head(mapping, key, UPDATE_ROWS);
        body::put_vint(1, &mut self.body);
        self.put_row(clustering, row);
        Ok(())
    }

    /// Packs one row of a table that is not logged; `body` is no record then.
    ///
    /// # Errors
    /// As [`Self::encode_row`].
    #[inline]
    pub fn pack(&mut self, row: &impl RowContent, maximum: usize) -> Result<(), CommitLogError> {
        self.body.clear();
        self.packed_rows.clear();
        self.check(value_bytes(row), maximum)?;
        self.put_packed(row);
        Ok(())
    }

    #[inline]
    fn begin(&mut self, updates: usize) {
        self.body.clear();
        self.packed_rows.clear();
        self.body.push(KIND_MUTATION);
        body::put_vint(updates as u64, &mut self.body);
    }

    /// Returns the packed bytes of row `index`, counted over the whole mutation.
    #[inline]
    pub fn packed_row(&self, index: usize) -> &[u8] {
        let range = self.packed_rows.get(index).cloned().unwrap_or_default();
        self.body.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// Frees both buffers if `body` has a larger capacity than `bytes`.
    #[inline]
    pub fn shrink_to(&mut self, bytes: usize) {
        if self.body.capacity() > bytes {
            self.body = Vec::new();
            self.packed_rows = Vec::new();
        }
    }

    /// Returns an error if a record of the body and `more` bytes exceeds the maximum.
    #[inline]
    fn check(&self, more: usize, maximum: usize) -> Result<(), CommitLogError> {
        let bytes = self.body.len().saturating_add(more).saturating_add(RECORD_OVERHEAD);
        if bytes > maximum {
            return Err(CommitLogError::MutationTooLarge { bytes, maximum });
        }
        Ok(())
    }

    fn put_update(
        &mut self,
        update: &PartitionUpdate,
        mapping: u32,
        maximum: usize,
    ) -> Result<(), CommitLogError> {
        let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
        let flags = flag(!update.deletion.is_live(), UPDATE_DELETION)
            | flag(update.static_row.is_some(), UPDATE_STATIC)
            | flag(!update.rows.is_empty(), UPDATE_ROWS)
            | flag(!update.range_tombstones.is_empty(), UPDATE_RANGES);
        self.put_head(mapping, &update.key.key, flags);
        if !update.deletion.is_live() {
            body::put_deletion(update.deletion, &mut self.body);
        }
        if let Some(row) = &update.static_row {
            self.check(value_bytes(row), maximum)?;
            self.put_packed(row);
        }
        if !update.rows.is_empty() {
            body::put_vint(update.rows.len() as u64, &mut self.body);
            for row in &update.rows {
                self.check(value_bytes(row), maximum)?;
                self.put_row(&row.clustering.values, row);
            }
        }
        if !update.range_tombstones.is_empty() {
            body::put_vint(update.range_tombstones.len() as u64, &mut self.body);
            for tombstone in &update.range_tombstones {
                body::put_bound(&tombstone.start, &mut self.body);
                body::put_bound(&tombstone.end, &mut self.body);
                body::put_deletion(tombstone.deletion, &mut self.body);
                self.check(0, maximum)?;
            }
        }
        self.check(0, maximum)
    }

    #[inline]
    fn put_head(&mut self, mapping: u32, key: &[u8], flags: u8) {
        body::put_vint(u64::from(mapping), &mut self.body);
        body::put_bytes(key, &mut self.body);
        self.body.push(flags);
    }

    #[inline]
    fn put_row<V: AsRef<[u8]>>(&mut self, clustering: &[Option<V>], row: &impl RowContent) {
        body::put_values(clustering, &mut self.body);
        self.put_packed(row);
    }

    #[inline]
    fn put_packed(&mut self, row: &impl RowContent) {
        let length_at = self.body.len();
        self.body.extend_from_slice(&[0; 4]);
        pack_row(row, &mut self.body);
        let start = length_at + 4;
        let length = (self.body.len() - start) as u32;
        self.body[length_at..start].copy_from_slice(&length.to_le_bytes());
        self.packed_rows.push(start as u32..self.body.len() as u32);
    }
}

/// Returns the bytes of the values and paths of a row, which are a part of the packed row.
#[inline]
fn value_bytes(row: &impl RowContent) -> usize {
    let of_column = |column: ColumnRef<'_>| match column {
        ColumnRef::Simple(cell) => cell.value.len(),
        ColumnRef::Complex(column) => {
            column.cells.iter().map(|(path, cell)| path.len() + cell.value.len()).sum()
        }
    };
    row.columns().map(|(_, column)| of_column(column)).sum()
}
