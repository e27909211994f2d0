//! A memtable keeps the newest writes to a table on one shard, either in a trie that reaches down
//! to the row or in another ordered map that the table's settings choose (`store`).
//!
//! The trie's path is token, partition key, clustering ([`espalier_mutation::path`]); the contents
//! are packed rows, partition deletions, and the boundaries of range deletions. Beside the rows are
//! the entries of the table's secondary indexes.
//!
//! The crate knows neither the commit log nor files. Its user logs a write, applies it here, and
//! records the position in the log ([`Memtable::add_position`]); a flush reads the partitions in
//! order.
//!
//! **Lineage.** "Trie Memtables in Cassandra" (Lambov, VLDB 2022) describes a trie of partitions,
//! and names the extension down to rows as the next step.
//!
//! **Isolation.** A write to one partition is applied without yielding, so a reader that reads
//! without yielding sees all of it or nothing. A reader that yields and then reads more has a
//! snapshot of the partition: while a snapshot exists, writes go to copies of the nodes on their
//! paths, and become visible by one atomic store (`memory::Transaction`).
//!
//! **Memory bound.** [`Memtable::memory_bytes`] counts the memory of structure, contents and index
//! entries, without the allocator's rounding; nodes of a skip list count with their mean size. A
//! write checks the shard's budget (`MemtableBudget`) before it begins. Contents that were
//! overwritten while a reader had a snapshot count until they are freed.

mod budget;
mod buffers;
mod content;
mod error;
mod factory;
mod freeing;
mod index_entries;
mod indexes;
mod kind;
mod lookup;
mod memory;
mod merge;
mod only_rows;
mod partition;
mod partition_writer;
mod range_tombstones;
mod reader;
mod row_change;
mod row_format;
mod rows_in_place;
mod scan;
mod statistics;
mod store;
#[cfg(test)]
mod tests;
mod tombstone_run;
mod tombstone_runs;
mod vectors;
mod walk;
mod write;

use std::cell::{Cell, RefCell};

use espalier_mutation::{LogPosition, schema::TableMetadata};
use espalier_runtime::ShardContext;

pub use budget::{MAX_TRIE_BYTES, MemtableBudget};
pub use error::MemtableError;
pub use factory::{MemtableConfigurations, MemtableFactory};
pub use index_entries::{
    IndexCounts, IndexEntryCount, IndexPortion, IndexPosition, MemtableIndexes,
};
pub use kind::{MemtableKind, Structure};
pub use memory::MemtableMemory;
pub use merge::{is_covered, merge_packed, replaces};
pub use only_rows::OnlyRows;
pub use partition::MemtablePartition;
pub use reader::{MemtableReader, PartitionSnapshot};
pub use row_format::{RowFormat, split_stored};
pub use rows_in_place::{RowsWalked, StoredRow};
pub use scan::NextInMemory;
pub use statistics::MemtableStatistics;
pub use tombstone_runs::is_dead;
pub use vectors::MemtableVectors;
pub use walk::walk_direction;

use store::Store;

/// The writes to one table on one shard between the starts of two flushes.
pub struct Memtable {
    store: RefCell<Store>,
    statistics: RefCell<MemtableStatistics>,
    /// Bytes of contents outside of the trie's slots, without replaced contents.
    heap_bytes: Cell<usize>,
    /// True if there is any boundary of range deletions.
    has_boundaries: Cell<bool>,
    /// True if there was ever a tombstone run.
    has_runs: Cell<bool>,
    /// The position of the first write in the commit log, and the end of the last write.
    positions: Cell<Option<(LogPosition, LogPosition)>>,
    format: RowFormat,
    /// True if a reader had a snapshot when the present write began.
    is_read: Cell<bool>,
    buffers: RefCell<buffers::Buffers>,
    budget: MemtableBudget,
    /// The bytes that the memtable has taken from the budget.
    counted_bytes: Cell<usize>,
    /// True if another memtable takes the writes.
    is_frozen: Cell<bool>,
    /// The entries of the table's secondary indexes, if it has any.
    indexes: Option<Box<RefCell<MemtableIndexes>>>,
}

