//! The row cache: it holds rows that reads have found in a table's SSTables, and the ranges in
//! which it holds all rows.
//!
//! One trie for each shard holds all tables. A key is the table's number, followed by the path that
//! a memtable uses ([`espalier_mutation::path`]); the value is an `entry::Entry`. docs/cache.md
//! states the rules by number; comments here cite them.
//!
//! | module | what it does |
//! | --- | --- |
//! | `entry` | the value at a position, and the continuity of the range before it |
//! | `table` | a table's part: its number, its epoch, and which reads may add to it |
//! | `lookup` | looks up a single row |
//! | `walk` | iterates over the entries of a partition from a position on |
//! | `partition`, `disk`, `gaps` | stream a partition from memory, and read and fill its gaps |
//! | `partitions` | ranges of partitions that are continuous |
//! | `scan_fill` | adds the partitions that a scan reads |
//! | `access`, `view` | a read's access to the cache, and its narrow view of the table |
//! | `dead` | removes rows that hold only purgeable tombstones |
//! | `single_row` | partitions that consist of one row |
//! | `place` | positions in a partition |
//! | `populate` | adds rows and ranges |
//! | `update` | applies a flushed memtable |
//! | `explain` | reports the cached part of a partition to the operator |
//! | `eviction_ages`, `evict` | choose and evict entries when memory is short |
//! | `ghost_list`, `memory_split` | move memory between rows and pages |
//!
//! The crate knows SSTables and the form of rows in memtables. It sees a table only through
//! [`CacheView`], and memtables only when a flush applies one.
//!
//! **Lineage.** Continuity, versions and the update by a flushed memtable follow ScyllaDB's row
//! cache.
//!
//! **Memory bound.** An insertion is refused while the used bytes, including the bytes that readers
//! of older states retain, exceed the limit. A change of a present entry is not refused, except for
//! a row that grows.

mod access;
mod dead;
mod disk;
mod entry;
mod error;
mod evict;
mod eviction_ages;
mod explain;
mod gaps;
mod ghost_list;
mod lookup;
mod memory_split;
mod partition;
mod partitions;
mod place;
mod populate;
mod scan_fill;
mod single_row;
mod table;
mod update;
mod view;
mod walk;

use std::{cell::RefCell, rc::Rc};

use espalier_memtable::MemtableBudget;
use espalier_sstable::PageCache;
use espalier_trie::memory::InMemoryTrie;

pub use access::{CacheAccess, ScanAccess};
pub use error::CacheError;
pub use explain::{CacheExplanation, ContinuousPartition, ExplainedRange};
pub use gaps::slices_behind;
pub use lookup::trace_look;
pub use partition::CachedPartition;
pub use partitions::{ContinuousEnd, ContinuousRange, KnownPartition};
pub use scan_fill::{FilledPartition, ScanFill, ScannedSources};
pub use single_row::{add_cached_row, only_row_of};
pub use table::{TableCache, Ticket};
pub use view::CacheView;

use entry::{Entry, Owner};
use eviction_ages::EvictionAges;
use ghost_list::GhostList;
use memory_split::SharedMemory;

/// The counters and the content of a row cache, under the names of ScyllaDB's metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCacheMetrics {
    /// Reads of a partition that were served from memory alone.
    pub reads_without_misses: u64,
    /// Reads of a partition that had to read files.
    pub reads_with_misses: u64,
    /// Rows served from memory, and look-ups that a partition's entry answers without a row.
    pub row_hits: u64,
    /// Rows served from files, and look-ups of one row that files answer without a row.
    pub row_misses: u64,
    /// Rows added by reads and flushes.
    pub row_insertions: u64,
    /// Partitions added.
    pub partition_insertions: u64,
    /// Rows evicted to make room.
    pub row_evictions: u64,
    /// Partitions whose last entry was evicted to make room.
    pub partition_evictions: u64,
    /// Rows of flushed memtables that were merged into a cached row.
    pub row_merges: u64,
    /// Rows removed because a deletion covers them, because they had only purgeable tombstones, or
    /// because their table was forgotten.
    pub row_removals: u64,
    /// Insertions that were refused for lack of memory.
    pub refusals: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Rows held, without static rows.
    pub rows: u64,
    /// Partitions held.
    pub partitions: u64,
    /// The limit of `used_bytes` at present.
    pub limit_bytes: u64,
}

impl RowCacheMetrics {
    /// Returns the number of partition reads.
    pub fn reads(&self) -> u64 {
        self.reads_without_misses + self.reads_with_misses
    }

