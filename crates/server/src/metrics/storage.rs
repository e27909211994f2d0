//! The storage engine's numbers under their Prometheus names.

use espalier_storage::StorageMetrics;

use super::{Kind, Sample};

/// The numbers of shard `shard` as samples.
pub(crate) fn samples(metrics: &StorageMetrics, shard: usize, samples: &mut Vec<Sample>) {
    let mut push = |name, kind, value: u64, help| {
        let labels = format!("shard=\"{shard}\"");
        samples.push(Sample { name, help, kind, labels, value: value as f64 });
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
        "scylla_compaction_manager_compactions",
        gauge,
        metrics.running_compactions,
        "Compactions that run.",
    );
    push(
        "scylla_compaction_manager_pending_compactions",
        gauge,
        metrics.pending_compactions,
        "Compactions that the strategies want and that have not begun.",
    );
    push(
        "scylla_compaction_manager_completed_compactions",
        counter,
        metrics.compactions,
        "Compactions that were done.",
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
        "Bytes of Data.db, as stored, that were compacted.",
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
        "espalier_commitlog_rounds",
        counter,
        log.rounds,
        "Writes of the commit log to the disk; mutations that arrive together share one.",
    );
    push(
        "espalier_commitlog_rounds_failed",
        counter,
        log.failed_rounds,
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
