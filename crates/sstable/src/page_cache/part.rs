//! Which part of an SSTable a page is of, and what was read of each part.

use std::cell::Cell;

/// Index or data: the last bit of a file's number in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Data.db, and what describes its chunks.
    Data = 0,
    /// Index.db, Partitions.db, Rows.db, and what is made of them.
    Index = 1,
}

/// What was asked for and read of one part of all SSTables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartMetrics {
    /// Pages or chunks that were in memory.
    pub hits: u64,
    /// Those that were not.
    pub misses: u64,
    /// Reads from the disk, of look-ups, scans and compactions.
    pub reads: u64,
    /// Bytes of them, whole pages of the disk.
    pub read_bytes: u64,
}

impl PartMetrics {
    /// The sum over shards.
    pub fn add(&mut self, other: &PartMetrics) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
    }

    /// What came since.
    pub fn since(&self, before: &PartMetrics) -> PartMetrics {
        PartMetrics {
            hits: self.hits - before.hits,
            misses: self.misses - before.misses,
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
        }
    }
}

/// The counters of both parts.
#[derive(Debug, Default)]
pub(super) struct Counters([Cell<PartMetrics>; 2]);

impl Counters {
    pub(super) fn of(&self, part: Part) -> PartMetrics {
        self.0[part as usize].get()
    }

    pub(super) fn count(&self, part: Part, change: impl FnOnce(&mut PartMetrics)) {
        let counter = &self.0[part as usize];
        let mut metrics = counter.get();
        change(&mut metrics);
        counter.set(metrics);
    }
}
