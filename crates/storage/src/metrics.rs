//! Counters and gauges as plain numbers; `/metrics` names them.

use espalier_cache::RowCacheMetrics;
use espalier_commitlog::CommitLogMetrics;
use espalier_sstable::PageCacheMetrics;

/// Reads of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ReadMetrics {
    pub all: u64,
    /// Reads, of rows and ranges, that secondary indexes answered.
    pub by_index: u64,
    /// Index entries that searches for ranges of values have read, and vectors in memtables
    /// that searches for near vectors have compared.
    pub passed_entries: u64,
}

/// Writes of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct WriteMetrics {
    pub all: u64,
    /// Writes whose acknowledgement was delayed because flushes could not keep up.
    pub slowed: u64,
    /// Mutations that the last start replayed from the commit log.
    pub replayed: u64,
    /// Updates that the replay skipped: in SSTables already, purged, truncated, or of dropped
    /// or unreadable tables.
    pub replay_skipped: u64,
}

/// Flushes of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FlushMetrics {
    pub done: u64,
    pub failed: u64,
    /// Bytes of memory of the flushed memtables.
    pub bytes: u64,
    /// Flushes that waited because compactions could not keep up.
    pub delayed: u64,
    /// Total time of these waits, in µs.
    pub delay_us: u64,
}

/// Compactions of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CompactionMetrics {
    pub done: u64,
    pub failed: u64,
    /// Compactions stopped by request.
    pub stopped: u64,
    /// Bytes of Data.db as stored that finished compactions have read.
    pub bytes_in: u64,
    /// Bytes of Data.db as stored that finished compactions have written.
    pub bytes_out: u64,
    pub running: u64,
    /// Compactions that the strategies want, and splits of shared SSTables, that have not started.
    pub pending: u64,
    /// Number of overlapping SSTables beyond those that the strategy tolerates; the maximum over
    /// tables.
    pub score: u64,
}

/// Faults of secondary indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct IndexMetrics {
    /// Components that are left out because of damage.
    pub damaged: u64,
    /// SSTables for which the last build of their index entries failed.
    pub failed_builds: u64,
}

/// Empty-range caches of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct EmptyRangeMetrics {
    /// Ranges without a visible row that the caches hold.
    pub ranges: u64,
    /// Number of times that a read skipped such a range.
    pub skips: u64,
}

/// The counters and gauges of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct StorageMetrics {
    pub reads: ReadMetrics,
    pub writes: WriteMetrics,
    pub flushes: FlushMetrics,
    pub compactions: CompactionMetrics,
    pub indexes: IndexMetrics,
    pub empty_ranges: EmptyRangeMetrics,
    pub memtable_bytes: u64,
    pub memtable_limit_bytes: u64,
    pub tables: u64,
    pub sstables: u64,
    /// Bytes of memory of the filters of open SSTables.
    pub filter_bytes: u64,
    /// Pages and chunks of SSTables. Look-ups and short scans use the page cache; most long scans
    /// bypass it.
    pub page_cache: PageCacheMetrics,
    pub row_cache: RowCacheMetrics,
    pub commit_log: CommitLogMetrics,
}
