//! Exports the metrics of the storage engine under their Prometheus names.

use espalier_storage::StorageMetrics;

use super::{Sample, ShardSamples};

/// Appends the metrics of shard `shard` as samples.
pub(crate) fn samples(metrics: &StorageMetrics, shard: usize, samples: &mut Vec<Sample>) {
    let mut samples = ShardSamples::new(shard, samples);
    requests_and_flushes(metrics, &mut samples);
    empty_ranges(metrics, &mut samples);
    compactions(metrics, &mut samples);
    memtables_and_sstables(metrics, &mut samples);
    page_cache(metrics, &mut samples);
    row_cache(metrics, &mut samples);
    disk_reads(metrics, &mut samples);
    commit_log(metrics, &mut samples);
}

fn requests_and_flushes(metrics: &StorageMetrics, samples: &mut ShardSamples<'_>) {
    samples.counter("scylla_database_total_writes", metrics.writes.all, "Mutations applied.");
    samples.counter("scylla_database_total_reads", metrics.reads.all, "Reads of rows and ranges.");
    samples.counter(
        "espalier_index_reads",
        metrics.reads.by_index,
        "Reads that secondary indexes answered.",
    );
    samples.counter(
        "espalier_index_entries_passed",
        metrics.reads.passed_entries,
        "Index entries that searches for ranges of values have passed.",
    );
    samples.gauge(
        "espalier_index_components_damaged",
        metrics.indexes.damaged,
        "Components of secondary indexes that are left out because of damage.",
    );
    samples.gauge(
        "espalier_index_builds_failed",
        metrics.indexes.failed_builds,
        "SSTables for which the last build of their index entries failed.",
    );
    samples.counter("espalier_flushes", metrics.flushes.done, "Memtables written to SSTables.");
    samples.counter("espalier_flushes_failed", metrics.flushes.failed, "Flushes that failed.");
    samples.counter(
        "espalier_flushed_bytes",
        metrics.flushes.bytes,
        "Memory of the memtables that were flushed.",
    );
    samples.counter(
        "espalier_flushes_delayed",
        metrics.flushes.delayed,
        "Flushes that waited because compactions could not keep up.",
    );
    samples.counter(
        "espalier_flushes_delayed_us",
        metrics.flushes.delay_us,
        "Microseconds that flushes waited because compactions could not keep up.",
    );
    samples.counter(
        "espalier_writes_slowed",
        metrics.writes.slowed,
        "Writes that waited because flushes could not keep up.",
    );
}

fn empty_ranges(metrics: &StorageMetrics, samples: &mut ShardSamples<'_>) {
    samples.gauge(
        "espalier_empty_ranges",
        metrics.empty_ranges.ranges,
        "Ranges of tables without a visible row in the empty-range caches.",
    );
    samples.counter(
        "espalier_empty_range_skips",
        metrics.empty_ranges.skips,
        "Times that a read skipped a range of the empty-range caches.",
    );
}

fn compactions(metrics: &StorageMetrics, samples: &mut ShardSamples<'_>) {
    samples.gauge(
        "scylla_compaction_manager_compactions",
        metrics.compactions.running,
        "Compactions that are running.",
    );
    samples.gauge(
        "scylla_compaction_manager_pending_compactions",
        metrics.compactions.pending,
        "Compactions that the strategies want and that have not started.",
    );
    samples.gauge("espalier_compaction_score", metrics.compactions.score, "Score: SSTables that may hold one partition beyond the number that the strategy aims at, maximum over tables.");
    samples.counter(
        "scylla_compaction_manager_completed_compactions",
        metrics.compactions.done,
        "Compactions that were completed.",
    );
    samples.counter(
        "scylla_compaction_manager_failed_compactions",
        metrics.compactions.failed,
        "Compactions that failed.",
    );
    samples.counter(
        "espalier_compactions_stopped",
        metrics.compactions.stopped,
        "Compactions that were stopped by request.",
    );
    samples.counter(
        "espalier_compacted_bytes_read",
        metrics.compactions.bytes_in,
        "Bytes of Data.db, as stored, that compactions have read.",
    );
    samples.counter(
        "espalier_compacted_bytes_written",
        metrics.compactions.bytes_out,
        "Bytes of Data.db, as stored, that compactions have written.",
    );
}

fn memtables_and_sstables(metrics: &StorageMetrics, samples: &mut ShardSamples<'_>) {
    samples.gauge("espalier_memtable_bytes", metrics.memtable_bytes, "Memory of the memtables.");
    samples.gauge(
        "espalier_memtable_limit_bytes",
        metrics.memtable_limit_bytes,
        "Memory that the memtables may take.",
    );
    samples.gauge("espalier_tables", metrics.tables, "Tables.");
    samples.gauge("espalier_sstables", metrics.sstables, "SSTables that are open.");
}

