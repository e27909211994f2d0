//! Exports the metrics of the storage engine under their Prometheus names.

use espalier_storage::StorageMetrics;

use super::{Kind, Sample};

/// Appends the metrics of shard `shard` as samples.
pub(crate) fn samples(metrics: &StorageMetrics, shard: usize, samples: &mut Vec<Sample>) {
    let mut push = |name, kind, value: u64, help| {
        let labels = format!("shard=\"{shard}\"");
        samples.push(Sample { name, suffix: "", help, kind, labels, value: value as f64 });
    };
    let (counter, gauge) = (Kind::Counter, Kind::Gauge);
    push("scylla_database_total_writes", counter, metrics.writes, "Mutations applied.");
    push("scylla_database_total_reads", counter, metrics.reads, "Reads of rows and ranges.");
    push("espalier_flushes", counter, metrics.flushes, "Memtables written to SSTables.");
    push("espalier_flushes_failed", counter, metrics.failed_flushes, "Flushes that failed.");
    push(
        "espalier_flushed_bytes",
        counter,
        metrics.flushed_bytes,
        "Memory of the memtables that were flushed.",
    );
    push(
        "espalier_flushes_delayed",
        counter,
        metrics.delayed_flushes,
        "Flushes that waited because compactions could not keep up.",
    );
    push(
        "espalier_flushes_delayed_us",
        counter,
        metrics.flush_delay_us,
        "Microseconds that flushes waited because compactions could not keep up.",
    );
    push(
        "espalier_writes_slowed",
        counter,
        metrics.slowed_writes,
        "Writes that waited because flushes could not keep up.",
    );
    push(
        "espalier_empty_ranges",
        gauge,
        metrics.empty_ranges,
        "Ranges of tables without a visible row in the empty-range caches.",
    );
    push(
        "espalier_empty_range_skips",
        counter,
        metrics.empty_range_skips,
        "Times that a read skipped a range of the empty-range caches.",
    );
    push(
        "scylla_compaction_manager_compactions",
        gauge,
        metrics.running_compactions,
        "Compactions that are running.",
    );
    push(
        "scylla_compaction_manager_pending_compactions",
        gauge,
        metrics.pending_compactions,
        "Compactions that the strategies want and that have not started.",
    );
    push(
        "espalier_compaction_score",
        gauge,
        metrics.compaction_score,
        "Score: SSTables that may hold one partition beyond the number that the strategy aims at, maximum over tables.",
    );
    push(
        "scylla_compaction_manager_completed_compactions",
        counter,
        metrics.compactions,
        "Compactions that were completed.",
    );
    push(
        "scylla_compaction_manager_failed_compactions",
        counter,
        metrics.failed_compactions,
        "Compactions that failed.",
    );
    push(
        "espalier_compactions_stopped",
        counter,
        metrics.stopped_compactions,
        "Compactions that were stopped by request.",
    );
    push(
        "espalier_compacted_bytes_read",
        counter,
        metrics.compacted_bytes_in,
        "Bytes of Data.db, as stored, that compactions have read.",
    );
    push(
        "espalier_compacted_bytes_written",
        counter,
        metrics.compacted_bytes_out,
        "Bytes of Data.db, as stored, that compactions have written.",
    );
    push("espalier_memtable_bytes", gauge, metrics.memtable_bytes, "Memory of the memtables.");
    push(
        "espalier_memtable_limit_bytes",
        gauge,
        metrics.memtable_limit_bytes,
        "Memory that the memtables may take.",
    );
    push("espalier_tables", gauge, metrics.tables, "Tables.");
    push("espalier_sstables", gauge, metrics.sstables, "SSTables that are open.");
    push(
        "espalier_page_cache_hits",
        counter,
        metrics.page_cache_hits,
        "Pages and chunks of SSTables that look-ups found in memory.",
    );
    push(
        "espalier_page_cache_misses",
        counter,
        metrics.page_cache_misses,
        "Pages and chunks of SSTables that look-ups had to read.",
    );
    push("espalier_page_cache_bytes", gauge, metrics.page_cache_bytes, "Memory of cached pages.");
    push(
        "scylla_sstables_bloom_filter_memory_size",
        gauge,
        metrics.filter_bytes,
        "Memory of the filters of open SSTables; it reduces the memory for cached pages and rows.",
    );
    let cache = &metrics.row_cache;
    push("scylla_cache_bytes_used", gauge, cache.used_bytes, "Memory of cached rows.");
    push("scylla_cache_rows", gauge, cache.rows, "Rows in the row cache.");
    push("scylla_cache_partitions", gauge, cache.partitions, "Partitions in the row cache.");
    let counters = [
        ("scylla_cache_reads", cache.reads(), "Reads of partitions through the row cache."),
        (
            "scylla_cache_reads_with_misses",
            cache.reads_with_misses,
            "Reads through the row cache that had to read SSTables.",
        ),
        ("scylla_cache_row_hits", cache.row_hits, "Rows served from the row cache."),
        (
            "scylla_cache_row_misses",
            cache.row_misses,
            "Rows that reads through the row cache served from SSTables.",
        ),
        ("scylla_cache_row_insertions", cache.row_insertions, "Rows added to the row cache."),
        (
            "scylla_cache_partition_insertions",
            cache.partition_insertions,
            "Partitions added to the row cache.",
        ),
        (
            "scylla_cache_row_evictions",
            cache.row_evictions,
            "Rows evicted from the row cache to make room.",
        ),
        (
            "scylla_cache_partition_evictions",
            cache.partition_evictions,
            "Partitions whose last entry was evicted from the row cache to make room.",
        ),
        (
            "scylla_cache_row_removals",
            cache.row_removals,
            "Rows removed from the row cache because a deletion covers them or the cached rows of their table were dropped.",
        ),
        (
            "scylla_cache_rows_merged_from_memtable",
            cache.row_merges,
            "Rows of flushed memtables that were merged into a cached row.",
        ),
        (
            "espalier_cache_refusals",
            cache.refusals,
            "Insertions into the row cache that were refused for lack of memory.",
        ),
    ];
    for (name, value, help) in counters {
        push(name, counter, value, help);
    }
    push(
        "espalier_index_read_bytes",
        counter,
        metrics.index_pages.read_bytes,
        "Bytes of indexes of SSTables that were read from the disk.",
    );
    push(
        "espalier_data_read_bytes",
        counter,
        metrics.data_pages.read_bytes,
        "Bytes of Data.db that were read from the disk.",
    );
    let log = &metrics.commit_log;
    push(
        "scylla_commitlog_bytes_written",
        counter,
        log.bytes_appended,
        "Bytes appended to the commit log.",
    );
    push(
        "espalier_commitlog_records",
        counter,
        log.records_appended,
        "Mutations appended to the commit log.",
    );
    push(
        "espalier_commitlog_sync_batches",
        counter,
        log.sync_batches,
        "Writes of the commit log to the disk; mutations that arrive together share one.",
    );
    push(
        "espalier_commitlog_sync_batches_failed",
        counter,
        log.failed_sync_batches,
        "Writes of the commit log that failed.",
    );
    push(
        "espalier_commitlog_segments_created",
        counter,
        log.segments_created,
        "Commit log segments created.",
    );
    push(
        "espalier_commitlog_segments_recycled",
        counter,
        log.segments_recycled,
        "Commit log segments used again.",
    );
    push("scylla_commitlog_segments", gauge, log.segments, "Commit log segments in use.");
    push(
        "espalier_commitlog_pending_bytes",
        gauge,
        log.pending_bytes,
        "Bytes appended to the commit log and not yet written.",
    );
}
