//! Counters and gauges of a shard.

use espalier_commitlog::{CommitLog, CommitLogMetrics};
use espalier_compaction::CompactionBacklog;
use espalier_memtable::{MemtableMemory, MemtableReader};
use espalier_mutation::schema::TableMetadata;

use crate::{
    ShardStore,
    compaction::{backlog, running},
    metrics::StorageMetrics,
};

impl ShardStore {
    /// Returns counters and gauges of this shard; [`StorageMetrics::add`] sums shards up.
    pub fn metrics(&self) -> StorageMetrics {
        let counters = &self.counters;
        let running = running(self).len();
        let CompactionBacklog { pending, score } = backlog(self);
        let tables = self.tables.by_id.borrow();
        let sstables: usize = tables.values().map(|table| table.borrow_view().sstables.len()).sum();
        let (mut dead, mut indexes) = ((0, 0), (0, 0));
        for table in tables.values() {
            indexes.0 += table.borrow_view().damaged_indexes() as u64;
            indexes.1 += table.indexes.failures.len() as u64;
            let (ranges, passes) = table.empty_ranges().counts();
            dead = (dead.0 + ranges as u64, dead.1 + passes);
        }
        let page_cache = self.caches.pages.metrics();
        StorageMetrics {
            writes: counters.writes.all.get(),
            reads: counters.reads.all.get(),
            index_reads: counters.reads.by_index.get(),
            index_entries_passed: counters.reads.passed_entries.get(),
            damaged_indexes: indexes.0,
            failed_index_builds: indexes.1,
            replayed: counters.writes.replayed.get(),
            replay_skipped: counters.writes.replay_skipped.get(),
            flushes: counters.flushes.done.get(),
            failed_flushes: counters.flushes.failed.get(),
            flushed_bytes: counters.flushes.bytes.get(),
            delayed_flushes: counters.flushes.delayed.get(),
            flush_delay_us: counters.flushes.delay_us.get(),
            slowed_writes: counters.writes.slowed.get(),
            compactions: counters.compactions.done.get(),
            failed_compactions: counters.compactions.failed.get(),
            stopped_compactions: counters.compactions.stopped.get(),
            compacted_bytes_in: counters.compactions.bytes_in.get(),
            compacted_bytes_out: counters.compactions.bytes_out.get(),
            running_compactions: running as u64,
            pending_compactions: pending as u64,
            compaction_score: score as u64,
            memtable_bytes: self.memtables.budget.used_bytes() as u64,
            memtable_limit_bytes: self.memtables.budget.limit_bytes() as u64,
            tables: tables.len() as u64,
            sstables: sstables as u64,
            empty_ranges: dead.0,
            empty_range_skips: dead.1,
            page_cache_hits: page_cache.hits,
            page_cache_misses: page_cache.misses,
            page_cache_bytes: page_cache.used_bytes as u64,
            filter_bytes: self.caches.pages.pinned_bytes() as u64,
            row_cache: self.caches.rows.metrics(),
            index_pages: page_cache.index,
            data_pages: page_cache.data,
            commit_log: self
                .logs
                .data
                .get()
                .map_or_else(CommitLogMetrics::default, CommitLog::metrics),
        }
    }

    /// Returns the content and memory of the active memtable of a table on this shard; `None` if
    /// there is no such table.
    pub fn memtable_memory(&self, keyspace: &str, table: &str) -> Option<MemtableMemory> {
        let id = self.schema().table(keyspace, table)?.id;
        Some(self.tables.get(id).ok()?.memtable().memory())
    }

    /// Returns a handle that reads, from other threads, the active memtable of a table on this
    /// shard. After the next flush the handle still reads the flushed memtable, and the caller
    /// needs another one for new writes. `None` if the table is not on this shard or its memtable
    /// is not a trie.
    pub fn memtable_reader(&self, table: &TableMetadata) -> Option<MemtableReader> {
        let table = self.tables.get(table.id).ok()?;
        let metadata = table.metadata();
        table.memtable().reader(&metadata)
    }
}