fn page_cache(metrics: &StorageMetrics, samples: &mut ShardSamples<'_>) {
    samples.counter(
        "espalier_page_cache_hits",
        metrics.page_cache.hits,
        "Pages and chunks of SSTables that look-ups found in memory.",
    );
    samples.counter(
        "espalier_page_cache_misses",
        metrics.page_cache.misses,
        "Pages and chunks of SSTables that look-ups had to read.",
    );
    samples.gauge(
        "espalier_page_cache_bytes",
        metrics.page_cache.used_bytes,
        "Memory of cached pages.",
    );
    samples.gauge(
        "scylla_sstables_bloom_filter_memory_size",
        metrics.filter_bytes,
        "Memory of the filters of open SSTables; it reduces the memory for cached pages and rows.",
    );
}

fn row_cache(metrics: &StorageMetrics, samples: &mut ShardSamples<'_>) {
    let cache = &metrics.row_cache;
    samples.gauge("scylla_cache_bytes_used", cache.used_bytes, "Memory of cached rows.");
    samples.gauge("scylla_cache_rows", cache.rows, "Rows in the row cache.");
    samples.gauge("scylla_cache_partitions", cache.partitions, "Partitions in the row cache.");
    samples.counter(
        "scylla_cache_reads",
        cache.reads(),
        "Reads of partitions through the row cache.",
    );
    samples.counter(
        "scylla_cache_reads_with_misses",
        cache.reads_with_misses,
        "Reads through the row cache that had to read SSTables.",
    );
    samples.counter("scylla_cache_row_hits", cache.row_hits, "Rows served from the row cache.");
    samples.counter(
        "scylla_cache_row_misses",
        cache.row_misses,
        "Rows that reads through the row cache served from SSTables.",
    );
    samples.counter(
        "scylla_cache_row_insertions",
        cache.row_insertions,
        "Rows added to the row cache.",
    );
    samples.counter(
        "scylla_cache_partition_insertions",
        cache.partition_insertions,
        "Partitions added to the row cache.",
    );
    samples.counter(
        "scylla_cache_row_evictions",
        cache.row_evictions,
        "Rows evicted from the row cache to make room.",
    );
    samples.counter(
        "scylla_cache_partition_evictions",
        cache.partition_evictions,
        "Partitions whose last entry was evicted from the row cache to make room.",
    );
    samples.counter("scylla_cache_row_removals", cache.row_removals, "Rows removed from the row cache because a deletion covers them or the cached rows of their table were dropped.");
    samples.counter(
        "scylla_cache_rows_merged_from_memtable",
        cache.row_merges,
        "Rows of flushed memtables that were merged into a cached row.",
    );
    samples.counter(
        "espalier_cache_refusals",
        cache.refusals,
        "Insertions into the row cache that were refused for lack of memory.",
    );
}

fn disk_reads(metrics: &StorageMetrics, samples: &mut ShardSamples<'_>) {
    samples.counter(
        "espalier_index_read_bytes",
        metrics.page_cache.index.read_bytes,
        "Bytes of indexes of SSTables that were read from the disk.",
    );
    samples.counter(
        "espalier_data_read_bytes",
        metrics.page_cache.data.read_bytes,
        "Bytes of Data.db that were read from the disk.",
    );
}

fn commit_log(metrics: &StorageMetrics, samples: &mut ShardSamples<'_>) {
    let log = &metrics.commit_log;
    samples.counter(
        "scylla_commitlog_bytes_written",
        log.bytes_appended,
        "Bytes appended to the commit log.",
    );
    samples.counter(
        "espalier_commitlog_records",
        log.records_appended,
        "Mutations appended to the commit log.",
    );
    samples.counter(
        "espalier_commitlog_sync_batches",
        log.sync_batches,
        "Writes of the commit log to the disk; mutations that arrive together share one.",
    );
    samples.counter(
        "espalier_commitlog_sync_batches_failed",
        log.failed_sync_batches,
        "Writes of the commit log that failed.",
    );
    samples.counter(
        "espalier_commitlog_segments_created",
        log.segments_created,
        "Commit log segments created.",
    );
    samples.counter(
        "espalier_commitlog_segments_recycled",
        log.segments_recycled,
        "Commit log segments used again.",
    );
    samples.gauge("scylla_commitlog_segments", log.segments, "Commit log segments in use.");
    samples.gauge(
        "espalier_commitlog_pending_bytes",
        log.pending_bytes,
        "Bytes appended to the commit log and not yet written.",
    );
}
