//! The row cache: what the files of a table hold, as far as it was read, by rows and by ranges of them.
//!
//! One trie for each shard and all its tables. A key is a table's number, then the path of a memtable (`memtable::path`);
//! the content is an [`entry::Entry`]. docs/cache.md states the rules by number; comments here name them.
//!
//! | module | what it does |
//! | --- | --- |
//! | `entry` | what is known at a place, and of the range before it |
//! | `table` | a table's part: its number, its phase, who may add to it |
//! | `lookup` | one row at once |
//! | `walk` | what is known from one place on |
//! | `partition`, `disk` | a partition as a stream: from memory, and from files where there are gaps, which it fills |
//! | `single_row` | the same for partitions that are one row |
//! | `populate` | adding rows and ranges |
//! | `update` | what a flush brings |
//! | `ages`, `evict` | which entries go when there is no room |
//!
//! **Memory bound.** What is used, with what readers of older states keep, passes the limit by no more than what the last insertion
//! took: nothing is added when it is reached.

mod ages;
mod disk;
mod entry;
mod evict;
mod lookup;
mod partition;
mod place;
mod populate;
mod single_row;
mod table;
mod update;
mod walk;

use std::{cell::RefCell, rc::Rc, sync::Arc};

use espalier_trie::memory::{InMemoryTrie, SpareChunks};

pub(crate) use lookup::CachedLookup;
pub(crate) use partition::CachedPartition;
pub(crate) use single_row::{add_row_at_hand, read_single_row};
pub(crate) use table::{TableCache, Ticket};

use ages::Ages;
use entry::Entry;

/// What a cache did so far, and holds. Names are those of ScyllaDB's metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCacheMetrics {
    /// Reads of a partition that were answered from memory.
    pub reads_without_misses: u64,
    /// Reads that had to ask the files for something.
    pub reads_with_misses: u64,
    /// Rows given from memory.
    pub row_hits: u64,
    /// Rows given from files.
    pub row_misses: u64,
    /// Rows added by reads and flushes.
    pub row_insertions: u64,
    /// Partitions added.
    pub partition_insertions: u64,
    /// Rows that made room.
    pub row_evictions: u64,
    /// Partitions of which the last entry made room.
    pub partition_evictions: u64,
    /// Rows of flushed memtables that met the same row here.
    pub row_merges: u64,
    /// Rows that were removed since a deletion covers them, or all of their table was forgotten.
    pub row_removals: u64,
    /// What was to be added and found no room.
    pub refusals: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Rows held, static ones not counted.
    pub rows: u64,
    /// Partitions held.
    pub partitions: u64,
}

/// A shard's row cache. Clones are the same cache.
#[derive(Clone)]
pub(crate) struct RowCache(Rc<RefCell<Inner>>);

pub(super) struct Inner {
    trie: InMemoryTrie<Entry>,
    /// Bytes of contents outside of the trie.
    heap_bytes: usize,
    limit_bytes: usize,
    ages: Ages,
    /// The key that the hand has reached.
    hand: Vec<u8>,
    next_number: u32,
    metrics: RowCacheMetrics,
    /// For merged rows.
    merged: Vec<u8>,
}

impl RowCache {
    /// An empty cache of at most `limit_bytes`; 0: nothing is cached.
    pub(crate) fn new(limit_bytes: usize, spare: &Arc<SpareChunks>) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            trie: InMemoryTrie::with_spare_chunks(spare.clone()),
            heap_bytes: 0,
            limit_bytes: limit_bytes.min(LARGEST_BYTES),
            ages: Ages::default(),
            hand: Vec::new(),
            next_number: 0,
            metrics: RowCacheMetrics::default(),
            merged: Vec::new(),
        })))
    }

    /// What it did so far.
    pub(crate) fn metrics(&self) -> RowCacheMetrics {
        let inner = self.0.borrow();
        RowCacheMetrics { used_bytes: inner.used_bytes() as u64, ..inner.metrics }
    }

    /// Changes the limit; what is too much is evicted at once. 0 turns nothing off that is on already, it evicts all.
    pub(crate) fn set_limit(&self, limit_bytes: usize) {
        let mut inner = self.0.borrow_mut();
        inner.limit_bytes = limit_bytes.min(LARGEST_BYTES);
        // Two rounds: the first may end where the hand began, and leave headers whose rows it took.
        let mut rounds = 0;
        while inner.is_over(0) && rounds < 3 {
            inner.make_room();
            rounds += usize::from(inner.hand.is_empty());
        }
    }

    /// Whether nothing can be in it.
    pub(crate) fn is_off(&self) -> bool {
        self.0.borrow().limit_bytes == 0
    }
}

/// What the pointers of a trie reach, less what an insertion needs.
const LARGEST_BYTES: usize = 7 << 29;

impl Inner {
    /// Of entries, nodes and rows, and what readers of older states keep.
    fn used_bytes(&self) -> usize {
        self.trie.used_bytes() + self.trie.retired_bytes() + self.heap_bytes
    }
}
