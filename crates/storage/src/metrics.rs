//! Counters and gauges as plain numbers; `/metrics` names them.

use espalier_cache::RowCacheMetrics;
use espalier_commitlog::CommitLogMetrics;
use espalier_sstable::PartMetrics;

/// The counters and gauges of one shard, or the sums of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct StorageMetrics {
    pub writes: u64,
    pub reads: u64,
    /// Number of reads, of rows and ranges, that secondary indexes answered.
    pub index_reads: u64,
    /// Number of index entries that searches for ranges of values have read, and of vectors in
    /// memtables that searches for near vectors have compared.
    pub index_entries_passed: u64,
    /// Components of secondary indexes that are left out because of damage.
    pub damaged_indexes: u64,
    /// SSTables for which the last build of their index entries failed.
    pub failed_index_builds: u64,
    /// Mutations that the last start replayed from the commit log.
    pub replayed: u64,
    /// Updates that the replay skipped: in SSTables already, purged, truncated, or of dropped or
    /// unreadable tables.
    pub replay_skipped: u64,
    pub flushes: u64,
    pub failed_flushes: u64,
    /// Bytes of memory of the flushed memtables.
    pub flushed_bytes: u64,
    /// Flushes that waited because compactions could not keep up.
    pub delayed_flushes: u64,
    /// Total time of these waits, in µs.
    pub flush_delay_us: u64,
    /// Writes whose acknowledgement was delayed because flushes could not keep up.
    pub slowed_writes: u64,
    pub compactions: u64,
    pub failed_compactions: u64,
    /// Compactions stopped by request.
    pub stopped_compactions: u64,
    /// Bytes of Data.db as stored, as input and as output of compactions.
    pub compacted_bytes_in: u64,
    pub compacted_bytes_out: u64,
    pub running_compactions: u64,
    /// Compactions that the strategies want and that have not started.
    pub pending_compactions: u64,
    /// Score: SSTables that may hold one partition beyond the number that the strategy aims at; the
    /// maximum over tables and shards.
    pub compaction_score: u64,
    pub memtable_bytes: u64,
    pub memtable_limit_bytes: u64,
    pub tables: u64,
    pub sstables: u64,
    /// Ranges of tables without a visible row that the empty-range caches hold.
    pub empty_ranges: u64,
    /// Number of times that a read skipped such a range.
    pub empty_range_skips: u64,
    /// Pages and chunks of SSTables that look-ups and short scans found in the page cache. Most
    /// long scans bypass it.
    pub page_cache_hits: u64,
    /// Pages and chunks that had to be read.
    pub page_cache_misses: u64,
    pub page_cache_bytes: u64,
    /// Bytes of memory of the filters of open SSTables.
    pub filter_bytes: u64,
    pub row_cache: RowCacheMetrics,
    /// Cached index pages of SSTables, and their reads from disk.
    pub index_pages: PartMetrics,
    /// Cached data pages of SSTables, and their reads from disk.
    pub data_pages: PartMetrics,
    pub commit_log: CommitLogMetrics,
}

impl StorageMetrics {
    /// Adds the numbers of another shard.
    pub fn add(&mut self, other: &StorageMetrics) {
        let Self { commit_log: log, .. } = self;
        log.bytes_appended += other.commit_log.bytes_appended;
        log.records_appended += other.commit_log.records_appended;
        log.sync_batches += other.commit_log.sync_batches;
        log.failed_sync_batches += other.commit_log.failed_sync_batches;
        log.segments_created += other.commit_log.segments_created;
        log.segments_recycled += other.commit_log.segments_recycled;
        log.segments += other.commit_log.segments;
        log.pending_bytes += other.commit_log.pending_bytes;
        self.writes += other.writes;
        self.reads += other.reads;
        self.index_reads += other.index_reads;
        self.index_entries_passed += other.index_entries_passed;
        self.damaged_indexes += other.damaged_indexes;
        self.failed_index_builds += other.failed_index_builds;
        self.replayed += other.replayed;
        self.replay_skipped += other.replay_skipped;
        self.flushes += other.flushes;
        self.failed_flushes += other.failed_flushes;
        self.flushed_bytes += other.flushed_bytes;
        self.delayed_flushes += other.delayed_flushes;
        self.flush_delay_us += other.flush_delay_us;
        self.slowed_writes += other.slowed_writes;
        self.compactions += other.compactions;
        self.failed_compactions += other.failed_compactions;
        self.stopped_compactions += other.stopped_compactions;
        self.compacted_bytes_in += other.compacted_bytes_in;
        self.compacted_bytes_out += other.compacted_bytes_out;
        self.running_compactions += other.running_compactions;
        self.pending_compactions += other.pending_compactions;
        self.compaction_score = self.compaction_score.max(other.compaction_score);
        self.memtable_bytes += other.memtable_bytes;
        self.memtable_limit_bytes += other.memtable_limit_bytes;
        self.tables += other.tables;
        self.sstables += other.sstables;
        self.empty_ranges += other.empty_ranges;
        self.empty_range_skips += other.empty_range_skips;
        self.page_cache_hits += other.page_cache_hits;
        self.page_cache_misses += other.page_cache_misses;
        self.page_cache_bytes += other.page_cache_bytes;
        self.filter_bytes += other.filter_bytes;
        self.row_cache.add(&other.row_cache);
        self.index_pages.add(&other.index_pages);
        self.data_pages.add(&other.data_pages);
    }
}
