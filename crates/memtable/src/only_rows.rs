//! This module reads several partitions at a time from the memtable of a table that has one row in
//! each partition. The flush uses it to write all partitions.
//!
//! A walk that seeks each partition anew and makes objects of it costs three times as much as the
//! work on the row. Here one seek serves up to 32 partitions. The module prefetches their rows and
//! then copies them into one buffer, so that the cache misses overlap.

use espalier_mutation::{DecoratedKey, KeyBound, path};
use espalier_trie::{cursor::Direction, prefetch::prefetch_range};

use super::{Memtable, content::Content, error::partition_key};
use crate::MemtableError;

/// Partitions taken at a time: some microseconds.
const AT_ONCE: usize = 32;
/// Bytes of rows after which no more rows are taken, so that the buffer stays small.
const BYTES_AT_ONCE: usize = 64 << 10;

/// Partitions that have a row and nothing else.
#[derive(Default)]
pub struct OnlyRows {
    /// The keys, each with the end of its row in `bytes`.
    keys: Vec<(DecoratedKey, usize)>,
    bytes: Vec<u8>,
}

impl OnlyRows {
    /// Iterates over keys and packed rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&DecoratedKey, &[u8])> {
        let mut start = 0;
        self.keys.iter().map(move |(key, end)| {
            let row = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            (key, row)
        })
    }

    /// Returns the last key.
    pub fn last(&self) -> Option<&DecoratedKey> {
        self.keys.last().map(|(key, _)| key)
    }
}

impl Memtable {
    /// Fills `rows` with the partitions behind a bound, as long as each is a row and nothing else.
    /// Finds none in tables with more rows in a partition.
    ///
    /// # Errors
    ///
    /// Fails if a key is damaged.
    pub fn next_only_rows(
        &self,
        bound: &KeyBound,
        rows: &mut OnlyRows,
    ) -> Result<(), MemtableError> {
        rows.keys.clear();
        rows.bytes.clear();
        if !self.format.is_single_row {
            return Ok(());
        }
        let mut from = Vec::with_capacity(32);
        path::put_key_bound(bound, &mut from);
        let store = self.store.borrow();
        let mut entries = store.entries(Direction::Forward);
        entries.seek(&from);
        let mut found: [&[u8]; AT_ONCE] = [&[]; AT_ONCE];
        let mut length = 0;
        for row in &mut found {
            if length >= BYTES_AT_ONCE {
                break;
            }
            let Some((key, content)) = entries.next_entry() else { break };
            // The content is a deletion, which a row may follow.
            let Some(bytes) = content.row_bytes() else { break };
            if matches!(content, Content::Heap(_)) {
                prefetch_range(bytes, 0, bytes.len().min(super::lookup::LIKELY_BYTES));
            }
            length += bytes.len();
            rows.keys.push((partition_key(key, false)?, length));
            *row = bytes;
        }
        rows.bytes.reserve(length);
        found.iter().take(rows.keys.len()).for_each(|row| rows.bytes.extend_from_slice(row));
        Ok(())
    }
}
