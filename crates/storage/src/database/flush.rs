//! Flushing on demand, and the state of the database that flushes need.

use std::{cell::Cell, num::NonZeroU64, rc::Rc};

use espalier_commitlog::CommitLog;
use espalier_memtable::{Memtable, MemtableBudget};
use espalier_mutation::schema::TableId;
use espalier_runtime::{file::FileSystem, sync::Notify};
use espalier_sstable::{
    Descriptor, SSTableError, SSTableId, components::components_found, versions::VersionFeatures,
};
use futures_util::{
    future::LocalBoxFuture,
    stream::{self, StreamExt},
};

use super::{Database, first_failure::FirstFailure};
use crate::{
    StorageError,
    flush::{FlushEstimate, WritePace},
    table::Table,
};

/// Room that memtables must have for a slow flush, as a fraction of the bytes that flushes still
/// have to write. It is somewhat less than the room at the start of a flush that starts at half of
/// the memory or earlier (`memtable_cleanup_threshold`).
const ROOM_OF_SLOW_FLUSH: f64 = 0.75;

/// Maximum number of flushes that a request or a shutdown runs at once on a shard. Each holds about
/// 2 MiB of buffers.
const FLUSHES_AT_ONCE: usize = 16;

/// Counts something in a cell until it is dropped: a flush under way, or a task that waits for one.
pub(crate) struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Database {
    /// Flushes the memtables of a keyspace, or of one table of it, on all shards.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or table is unknown, or with the first failure of a flush.
    pub fn flush<'a>(
        &'a self,
        keyspace: &'a str,
        table: Option<&'a str>,
    ) -> LocalBoxFuture<'a, Result<(), StorageError>> {
        Box::pin(async move {
            let ids = self.tables_named(keyspace, table)?;
            self.flush_tables(ids).await
        })
    }

    /// Flushes the memtables of a table on all shards.
    pub(super) async fn flush_everywhere(&self, id: TableId) -> Result<(), StorageError> {
        self.flush_tables(vec![id]).await
    }

    async fn flush_tables(&self, ids: Vec<TableId>) -> Result<(), StorageError> {
        let outcomes = self.on_all_shards(move |database| {
            let ids = ids.clone();
            async move {
                // The tables that were dropped meanwhile, or belong to another shard alone, are
                // left out.
                let tables = ids.into_iter().filter_map(|id| database.table(id).ok()).collect();
                database.flush_side_by_side(tables).await
            }
        });
        FirstFailure::of_shards(outcomes.await)
    }

    /// Flushes all tables on this shard.
    pub(super) async fn flush_here(&self) -> Result<(), StorageError> {
        self.flush_side_by_side(self.tables_here()).await
    }

    /// Flushes tables on this shard. Most of a small flush waits for the disk, which syncs several
    /// files in about the time of one. A failure stops no other flush; returns the first one.
    async fn flush_side_by_side(&self, tables: Vec<Rc<Table>>) -> Result<(), StorageError> {
        let flushes = tables.iter().map(|table| self.flush_table(table));
        let mut outcomes = stream::iter(flushes).buffer_unordered(FLUSHES_AT_ONCE);
        let (mut failure, mut ended) = (FirstFailure::none(), Ok(()));
        while let Some(outcome) = outcomes.next().await {
            // Whatever ends one flush, the others under way are not dropped half done.
            ended = ended.and(failure.keep(outcome));
        }
        ended.and_then(|()| failure.into_result())
    }

    /// Makes the logs release the segments that hold flushed writes only.
    pub(crate) fn reclaim_log(&self) {
        for log in self.logs() {
            let tables = self.inner.tables.borrow();
            let oldest = tables
                .values()
                .filter(|table| self.log_for(table).is_some_and(|its| its.is_same(log)))
                .filter_map(|table| table.oldest_unflushed())
                .min();
            log.reclaim(oldest.map_or(u64::MAX, |position| position.segment));
        }
    }

    /// Returns the log that a table's writes go to, if it is open.
    pub(crate) fn log_for(&self, table: &Table) -> Option<&CommitLog> {
        if table.is_schema() { self.inner.schema_log.get() } else { self.inner.log.get() }
    }

    /// Returns the open logs of this shard.
    pub(crate) fn logs(&self) -> impl Iterator<Item = &CommitLog> {
        self.inner.log.get().into_iter().chain(self.inner.schema_log.get())
    }

    pub(crate) fn tables_here(&self) -> Vec<Rc<Table>> {
        self.inner.tables.borrow().values().cloned().collect()
    }

    pub(crate) fn budget(&self) -> &MemtableBudget {
        &self.inner.budget
    }

    /// Returns whether a flush is under way on this shard.
    pub(crate) fn is_flushing(&self) -> bool {
        self.inner.flushing.get() > 0
    }

    /// Returns whether deferrable work should leave the core to a flush, because memory is short.
    pub(crate) fn is_flush_urgent(&self) -> bool {
        self.is_flushing() && self.inner.budget.is_short()
    }

    /// Returns whether flushes may be slow: no task waits for one, and memory and log last longer
    /// than they do.
    pub(crate) fn can_flush_slowly(&self) -> bool {
        let (budget, estimate) = (self.budget(), self.flush_estimate());
        // Bytes of other tables that are due to be flushed and are not being written yet.
        let active_bytes = budget.held_bytes() as f64 - estimate.begun_bytes();
        let due_bytes = (active_bytes - budget.flush_bytes() as f64).max(0.0);
        self.inner.awaiting_flush.get() == 0
            && budget.room_bytes() as f64
                >= ROOM_OF_SLOW_FLUSH * (estimate.left_bytes() + due_bytes)
            && !self.write_pace().is_slowing()
            && !self.logs().any(CommitLog::is_under_pressure)
    }

    /// Counts a flush as under way until the result is dropped.
    pub(crate) fn begin_flush(&self) -> Counted<'_> {
        Counted::new(&self.inner.flushing)
    }

    /// Counts a task that waits for a flush until the result is dropped.
    pub(crate) fn await_flush(&self) -> Counted<'_> {
        Counted::new(&self.inner.awaiting_flush)
    }

    pub(crate) fn flush_estimate(&self) -> &FlushEstimate {
        &self.inner.flush_estimate
    }

    pub(crate) fn write_pace(&self) -> &WritePace {
        &self.inner.write_pace
    }

    /// Returns the file system of the node.
    pub fn file_system(&self) -> &FileSystem {
        &self.inner.file_system
    }

    /// Notified when there may be more dead rows to record in the empty-range caches.
    pub(crate) fn empty_ranges_queued(&self) -> &Notify {
        &self.inner.empty_ranges_queued
    }

    /// Wakes the task that builds the entries of secondary indexes.
    pub(crate) fn index_wanted(&self) -> &Notify {
        &self.inner.index_wanted
    }

    pub(crate) fn flush_wanted(&self) -> &Notify {
        &self.inner.flush_wanted
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.inner.is_closing.get()
    }

    /// Returns the descriptor of the next SSTable of a table, as `named` makes it from its number,
    /// and skips the numbers of existing files. Files that an operator copied into the table's
    /// directory may have numbers that this node does not know before its next start.
    pub(crate) async fn next_descriptor(
        &self,
        table: TableId,
        named: impl Fn(SSTableId) -> Descriptor,
    ) -> Result<Descriptor, SSTableError> {
        loop {
            let number = self.inner.shared.next_generation(table) - 1;
            let id = SSTableId::Generation(NonZeroU64::MIN.saturating_add(number));
            let descriptor = named(id);
            let found = components_found(self.file_system(), &descriptor).await?;
            if found.is_empty() {
                return Ok(descriptor);
            }
            tracing::warn!(
                sstable = %descriptor,
                directory = %descriptor.directory.display(),
                "unknown files in the directory of an open table: they are ignored until the next \
                 start, which adds them to the table; to add them at once, use nodetool import"
            );
        }
    }

    /// Returns the features of the table's `sstable_format`, or of the node's default.
    pub(crate) fn sstable_features(&self, table: &Table) -> &'static VersionFeatures {
        table.sstable_features(self.inner.default_sstable_features)
    }

    pub(crate) fn count_flush(&self, memtable: &Memtable) {
        let counters = &self.inner.counters;
        counters.flushes.set(counters.flushes.get() + 1);
        let bytes = memtable.used_bytes() as u64;
        counters.flushed_bytes.set(counters.flushed_bytes.get() + bytes);
    }

    pub(crate) fn count_failed_flush(&self) {
        let failed = &self.inner.counters.failed_flushes;
        failed.set(failed.get() + 1);
    }
}