impl Memtable {
    /// Creates an empty memtable for the core `core`. It takes its memory from `budget`.
    pub fn new(
        table: &TableMetadata,
        kind: MemtableKind,
        core: ShardContext,
        budget: MemtableBudget,
    ) -> Self {
        let indexes = MemtableIndexes::new(table, &budget);
        Self {
            indexes: indexes.map(|indexes| Box::new(RefCell::new(indexes))),
            store: RefCell::new(Store::new(kind, core, &budget)),
            statistics: RefCell::default(),
            heap_bytes: Cell::new(0),
            has_boundaries: Cell::new(false),
            has_runs: Cell::new(false),
            positions: Cell::new(None),
            format: RowFormat::of(table),
            is_read: Cell::new(false),
            buffers: RefCell::default(),
            budget,
            counted_bytes: Cell::new(0),
            is_frozen: Cell::new(false),
        }
    }

    /// Returns whether nothing was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.store.borrow().is_empty()
    }

    /// Records that another memtable takes the writes.
    pub fn freeze(&self) {
        self.is_frozen.set(true);
    }

    /// Returns whether another memtable takes the writes.
    #[inline]
    pub fn is_frozen(&self) -> bool {
        self.is_frozen.get()
    }

    /// Returns the bytes of memory that structure and contents take.
    pub fn memory_bytes(&self) -> usize {
        let of_indexes = self.with_indexes(MemtableIndexes::memory_bytes).unwrap_or(0);
        self.store.borrow().memory_bytes() + self.heap_bytes.get() + of_indexes
    }

    /// Returns the bytes of memory in use, without free blocks. A flush makes this memory
    /// available.
    pub fn used_bytes(&self) -> usize {
        let of_indexes = self.with_indexes(MemtableIndexes::used_bytes).unwrap_or(0);
        self.store.borrow().used_bytes() + self.heap_bytes.get() + of_indexes
    }

    /// Returns whether a trie has reached 5/8 of its own limit ([`MAX_TRIE_BYTES`], or less in
    /// tests), whatever the budget. So a memtable may hold more than 2 GiB, and writes have room
    /// while the previous flush ends.
    #[inline]
    pub fn wants_flush(&self) -> bool {
        self.fullest_bytes() > self.budget.trie_bytes() / 8 * 5
    }

    /// Returns whether nothing more should be written before the memtable is flushed.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.fullest_bytes() > self.budget.trie_bytes() / 8 * 7
    }

    /// Returns the bytes of the largest trie.
    #[inline]
    fn fullest_bytes(&self) -> usize {
        let of_indexes = self.with_indexes(MemtableIndexes::fullest_bytes).unwrap_or(0);
        self.store.borrow().fullest_bytes().max(of_indexes)
    }

    /// Returns the minima and counts that the flush needs.
    pub fn statistics(&self) -> MemtableStatistics {
        self.statistics.borrow().clone()
    }

    /// Returns the greatest write timestamp in µs; `i64::MIN` if there is none.
    pub fn maximum_timestamp(&self) -> i64 {
        self.statistics.borrow().maximum_timestamp
    }

    /// Returns the least write timestamp in µs; `i64::MAX` if there is none.
    pub fn minimum_timestamp(&self) -> i64 {
        self.statistics.borrow().minimum_timestamp
    }

    /// Returns the position of the first write in the commit log, and the end of the last one;
    /// `None` if no write was logged.
    pub fn positions(&self) -> Option<(LogPosition, LogPosition)> {
        self.positions.get()
    }

    /// Records that the memtable holds a write of the log.
    #[inline]
    pub fn add_position(&self, start: LogPosition, end: LogPosition) {
        self.positions.set(Some(match self.positions.get() {
            Some((first, last)) => (first.min(start), last.max(end)),
            None => (start, end),
        }));
    }

    /// Reports to the budget the bytes by which the memtable has grown or shrunk.
    #[inline]
    fn settle(&self) {
        let bytes = self.memory_bytes();
        let counted = self.counted_bytes.replace(bytes);
        if bytes > counted {
            self.budget.grow(bytes - counted);
            self.budget.refill_chunk_pool();
        } else if bytes < counted {
            self.budget.shrink(counted - bytes);
        }
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        if let Some(indexes) = self.indexes.take() {
            freeing::free_elsewhere(indexes);
        }
        let store = self.store.get_mut();
        let extent = freeing::Extent {
            contents: store.content_count(),
            content_bytes: self.heap_bytes.get(),
            bytes: self.counted_bytes.get(),
        };
        freeing::free(|| std::mem::take(store).into_remains(), extent, &self.budget);
    }
}
