//! Flushing on demand, and what flushes need to know of the database.

use std::{cell::Cell, num::NonZeroU64, rc::Rc};

use espalier_mutation::schema::TableId;
use espalier_runtime::{file::FileSystem, sync::Notify};
use espalier_sstable::{
    Descriptor, SSTableId, components::components_found, versions::VersionFeatures,
};

use super::Database;
use crate::{
    StorageError,
    commitlog::CommitLog,
    flush::{FlushEstimate, WritePace},
    memtable::{Memtable, MemtableBudget},
    table::Table,
};

/// Of what flushes have to write still, the room that memtables must have for that to go slowly: somewhat less than there is when one begins, if
/// it does at half of the memory or before (`memtable_cleanup_threshold`).
const ROOM_OF_SLOW_FLUSH: f64 = 0.75;

/// A flush that is under way.
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
    /// Writes what a keyspace, or one table of it, has in memory on all shards to SSTables.
    pub async fn flush(&self, keyspace: &str, table: Option<&str>) -> Result<(), StorageError> {
        let ids = self.tables_named(keyspace, table)?;
        self.flush_tables(ids).await
    }

    /// Writes what a table has in memory on all shards to SSTables.
    pub(super) async fn flush_everywhere(&self, id: TableId) -> Result<(), StorageError> {
        self.flush_tables(vec![id]).await
    }

    async fn flush_tables(&self, ids: Vec<TableId>) -> Result<(), StorageError> {
        let flush = |database: Database, table: Rc<Table>| async move {
            database.flush_table(&table).await
        };
        self.for_tables(ids, flush).await
    }

    /// Flushes all tables on this shard.
    pub(super) async fn flush_here(&self) -> Result<(), StorageError> {
        let mut outcome = Ok(());
        for table in self.tables_here() {
            if let Err(error) = self.flush_table(&table).await {
                outcome = Err(error);
            }
        }
        outcome
    }

    /// Lets the logs give up the segments whose writes are all flushed.
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

    /// The log that a table's writes go to.
    pub(crate) fn log_for(&self, table: &Table) -> Option<&CommitLog> {
        if table.is_schema() { self.inner.schema_log.get() } else { self.inner.log.get() }
    }

    /// The logs of this shard that are open.
    pub(crate) fn logs(&self) -> impl Iterator<Item = &CommitLog> {
        self.inner.log.get().into_iter().chain(self.inner.schema_log.get())
    }

    pub(crate) fn tables_here(&self) -> Vec<Rc<Table>> {
        self.inner.tables.borrow().values().cloned().collect()
    }

    pub(crate) fn budget(&self) -> &MemtableBudget {
        &self.inner.budget
    }

    /// Whether a flush is under way on this shard.
    pub(crate) fn is_flushing(&self) -> bool {
        self.inner.flushing.get() > 0
    }

    /// Whether what can wait should leave the core to a flush that is under way, since memory gets short.
    pub(crate) fn is_flush_urgent(&self) -> bool {
        self.is_flushing() && self.inner.budget.is_short()
    }

    /// Whether flushes may take their time: memory and log last longer than they do, and nobody waits for them.
    pub(crate) fn can_flush_slowly(&self) -> bool {
        let (budget, estimate) = (self.budget(), self.flush_estimate());
        // What is not being written yet of what should be: other tables'.
        let active_bytes = budget.held_bytes() as f64 - estimate.begun_bytes();
        let due_bytes = (active_bytes - budget.flush_bytes() as f64).max(0.0);
        self.inner.awaiting_flush.get() == 0
            && budget.room_bytes() as f64
                >= ROOM_OF_SLOW_FLUSH * (estimate.left_bytes() + due_bytes)
            && !self.write_pace().is_slowing()
            && !self.logs().any(CommitLog::is_under_pressure)
    }

    /// Says that a flush is under way, until what it gives is dropped.
    pub(crate) fn begin_flush(&self) -> Counted<'_> {
        Counted::new(&self.inner.flushing)
    }

    /// Says that somebody waits for a flush, until what it gives is dropped.
    pub(crate) fn await_flush(&self) -> Counted<'_> {
        Counted::new(&self.inner.awaiting_flush)
    }

    pub(crate) fn flush_estimate(&self) -> &FlushEstimate {
        &self.inner.flush_estimate
    }

    pub(crate) fn write_pace(&self) -> &WritePace {
        &self.inner.write_pace
    }

    pub(crate) fn file_system(&self) -> &FileSystem {
        &self.inner.file_system
    }

    /// Notified when there may be more dead rows to learn of.
    pub(crate) fn dead_ranges_wanted(&self) -> &Notify {
        &self.inner.dead_ranges_wanted
    }

    pub(crate) fn flush_wanted(&self) -> &Notify {
        &self.inner.flush_wanted
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.inner.is_closing.get()
    }

    /// The name of the next SSTable of a table, as `named` makes it of its number: one that nothing has. Who copies files into the directory of a
    /// table has given them numbers that this node knows nothing of before it starts again.
    pub(crate) async fn next_descriptor(
        &self,
        table: TableId,
        named: impl Fn(SSTableId) -> Descriptor,
    ) -> Result<Descriptor, StorageError> {
        loop {
            let number = self.inner.shared.next_generation(table) - 1;
            let id = SSTableId::Generation(NonZeroU64::MIN.saturating_add(number));
            let descriptor = named(id);
            let found = components_found(self.file_system(), &descriptor).await?;
            if found.is_empty() {
                return Ok(descriptor);
            }
            tracing::warn!(sstable = %descriptor, directory = %descriptor.directory.display(), "somebody has put files into the directory of a table while it is open: they are left alone, and are of the table from the next start on; nodetool import takes in files at once");
        }
    }

    /// What the table's `sstable_format` can do, or the node's.
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
