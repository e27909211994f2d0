//! Memtables: the newest writes of a table's part on one shard, in one trie down to the row, or in another ordered map that
//! the table asks for (`store`).
//!
//! The trie's path is token, partition key, clustering; the content is packed rows, partition deletions, and the places
//! where range deletions change (`path`). Works 002 has a trie of partitions; going on to the row is the step its
//! authors name as the next one.
//!
//! **Isolation.** A write to one partition is applied without giving way, so a reader that reads without giving way
//! sees all of it or nothing. A reader that comes back for more has a snapshot of the partition: as long as there is
//! one, writes go to copies of the nodes on their paths, and become visible by one store (`memory::Transaction`).
//!
//! **Memory bound.** [`Memtable::memory_bytes`] is exactly what trie and contents take; the shard's budget
//! (`MemtableBudget`) is checked before each write. What was overwritten while a reader had a snapshot counts until it
//! is freed.

mod budget;
mod content;
mod dead_runs;
mod factory;
mod freeing;
mod kind;
mod lookup;
mod memory;
mod merge;
mod only_rows;
mod partition;
pub(crate) mod path;
mod range_tombstones;
mod reader;
mod row_format;
mod run_ahead;
mod scan;
mod statistics;
mod store;
#[cfg(test)]
mod tests;
mod walk;
mod write;

use std::cell::{Cell, RefCell};

use espalier_mutation::schema::TableMetadata;
use espalier_runtime::ShardContext;

pub use budget::{LARGEST_TRIE_BYTES, MemtableBudget};
pub(crate) use dead_runs::is_dead;
pub use factory::MemtableConfigurations;
pub(crate) use factory::MemtableFactory;
pub use kind::{MemtableKind, Structure};
pub(crate) use lookup::Found;
pub use lookup::RowLookup;
pub use memory::MemtableMemory;
pub(crate) use merge::{is_covered, merge_packed, replaces};
pub(crate) use only_rows::OnlyRows;
pub use partition::MemtablePartition;
pub use path::is_exact as gives_values_back;
pub use reader::{MemtableReader, PartitionSnapshot};
pub(crate) use row_format::{RowFormat, corrupt};
pub(crate) use scan::NextInMemory;
pub use statistics::MemtableStatistics;
pub(crate) use walk::walk_direction;
pub(crate) use write::split_stored;

use crate::commitlog::LogPosition;
use store::Store;

/// The writes of one table on one shard since the last flush began.
pub struct Memtable {
    store: RefCell<Store>,
    statistics: RefCell<MemtableStatistics>,
    /// Bytes of contents outside of the trie's slots, without those that were replaced.
    heap_bytes: Cell<usize>,
    /// Whether there is any boundary of range deletions.
    has_boundaries: Cell<bool>,
    /// Whether there was ever a run of dead rows.
    has_runs: Cell<bool>,
    /// The first write's place in the commit log, and the end of the last one's.
    positions: Cell<Option<(LogPosition, LogPosition)>>,
    format: RowFormat,
    /// Whether a reader had a snapshot when the present write began.
    is_read: Cell<bool>,
    buffers: RefCell<write::Buffers>,
    budget: MemtableBudget,
    /// What it has taken from the budget.
    counted_bytes: Cell<usize>,
    /// Whether another one takes writes in its place.
    is_frozen: Cell<bool>,
}

impl Memtable {
    /// An empty one for core `core`, whose memory is taken from `budget`.
    pub fn new(
        table: &TableMetadata,
        kind: MemtableKind,
        core: ShardContext,
        budget: MemtableBudget,
    ) -> Self {
        Self {
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

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.store.borrow().is_empty()
    }

    /// Another one takes writes from now on.
    pub(crate) fn freeze(&self) {
        self.is_frozen.set(true);
    }

    /// Whether another one takes writes in its place.
    #[inline]
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen.get()
    }

    /// All memory of structure and contents.
    pub fn memory_bytes(&self) -> usize {
        self.store.borrow().memory_bytes() + self.heap_bytes.get()
    }

    /// Memory of what is reachable, without free blocks: what a flush is worth.
    pub fn used_bytes(&self) -> usize {
        self.store.borrow().used_bytes() + self.heap_bytes.get()
    }

    /// Whether a trie comes near its own limit (4 GiB of structure and contents), whatever the budget: five eighths of it,
    /// so that a memtable may have more than 2 GiB, and writes go on while the flush before it ends.
    #[inline]
    pub(crate) fn wants_flush(&self) -> bool {
        self.store.borrow().fullest_bytes() > self.budget.trie_bytes() / 8 * 5
    }

    /// Whether nothing more should be written before it is flushed.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.store.borrow().fullest_bytes() > self.budget.trie_bytes() / 8 * 7
    }

    /// Minima and counts for the flush.
    pub fn statistics(&self) -> MemtableStatistics {
        self.statistics.borrow().clone()
    }

    /// Least write timestamp in µs; `i64::MAX` if there is none.
    pub(crate) fn minimum_timestamp(&self) -> i64 {
        self.statistics.borrow().minimum_timestamp
    }

    /// Where its first write stands in the commit log, and the end of its last one; `None` if none was logged.
    pub fn positions(&self) -> Option<(LogPosition, LogPosition)> {
        self.positions.get()
    }

    /// Notes that the memtable holds a write of the log.
    pub(crate) fn add_position(&self, start: LogPosition, end: LogPosition) {
        self.positions.set(Some(match self.positions.get() {
            Some((first, last)) => (first.min(start), last.max(end)),
            None => (start, end),
        }));
    }

    /// Tells the budget what the memtable has grown by.
    #[inline]
    fn settle(&self) {
        let bytes = self.memory_bytes();
        let counted = self.counted_bytes.replace(bytes);
        if bytes > counted {
            self.budget.grow(bytes - counted);
            self.budget.refill_spare_chunks();
        } else if bytes < counted {
            self.budget.shrink(counted - bytes);
        }
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        let store = self.store.get_mut();
        let extent = freeing::Extent {
            contents: store.content_count(),
            content_bytes: self.heap_bytes.get(),
            bytes: self.counted_bytes.get(),
        };
        freeing::free(|| std::mem::take(store).into_remains(), extent, &self.budget);
    }
}
