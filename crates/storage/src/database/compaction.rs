//! Control and progress of compactions: stopping and enabling them, and how far they are behind.

use std::{
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

use espalier_commitlog::DiscardedIntervalsFile;
use espalier_compaction::{
    CompactionBacklog, CompactionKind, CompactionOutcome, CompactionProgress, Running, flush_pause,
};
use espalier_mutation::{LogPosition, schema::TableId};
use espalier_runtime::{spawn_local, sync::Notify};
use espalier_sstable::SSTable;
use futures_util::future::LocalBoxFuture;

use super::{Database, first_failure::FirstFailure};
use crate::{
    StorageError,
    compaction::{candidates_of, history_update, pending},
    system::is_virtual,
    table::Table,
};

/// Maximum read-ahead of one compaction, in bytes.
const MAX_READ_AHEAD_BYTES: usize = 64 << 20;

impl Database {
    /// Rewrites each SSTable of a keyspace, or of one table of it. With `only_others`, only
    /// SSTables of another version than the current one. A file that cannot be read does
    /// not keep the others from being rewritten.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or table is unknown, if the rewrite is stopped, or with the first
    /// failure of a file.
    pub fn upgrade_sstables<'a>(
        &'a self,
        keyspace: &'a str,
        table: Option<&'a str>,
        only_others: bool,
    ) -> LocalBoxFuture<'a, Result<(), StorageError>> {
        Box::pin(async move {
            let ids = self.tables_named(keyspace, table)?;
            let seen = self.stop_requests().await;
            self.for_tables(ids, move |database, table| {
                let seen = seen.clone();
                async move { database.upgrade_all_of(&table, only_others, &seen).await }
            })
            .await
        })
    }

    /// Stops the running compactions of these kinds and removes their output. Later compactions
    /// start as usual.
    pub async fn stop_compactions(&self, kinds: &'static [CompactionKind]) {
        self.on_all_shards(move |database| async move {
            let request = database.count_stop_request();
            for table in database.tables_here() {
                table.compactions.stop(request, kinds);
            }
        })
        .await;
    }

    /// Stops the running compactions of these kinds in a keyspace, or in some tables of it.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or a table is unknown.
    pub async fn stop_compactions_of(
        &self,
        keyspace: &str,
        tables: &[&str],
        kinds: &'static [CompactionKind],
    ) -> Result<(), StorageError> {
        let ids = self.tables_listed(keyspace, tables)?;
        self.on_all_shards(move |database| {
            let ids = ids.clone();
            async move {
                let request = database.count_stop_request();
                for table in ids.into_iter().filter_map(|id| database.table(id).ok()) {
                    table.compactions.stop(request, kinds);
                }
            }
        })
        .await;
        Ok(())
    }

    /// Enables or disables automatic compactions of a keyspace, or of some tables of it. The
    /// setting holds until the node stops or the table's `compaction` is altered. Running
    /// compactions go on.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or a table is unknown.
    pub async fn set_auto_compaction_enabled(
        &self,
        keyspace: &str,
        tables: &[&str],
        is_enabled: bool,
    ) -> Result<(), StorageError> {
        let ids = self.tables_listed(keyspace, tables)?;
        self.on_all_shards(move |database| {
            let ids = ids.clone();
            async move {
                for table in ids.into_iter().filter_map(|id| database.table(id).ok()) {
                    table.set_compacted_by_itself(is_enabled);
                }
                database.compaction_wanted().notify_one();
            }
        })
        .await;
        Ok(())
    }

    /// Returns whether compactions of a table start automatically.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or the table is unknown.
    pub fn is_compacted_by_itself(
        &self,
        keyspace: &str,
        table: &str,
    ) -> Result<bool, StorageError> {
        let mut ids = self.tables_listed(keyspace, &[table])?.into_iter();
        let Some(id) = ids.next() else { return Ok(false) };
        // Every shard has the same setting.
        Ok(self.table(id)?.compaction_strategy().is_enabled())
    }

    /// Counts a stop request and returns its number.
    fn count_stop_request(&self) -> u64 {
        let requests = &self.inner.counters.stop_requests;
        requests.set(requests.get() + 1);
        requests.get()
    }

    /// Returns the number of stop requests so far, by shard. A caller that starts a compaction
    /// keeps the result and ends the compaction when the number grows.
    pub(super) async fn stop_requests(&self) -> StopRequests {
        let seen = self
            .on_all_shards(|database| async move { database.inner.counters.stop_requests.get() });
        StopRequests(seen.await.into())
    }

    /// Returns whether a compaction of this kind and table was asked to stop since `seen`.
    pub(super) fn is_stopped_since(
        &self,
        seen: &StopRequests,
        table: &Table,
        kind: CompactionKind,
    ) -> bool {
        let seen = seen.0.get(self.shard().index).copied();
        table.compactions.is_stopped_since(seen.unwrap_or_default(), kind)
    }

    /// Returns the progress of the compactions that run on all shards.
    pub async fn compactions(&self) -> Vec<CompactionProgress> {
        let all = self.on_all_shards(|database| async move { database.compactions_here() });
        all.await.concat()
    }

    fn compactions_here(&self) -> Vec<CompactionProgress> {
        let running = self.running_compactions().into_iter().map(|(table, running)| {
            let metadata = table.metadata();
            CompactionProgress {
                id: running.id,
                shard: self.shard().index,
                kind: running.kind,
                keyspace: metadata.keyspace.clone(),
                table: metadata.name.clone(),
                table_id: metadata.id,
                sstables: running.inputs.len(),
                completed_bytes: running.completed_bytes.get(),
                remaining: running.remaining(),
                total_bytes: running.total_bytes.get(),
                total_stored_bytes: running.total_stored_bytes(),
                target_directory: table.directory.display().to_string(),
            }
        });
        running.collect()
    }

    /// Returns how far the compactions of all tables on this shard are behind.
    pub(crate) fn compaction_backlog_here(&self) -> CompactionBacklog {
        let mut backlog = CompactionBacklog::default();
        for table in self.tables_here() {
            let (strategy, candidates) = (table.compaction_strategy(), candidates_of(self, &table));
            // SSTables that cannot be compacted stay where they are, and no flush waits for them.
            let candidates = candidates.without_suspects();
            backlog.pending += pending(self, &table, &candidates);
            if strategy.is_enabled() {
                backlog.score = backlog.score.max(strategy.score(&candidates.facts()));
            }
        }
        backlog
    }

    pub(crate) fn pending_compactions_of(&self, table: &Rc<Table>) -> usize {
        pending(self, table, &candidates_of(self, table).without_suspects())
    }

    /// Returns the number of pending compactions on all shards, by keyspace and table.
    pub async fn pending_compactions(&self) -> Vec<(String, String, usize)> {
        let counts = self.on_all_shards(|database| async move {
            let count = |table: Rc<Table>| {
                let (metadata, pending) =
                    (table.metadata(), database.pending_compactions_of(&table));
                (metadata.keyspace.clone(), metadata.name.clone(), pending)
            };
            database.tables_here().into_iter().map(count).collect::<Vec<_>>()
        });
        let mut counts = counts.await.concat();
        counts.retain(|(_, _, pending)| *pending > 0);
        counts.sort();
        counts.dedup_by(|right, left| {
            let is_same = (&left.0, &left.1) == (&right.0, &right.1);
            left.2 += if is_same { right.2 } else { 0 };
            is_same
        });
        counts
    }

    /// Returns the ids of the tables of a keyspace, or of one of them. Virtual tables are unknown
    /// here, because they have no files.
    pub(super) fn tables_named(
        &self,
        keyspace: &str,
        table: Option<&str>,
    ) -> Result<Vec<TableId>, StorageError> {
        if is_virtual(keyspace) {
            return Err(StorageError::UnknownKeyspace(keyspace.to_owned()));
        }
        let schema = self.schema();
        if let Some(name) = table {
            let unknown = || StorageError::UnknownTableName {
                keyspace: keyspace.to_owned(),
                table: name.to_owned(),
            };
            return Ok(vec![schema.table(keyspace, name).ok_or_else(unknown)?.id]);
        }
        let unknown = || StorageError::UnknownKeyspace(keyspace.to_owned());
        let keyspace = schema.keyspace(keyspace).ok_or_else(unknown)?;
        Ok(keyspace.tables.values().map(|table| table.id).collect())
    }

    /// Returns the ids of some tables of a keyspace, or of all of them if `tables` is empty.
    fn tables_listed(&self, keyspace: &str, tables: &[&str]) -> Result<Vec<TableId>, StorageError> {
        if tables.is_empty() {
            return self.tables_named(keyspace, None);
        }
        let mut ids = Vec::new();
        for table in tables {
            ids.extend(self.tables_named(keyspace, Some(table))?);
        }
        Ok(ids)
    }

    /// Calls `work` for the tables on all shards; one shard works on its tables one after another.
    /// A failure does not keep the following tables from their turn, unless it is a stop request or
    /// a shutdown. Returns the first failure.
    pub(super) async fn for_tables<F>(
        &self,
        ids: Vec<TableId>,
        work: impl Fn(Database, Rc<Table>) -> F + Clone + Send + 'static,
    ) -> Result<(), StorageError>
    where
        F: Future<Output = Result<(), StorageError>> + 'static,
    {
        let outcomes = self.on_all_shards(move |database| {
            let (ids, work) = (ids.clone(), work.clone());
            async move {
                let mut failure = FirstFailure::none();
                for id in ids {
                    // The table was dropped meanwhile, or belongs to another shard alone.
                    if let Ok(table) = database.table(id) {
                        failure.keep(work(database.clone(), table).await)?;
                    }
                }
                failure.into_result()
            }
        });
        FirstFailure::of_shards(outcomes.await)
    }

    async fn upgrade_all_of(
        &self,
        table: &Rc<Table>,
        only_others: bool,
        seen: &StopRequests,
    ) -> Result<(), StorageError> {
        let version = self.sstable_features(table).version;
        let is_other = |sstable: &Rc<SSTable>| sstable.descriptor().version != version;
        // A snapshot of the current SSTables; newer ones already have the target version. Held
        // weakly, so that an SSTable compacted before its turn frees its disk space.
        let mut left: Vec<Rc<SSTable>> = table.view().sstables.to_vec();
        left.retain(|sstable| !only_others || is_other(sstable));
        let left: Vec<Weak<SSTable>> = left.iter().map(Rc::downgrade).rev().collect();
        let mut failure = FirstFailure::none();
        for sstable in left {
            let Some(sstable) = sstable.upgrade() else { continue };
            failure.keep(self.compact_one(table, &sstable, CompactionKind::Upgrade, seen).await)?;
        }
        failure.into_result()
    }

    pub(crate) fn running_compactions(&self) -> Vec<(Rc<Table>, Rc<Running>)> {
        let running = self.tables_here().into_iter().flat_map(|table| {
            let running = table.compactions.running();
            running.into_iter().map(move |running| (table.clone(), running))
        });
        running.collect()
    }

    /// Returns how many bytes of Data.db one compaction may read ahead. This memory is outside of
    /// all budgets, so it is derived from the page cache's size and is small where that is small.
    pub(crate) fn read_ahead_bytes(&self) -> usize {
        let shards = self.inner.context.count.max(1);
        (self.configuration().page_cache_bytes / shards / 8).min(MAX_READ_AHEAD_BYTES)
    }

    pub(crate) fn compaction_wanted(&self) -> &Notify {
        &self.inner.compaction_wanted
    }

    /// Returns the first and the last token of this shard.
    pub(crate) fn own_tokens(&self) -> (i64, i64) {
        self.inner.context.token_range()
    }

    /// Records intervals of a table's commit log that no SSTable accounts for any more, because
    /// their mutations were purged. The record is durable when this returns.
    pub(crate) async fn record_discarded(
        &self,
        table: &Table,
        intervals: &[(LogPosition, LogPosition)],
    ) -> Result<(), StorageError> {
        let inner = &self.inner;
        let directory = &inner.configuration.commitlog_directory;
        let note = DiscardedIntervalsFile::new(directory, inner.context.index, self.host_id());
        let id = table.borrow_metadata().id;
        let oldest = |id| self.oldest_segment_for(&*self.table(id).ok()?);
        let _lock = inner.discarded_lock.acquire(1).await;
        Ok(note.add(&inner.file_system, id, intervals, oldest).await?)
    }

    /// Returns the id of the oldest segment on disk of a table's commit log; `None` if the log is
    /// not open.
    pub(crate) fn oldest_segment_for(&self, table: &Table) -> Option<u64> {
        let log = self.log_for(table)?;
        Some(log.oldest_on_disk())
    }

    pub(crate) fn record_compaction(&self, outcome: &CompactionOutcome) {
        let counters = &self.inner.counters;
        counters.compactions.set(counters.compactions.get() + 1);
        counters.compacted_bytes_in.set(counters.compacted_bytes_in.get() + outcome.bytes_in);
        counters.compacted_bytes_out.set(counters.compacted_bytes_out.get() + outcome.bytes_out);
        let Some(update) = history_update(outcome) else { return };
        let database = self.clone();
        spawn_local(async move {
            if !database.is_closing()
                && let Err(error) = database.apply(update).await
            {
                tracing::debug!(%error, "compaction history lacks a compaction");
            }
        })
        .detach();
    }

    /// Returns how long a flush pauses because compactions cannot keep up. Memtables fill up
    /// meanwhile and writes wait for room in them, so that writes arrive as slowly as their
    /// SSTables can be compacted.
    pub(crate) fn flush_pause(&self, table: &Rc<Table>) -> Duration {
        let is_enabled = self.inner.compacts.get() && table.compaction_strategy().is_enabled();
        // A pause would gain nothing, and neither would one before the log is replayed.
        if !is_enabled || table.compactions.is_undecided() {
            return Duration::ZERO;
        }
        let (strategy, candidates) = (table.compaction_strategy(), candidates_of(self, table));
        let pause = flush_pause(strategy.score(&candidates.facts()));
        // Nor does a pause help if there is nothing to compact, or nothing can be compacted for a
        // while.
        let has_failed = table.compactions.until_retry().is_some();
        let is_queued =
            || !has_failed && !strategy.picks(&candidates.without_suspects().facts()).is_empty();
        if pause.is_zero() || !table.compactions.running().is_empty() || is_queued() {
            pause
        } else {
            Duration::ZERO
        }
    }

    pub(crate) fn count_delayed_flush(&self, delay: Duration) {
        let (delayed, us) =
            (&self.inner.counters.delayed_flushes, &self.inner.counters.flush_delay_us);
        delayed.set(delayed.get() + 1);
        us.set(us.get() + u64::try_from(delay.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count_failed_compaction(&self) {
        let failed = &self.inner.counters.failed_compactions;
        failed.set(failed.get() + 1);
    }

    pub(crate) fn count_stopped_compaction(&self) {
        let stopped = &self.inner.counters.stopped_compactions;
        stopped.set(stopped.get() + 1);
    }
}

/// The number of stop requests of each shard, taken when a compaction on demand starts.
#[derive(Clone)]
pub(super) struct StopRequests(Arc<[u64]>);
