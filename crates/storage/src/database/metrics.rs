//! Counters and gauges of this shard.

use std::cell::Cell;

use espalier_commitlog::CommitLogMetrics;
use espalier_compaction::CompactionBacklog;
use espalier_memtable::{MemtableMemory, MemtableReader};
use espalier_mutation::schema::TableMetadata;

use super::Database;
use crate::metrics::StorageMetrics;

#[derive(Default)]
pub(super) struct Counters {
    pub(super) writes: Cell<u64>,
    pub(super) reads: Cell<u64>,
    pub(super) index_reads: Cell<u64>,
    pub(super) passed_entries: Cell<u64>,
    pub(super) replayed: Cell<u64>,
    pub(super) replay_skipped: Cell<u64>,
    pub(super) flushes: Cell<u64>,
    pub(super) failed_flushes: Cell<u64>,
    pub(super) flushed_bytes: Cell<u64>,
    pub(super) delayed_flushes: Cell<u64>,
    pub(super) flush_delay_us: Cell<u64>,
    pub(super) slowed_writes: Cell<u64>,
    pub(super) compactions: Cell<u64>,
    pub(super) failed_compactions: Cell<u64>,
    pub(super) stopped_compactions: Cell<u64>,
    /// Requests to stop the running compactions.
    pub(super) stop_requests: Cell<u64>,
    pub(super) compacted_bytes_in: Cell<u64>,
    pub(super) compacted_bytes_out: Cell<u64>,
}

impl Database {
    /// Returns counters and gauges of this shard; [`StorageMetrics::add`] sums shards up.
    pub fn metrics(&self) -> StorageMetrics {
        let (inner, counters) = (&self.inner, &self.inner.counters);
        let running = self.running_compactions().len();
        let CompactionBacklog { pending, score } = self.compaction_backlog_here();
        let tables = inner.tables.borrow();
        let sstables: usize = tables.values().map(|table| table.borrow_view().sstables.len()).sum();
        let (mut dead, mut indexes) = ((0, 0), (0, 0));
        for table in tables.values() {
            indexes.0 += table.borrow_view().damaged_indexes() as u64;
            indexes.1 += table.index_failures.len() as u64;
            let (ranges, passes) = table.empty_ranges().counts();
            dead = (dead.0 + ranges as u64, dead.1 + passes);
        }
        let page_cache = inner.page_cache.metrics();
        StorageMetrics {
            writes: counters.writes.get(),
            reads: counters.reads.get(),
            index_reads: counters.index_reads.get(),
            index_entries_passed: counters.passed_entries.get(),
            damaged_indexes: indexes.0,
            failed_index_builds: indexes.1,
            replayed: counters.replayed.get(),
            replay_skipped: counters.replay_skipped.get(),
            flushes: counters.flushes.get(),
            failed_flushes: counters.failed_flushes.get(),
            flushed_bytes: counters.flushed_bytes.get(),
            delayed_flushes: counters.delayed_flushes.get(),
            flush_delay_us: counters.flush_delay_us.get(),
            slowed_writes: counters.slowed_writes.get(),
            compactions: counters.compactions.get(),
            failed_compactions: counters.failed_compactions.get(),
            stopped_compactions: counters.stopped_compactions.get(),
            compacted_bytes_in: counters.compacted_bytes_in.get(),
            compacted_bytes_out: counters.compacted_bytes_out.get(),
            running_compactions: running as u64,
            pending_compactions: pending as u64,
            compaction_score: score as u64,
            memtable_bytes: inner.budget.used_bytes() as u64,
            memtable_limit_bytes: inner.budget.limit_bytes() as u64,
            tables: tables.len() as u64,
            sstables: sstables as u64,
            empty_ranges: dead.0,
            empty_range_skips: dead.1,
            page_cache_hits: page_cache.hits,
            page_cache_misses: page_cache.misses,
            page_cache_bytes: page_cache.used_bytes as u64,
            filter_bytes: self.inner.page_cache.pinned_bytes() as u64,
            row_cache: inner.row_cache.metrics(),
            index_pages: page_cache.index,
            data_pages: page_cache.data,
            commit_log: inner.log.get().map_or_else(CommitLogMetrics::default, |log| log.metrics()),
        }
    }

    /// Returns the content and memory of the active memtable of a table on this shard; `None` if
    /// there is no such table.
    pub fn memtable_memory(&self, keyspace: &str, table: &str) -> Option<MemtableMemory> {
        let id = self.schema().table(keyspace, table)?.id;
        Some(self.table(id).ok()?.memtable().memory())
    }

    /// Returns a handle that reads, from other threads, the active memtable of a table on this
    /// shard. After the next flush the handle still reads the flushed memtable, and the caller
    /// needs another one for new writes. `None` if the table is not on this shard or its memtable
    /// is not a trie.
    pub fn memtable_reader(&self, table: &TableMetadata) -> Option<MemtableReader> {
        let table = self.table(table.id).ok()?;
        let metadata = table.metadata();
        table.memtable().reader(&metadata)
    }
}
