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
//! | `partitions` | which partitions there are: known ranges of them |
//! | `scan`, `scan_fill` | a range of partitions from memory, and what a scan of the files adds |
//! | `dead` | rows that nobody needs any more |
//! | `single_row` | the same for partitions that are one row |
//! | `populate` | adding rows and ranges |
//! | `update` | what a flush brings |
//! | `explain` | what is known of a partition, for people |
//! | `ages`, `evict` | which entries go when there is no room |
//! | `balance` | what rows have beside pages |
//!
//! **Memory bound.** What is used, with what readers of older states keep, passes the limit by no more than what the last insertion
//! took: nothing is added when it is reached.

mod ages;
mod balance;
mod dead;
mod disk;
mod entry;
mod evict;
mod explain;
mod lookup;
mod partition;
mod partitions;
mod place;
mod populate;
mod scan;
mod scan_fill;
mod single_row;
mod table;
mod update;
mod walk;

use std::{cell::RefCell, rc::Rc};

use espalier_sstable::PageCache;
use espalier_trie::memory::InMemoryTrie;

pub use explain::{CacheExplanation, KnownPartition, KnownRange};
pub(crate) use partition::CachedPartition;
pub(crate) use scan::{CacheAccess, KnownScan, KnownStep};
pub(crate) use scan_fill::{FilledPartition, ScanFill};
pub(crate) use single_row::{add_row_at_hand, read_single_row};
pub(crate) use table::{TableCache, Ticket};

use ages::Ages;
use balance::Gone;
use entry::{Entry, Owner};

use crate::memtable::MemtableBudget;

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
    /// Bytes that may be in use now.
    pub limit_bytes: u64,
}

impl RowCacheMetrics {
    /// Reads of partitions.
    pub fn reads(&self) -> u64 {
        self.reads_without_misses + self.reads_with_misses
    }

    /// The sum over shards.
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

/// A shard's row cache. Clones are the same cache.
#[derive(Clone)]
pub(crate) struct RowCache(Rc<RefCell<Inner>>);

pub(super) struct Inner {
    trie: InMemoryTrie<Entry>,
    /// For whom the rows on the heap are counted.
    owner: Owner,
    /// Of rows on the heap that are not replaced.
    live_heap_bytes: usize,
    /// What rows may take now, and at most.
    limit_bytes: usize,
    most_bytes: usize,
    /// What made room lately.
    gone: Gone,
    /// Pages that were read again soon after they made room, when that was looked at last.
    pages_returned: u64,
    pages: PageCache,
    /// Of rows and pages together.
    budget_bytes: usize,
    /// What the page cache was told that rows take.
    told_bytes: usize,
    /// Makes chunks of memory ahead of need for all tries of the shard.
    memtables: MemtableBudget,
    ages: Ages,
    /// The key that the hand has reached.
    hand: Vec<u8>,
    next_number: u32,
    /// Whether any range of partitions was ever known.
    has_partition_ranges: bool,
    metrics: RowCacheMetrics,
    /// For merged rows.
    merged: Vec<u8>,
}

impl RowCache {
    /// An empty cache of at most `limit_bytes`; 0: nothing is cached.
    ///
    /// It takes its memory from the page cache's budget of `budget_bytes`.
    pub(crate) fn new(
        limit_bytes: usize,
        pages: PageCache,
        budget_bytes: usize,
        memtables: MemtableBudget,
    ) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            trie: InMemoryTrie::with_spare_chunks(memtables.spare_chunks().clone()),
            pages,
            budget_bytes,
            told_bytes: 0,
            memtables,
            owner: Owner::new(),
            live_heap_bytes: 0,
            limit_bytes: limit_bytes.min(LARGEST_BYTES),
            most_bytes: limit_bytes.min(LARGEST_BYTES),
            gone: Gone::new(limit_bytes.min(LARGEST_BYTES)),
            pages_returned: 0,
            ages: Ages::default(),
            hand: Vec::new(),
            next_number: 0,
            has_partition_ranges: false,
            metrics: RowCacheMetrics::default(),
            merged: Vec::new(),
        })))
    }

    /// What it did so far.
    pub(crate) fn metrics(&self) -> RowCacheMetrics {
        let inner = self.0.borrow();
        RowCacheMetrics {
            used_bytes: inner.used_bytes() as u64,
            limit_bytes: inner.limit_bytes as u64,
            ..inner.metrics
        }
    }

    /// Changes the limit; what is too much is evicted at once. 0 turns nothing off that is on already, it evicts all.
    pub(crate) fn set_limit(&self, limit_bytes: usize) {
        let mut inner = self.0.borrow_mut();
        inner.limit_bytes = limit_bytes.min(LARGEST_BYTES);
        inner.most_bytes = inner.limit_bytes;
        // What nobody keeps any more must not look as if somebody did.
        inner.trie.free_retired(u32::MAX);
        // Readers may keep what is evicted: it ends where the hand stands still, or has gone a whole round for nothing.
        let (mut is_whole, mut was_moved) = (inner.hand.is_empty(), false);
        while inner.is_over(0) && !inner.trie.is_empty() {
            let hand = inner.hand.clone();
            was_moved |= inner.make_room();
            if inner.hand.is_empty() {
                if is_whole && !was_moved {
                    break;
                }
                (is_whole, was_moved) = (true, false);
            } else if inner.hand == hand {
                break;
            }
        }
        inner.trie.free_retired(u32::MAX);
    }

    /// Whether nothing can be in it.
    pub(crate) fn is_off(&self) -> bool {
        self.0.borrow().most_bytes == 0
    }
}

/// What the pointers of a trie reach, less what an insertion needs.
const LARGEST_BYTES: usize = 7 << 29;

/// Rows and pages settle what they take in portions of this part of the limit.
const SETTLED_PART: usize = 256;

/// But of no more: so many bytes are some hundred pages that go at once, within a tenth of a millisecond.
const MOST_SETTLED_BYTES: usize = 512 << 10;

impl Inner {
    /// Gives pages what rows do not take, and makes memory ready that will be needed.
    fn settle(&mut self) {
        let used = self.used_bytes();
        let portion = (self.limit_bytes / SETTLED_PART).min(MOST_SETTLED_BYTES);
        if used.abs_diff(self.told_bytes) > portion {
            self.told_bytes = used;
            self.pages.set_budget(self.budget_bytes.saturating_sub(used));
            self.memtables.refill_spare_chunks();
        }
    }

    /// What readers of older states keep.
    fn kept_bytes(&self) -> usize {
        self.trie.retired_bytes() + self.owner.heap_bytes().saturating_sub(self.live_heap_bytes)
    }

    /// Of entries, nodes and rows, and what readers of older states keep.
    fn used_bytes(&self) -> usize {
        self.trie.used_bytes() + self.trie.retired_bytes() + self.owner.heap_bytes()
    }
}
