//! The part of an SSTable to which a page belongs, and the counters of each part.

use std::cell::Cell;

/// Index or data: the last bit of a file's number in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Data.db, and the component that describes its chunks.
    Data = 0,
    /// Index.db, Partitions.db, Rows.db, the components of secondary indexes, and objects made of
    /// parts of them.
    Index = 1,
}

/// The counters of one part of all SSTables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartMetrics {
    /// Pages or chunks that were cached, or that another task was reading already.
    pub hits: u64,
    /// Pages or chunks that were not cached and had to be read.
    pub misses: u64,
    /// Reads from disk, by look-ups, scans and compactions.
    pub reads: u64,
    /// Bytes of these reads, in whole disk pages.
    pub read_bytes: u64,
}

impl PartMetrics {
    /// Returns the difference to an earlier state.
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
