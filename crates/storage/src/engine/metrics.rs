//! Counters and gauges of a shard.

use espalier_commitlog::CommitLog;
use espalier_compaction::CompactionBacklog;
use espalier_memtable::{MemtableMemory, MemtableReader};
use espalier_mutation::schema::TableMetadata;

use crate::{
    ShardStore,
    compaction::{backlog, running},
    metrics::{
        CompactionMetrics, EmptyRangeMetrics, FlushMetrics, IndexMetrics, ReadMetrics,
        StorageMetrics, WriteMetrics,
    },
    shard::Counters,
};

impl ShardStore {
    /// Returns counters and gauges of this shard.
    pub fn metrics(&self) -> StorageMetrics {
        let Counters { reads, writes, flushes, compactions } = &self.counters;
        let CompactionBacklog { pending, score } = backlog(self);
        let tables = self.tables.by_id.borrow();
        let mut sstables = 0;
        let mut indexes = IndexMetrics::default();
        let mut empty_ranges = EmptyRangeMetrics::default();
        for table in tables.values() {
            let view = table.borrow_view();
            sstables += view.sstables.len() as u64;
            indexes.damaged += view.damaged_indexes() as u64;
            indexes.failed_builds += table.indexes.failures.len() as u64;
            let (ranges, skips) = table.empty_ranges().counts();
            empty_ranges.ranges += ranges as u64;
            empty_ranges.skips += skips;
        }
        StorageMetrics {
            reads: ReadMetrics {
                all: reads.all.get(),
                by_index: reads.by_index.get(),
                passed_entries: reads.passed_entries.get(),
            },
            writes: WriteMetrics {
                all: writes.all.get(),
                slowed: writes.slowed.get(),
                replayed: writes.replayed.get(),
                replay_skipped: writes.replay_skipped.get(),
            },
            flushes: FlushMetrics {
                done: flushes.done.get(),
                failed: flushes.failed.get(),
                bytes: flushes.bytes.get(),
                delayed: flushes.delayed.get(),
                delay_us: flushes.delay_us.get(),
            },
            compactions: CompactionMetrics {
                done: compactions.done.get(),
                failed: compactions.failed.get(),
                stopped: compactions.stopped.get(),
                bytes_in: compactions.bytes_in.get(),
                bytes_out: compactions.bytes_out.get(),
                running: running(self).len() as u64,
                pending: pending as u64,
                score: score as u64,
            },
            indexes,
            empty_ranges,
            memtable_bytes: self.memtables.budget.used_bytes() as u64,
            memtable_limit_bytes: self.memtables.budget.limit_bytes() as u64,
            tables: tables.len() as u64,
            sstables,
            filter_bytes: self.caches.pages.pinned_bytes() as u64,
            page_cache: self.caches.pages.metrics(),
            row_cache: self.caches.rows.metrics(),
            commit_log: self.logs.data.get().map(CommitLog::metrics).unwrap_or_default(),
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