    /// Adds the counters of another shard.
    pub fn add(&mut self, other: &RowCacheMetrics) {
        self.reads_without_misses += other.reads_without_misses;
        self.reads_with_misses += other.reads_with_misses;
        self.row_hits += other.row_hits;
        self.row_misses += other.row_misses;
        self.row_insertions += other.row_insertions;
        self.partition_insertions += other.partition_insertions;
        self.row_evictions += other.row_evictions;
        self.partition_evictions += other.partition_evictions;
        self.row_merges += other.row_merges;
        self.row_removals += other.row_removals;
        self.refusals += other.refusals;
        self.used_bytes += other.used_bytes;
        self.rows += other.rows;
        self.partitions += other.partitions;
        self.limit_bytes += other.limit_bytes;
    }
}

/// A shard's row cache. Clones share the same cache.
#[derive(Clone)]
pub struct RowCache(Rc<RefCell<Inner>>);

struct Inner {
    trie: InMemoryTrie<Entry>,
    /// The number under which the cache's bytes on the heap are counted.
    owner: Owner,
    /// Bytes on the heap of the entries of the current state, without entries that only readers of
    /// older states retain.
    live_heap_bytes: usize,
    memory: SharedMemory,
    /// The ghost list: rows that were evicted lately.
    ghosts: GhostList,
    /// Allocates memory chunks ahead of need, for all tries of the shard.
    memtables: MemtableBudget,
    eviction_ages: EvictionAges,
    /// The key that the clock hand has reached.
    clock_hand: Vec<u8>,
    next_number: u32,
    /// True if any range of partitions was ever continuous.
    has_partition_ranges: bool,
    metrics: RowCacheMetrics,
    /// A buffer for merged rows.
    merged: Vec<u8>,
}

impl RowCache {
    /// Creates an empty cache of at most `limit_bytes`; 0 turns it off.
    ///
    /// The cache takes its memory from the page cache's budget of `budget_bytes`.
    pub fn new(
        limit_bytes: usize,
        pages: PageCache,
        budget_bytes: usize,
        memtables: MemtableBudget,
    ) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            trie: InMemoryTrie::with_chunk_pool(memtables.chunk_pool().clone()),
            memory: SharedMemory::new(limit_bytes.min(MAX_BYTES), pages, budget_bytes),
            memtables,
            owner: Owner::new(),
            live_heap_bytes: 0,
            ghosts: GhostList::new(limit_bytes.min(MAX_BYTES)),
            eviction_ages: EvictionAges::default(),
            clock_hand: Vec::new(),
            next_number: 0,
            has_partition_ranges: false,
            metrics: RowCacheMetrics::default(),
            merged: Vec::new(),
        })))
    }

    /// Returns the counters.
    pub fn metrics(&self) -> RowCacheMetrics {
        let inner = self.0.borrow();
        RowCacheMetrics {
            used_bytes: inner.used_bytes() as u64,
            limit_bytes: inner.memory.limit_bytes as u64,
            ..inner.metrics
        }
    }

    /// Changes the limit and evicts the excess at once. A limit of 0 evicts everything, and turns
    /// the cache off for tables that are created or altered later.
    pub fn set_limit(&self, limit_bytes: usize) {
        let mut inner = self.0.borrow_mut();
        inner.memory.limit_bytes = limit_bytes.min(MAX_BYTES);
        inner.memory.max_bytes = inner.memory.limit_bytes;
        // Memory that no reader retains any more must not count as retained.
        inner.trie.free_retired(u32::MAX);
        // Readers may retain evicted entries, so the loop ends when the hand stands still or has
        // made a whole round without effect.
        let (mut is_whole, mut was_moved) = (inner.clock_hand.is_empty(), false);
        while inner.is_over(0) && !inner.trie.is_empty() {
            let clock_hand = inner.clock_hand.clone();
            was_moved |= inner.make_room();
            if inner.clock_hand.is_empty() {
                if is_whole && !was_moved {
                    break;
                }
                (is_whole, was_moved) = (true, false);
            } else if inner.clock_hand == clock_hand {
                break;
            }
        }
        inner.trie.free_retired(u32::MAX);
    }

    /// Returns whether the cache is off, so that it can hold nothing.
    pub fn is_off(&self) -> bool {
        self.0.borrow().memory.max_bytes == 0
    }
}

/// 7/8 of the 4 GiB that a trie's pointers can address. The rest is room for insertions.
const MAX_BYTES: usize = 7 << 29;

impl Inner {
    /// If the used bytes have changed by more than a portion, lets the page cache use the memory
    /// that rows do not use, and refills the chunk pool.
    fn settle(&mut self) {
        let used = self.used_bytes();
        if self.memory.report(used) {
            self.memtables.refill_chunk_pool();
        }
    }

    /// Returns the bytes that left the current state and are not freed yet, because readers of
    /// older states may retain them.
    fn kept_bytes(&self) -> usize {
        self.trie.retired_bytes() + self.owner.heap_bytes().saturating_sub(self.live_heap_bytes)
    }

    /// Returns the bytes of entries, nodes and rows, including the bytes that readers of older
    /// states retain.
    fn used_bytes(&self) -> usize {
        self.trie.used_bytes() + self.trie.retired_bytes() + self.owner.heap_bytes()
    }
}
