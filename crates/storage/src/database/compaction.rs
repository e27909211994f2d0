//! What is told of compactions, and what they share between shards.

use std::{
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

use espalier_mutation::schema::TableId;
use espalier_runtime::{spawn_local, sync::Notify};
use espalier_sstable::Descriptor;
use uuid::Uuid;

use super::{Database, first_failure::FirstFailure};
use crate::{
    StorageError,
    commitlog::{LogPosition, SettledNote},
    compaction::{
        CompactionBacklog, CompactionKind, CompactionOutcome, CompactionProgress, RESERVED_BYTES,
        Running, arena_of, flush_pause, history_update, pending,
    },
    system::is_virtual,
    table::{SSTable, Table},
};

/// What one compaction reads at once, at most.
const MOST_READ_AHEAD_BYTES: usize = 64 << 20;

impl Database {
    /// Writes each file of a keyspace, or of one table of it, anew; if `only_others`, those that are of another version than
    /// the one that is written now. One that cannot be read is told when the others are done.
    pub async fn upgrade_sstables(
        &self,
        keyspace: &str,
        table: Option<&str>,
        only_others: bool,
    ) -> Result<(), StorageError> {
        let ids = self.tables_named(keyspace, table)?;
        let seen = self.stop_requests().await;
        self.for_tables(ids, move |database, table| {
            let seen = seen.clone();
            async move { database.upgrade_all_of(&table, only_others, &seen).await }
        })
        .await
    }

    /// Stops the compactions of these kinds that run; what they have written is removed. Later ones begin as ever.
    pub async fn stop_compactions(&self, kinds: &'static [CompactionKind]) {
        self.on_all_shards(move |database| async move {
            let request = database.count_stop_request();
            for table in database.tables_here() {
                table.compactions.stop(request, kinds);
            }
        })
        .await;
    }

    /// The same for one keyspace, or some tables of it.
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

    /// Lets compactions of a keyspace, or of some tables of it, begin by themselves, or no more: until the node ends, or a table's
    /// `compaction` is altered. Those that run go on.
    pub async fn set_compacted_by_themselves(
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

    /// Whether compactions of a table begin by themselves.
    pub fn is_compacted_by_itself(
        &self,
        keyspace: &str,
        table: &str,
    ) -> Result<bool, StorageError> {
        let mut ids = self.tables_listed(keyspace, &[table])?.into_iter();
        let Some(id) = ids.next() else { return Ok(false) };
        // All shards are told the same.
        Ok(self.table(id)?.compaction_strategy().is_enabled())
    }

    /// Counts one that begins now; its number.
    fn count_stop_request(&self) -> u64 {
        let requests = &self.inner.counters.stop_requests;
        requests.set(requests.get() + 1);
        requests.get()
    }

    /// How often somebody asked for compactions to end, by shard. Who asks for one now ends it if that becomes more.
    pub(super) async fn stop_requests(&self) -> StopRequests {
        let seen = self
            .on_all_shards(|database| async move { database.inner.counters.stop_requests.get() });
        StopRequests(seen.await.into())
    }

    /// Whether somebody asked for compactions of a kind and of a table to end since then.
    pub(super) fn is_stopped_since(
        &self,
        seen: &StopRequests,
        table: &Table,
        kind: CompactionKind,
    ) -> bool {
        let seen = seen.0.get(self.shard().index).copied();
        table.compactions.is_stopped_since(seen.unwrap_or_default(), kind)
    }

    /// Bytes that are free on a table's disk and that nothing that is being compacted will still write.
    pub(crate) async fn bytes_for_compactions(&self, table: &Table) -> u64 {
        self.bytes_without(table, Running::bytes_to_come).await
    }

    /// Bytes that are free on a table's disk without what `reserves` says of each compaction there.
    async fn bytes_without(
        &self,
        table: &Table,
        reserves: impl Fn(&Running) -> u64 + Copy + Send + 'static,
    ) -> u64 {
        let device = self.device_of(table).await;
        let directory = match self.file_system().exists(&table.directory).await {
            Ok(true) => &table.directory,
            _ => &self.configuration().data_directory,
        };
        let available = self.file_system().available_bytes(directory).await;
        let available = available.unwrap_or_else(|error| {
            tracing::warn!(%error, "nobody knows how much room the disk has: none is counted on");
            0
        });
        let reserved = self.on_all_shards(move |database| async move {
            let mut bytes = 0;
            for (table, running) in database.running_compactions() {
                if database.device_of(&table).await == device {
                    bytes += reserves(&running);
                }
            }
            bytes
        });
        let reserved: u64 = reserved.await.into_iter().sum();
        available.saturating_sub(reserved).saturating_sub(RESERVED_BYTES)
    }

    /// The disk that a table is on.
    pub(crate) async fn device_of(&self, table: &Table) -> u64 {
        table.device(self.file_system(), &self.configuration().data_directory).await
    }

    /// Whether the table's disk has room for a compaction that has its files already, beside all others that have it.
    pub(crate) async fn check_room(
        &self,
        table: &Table,
        running: &Running,
    ) -> Result<(), StorageError> {
        let id = running.id;
        let available =
            self.bytes_without(table, move |other| other.bytes_to_come_before(id)).await;
        let needed_bytes = running.bytes_to_come();
        if needed_bytes > available {
            return Err(StorageError::NoDiskSpace { needed_bytes });
        }
        running.set_has_room();
        Ok(())
    }

    /// What runs on all shards.
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

    /// How far compactions of all tables on this shard are behind.
    pub(crate) fn compaction_backlog_here(&self) -> CompactionBacklog {
        let mut backlog = CompactionBacklog::default();
        for table in self.tables_here() {
            let (strategy, arena) = (table.compaction_strategy(), arena_of(self, &table));
            // Those that cannot be compacted lie there all the same, and nobody waits for them.
            let arena = arena.without_suspects();
            backlog.pending += pending(self, &table, &arena);
            if strategy.is_enabled() {
                backlog.surplus = backlog.surplus.max(strategy.surplus(&arena.facts()));
            }
        }
        backlog
    }

    pub(crate) fn pending_compactions_of(&self, table: &Rc<Table>) -> usize {
        pending(self, table, &arena_of(self, table).without_suspects())
    }

    /// The same on all shards, by keyspace and table.
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

    /// The ids of the tables of a keyspace, or of one of them; not of those that have no files.
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

    /// Some tables of a keyspace, or all of them if none is listed.
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

    /// Calls `work` for tables on all shards, on each one after another. All have their turn unless they are stopped; the first failure is told.
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
                    // Not here: dropped meanwhile, or of another shard alone.
                    if let Ok(table) = database.table(id) {
                        failure.keep(work(database.clone(), table).await)?;
                    }
                }
                failure.told()
            }
        });
        FirstFailure::of_shards(outcomes.await)
    }

    /// Opens the parts of a file that is being split, each on the shards that own some of it.
    pub(crate) async fn stage_everywhere(
        &self,
        id: TableId,
        split: Uuid,
        parts: Vec<Descriptor>,
    ) -> Result<(), StorageError> {
        let staged = self.on_all_shards(move |database| {
            let parts = parts.clone();
            async move {
                let Ok(table) = database.table(id) else { return Ok(()) };
                let metadata = table.metadata();
                for part in parts {
                    let part = database.open_sstable(&metadata, part).await?;
                    if database.may_own_part(&metadata, &part) {
                        table.staged.borrow_mut().entry(split).or_default().push(part);
                    }
                }
                Ok(())
            }
        });
        staged.await.into_iter().collect()
    }

    /// Forgets them.
    pub(crate) async fn unstage_everywhere(&self, id: TableId, split: Uuid) {
        let forgotten = self.on_all_shards(move |database| async move {
            if let Ok(table) = database.table(id) {
                let parts = table.staged.borrow_mut().remove(&split);
                drop(parts);
            }
        });
        forgotten.await;
    }

    /// Puts them in place of the file, shard by shard: each reads its own partitions only, and those are the same, unless something
    /// was left out of them.
    pub(crate) async fn exchange_everywhere(
        &self,
        id: TableId,
        split: Uuid,
        removed: Vec<Descriptor>,
        has_left_out: bool,
    ) -> Result<(), StorageError> {
        let exchanged = self.on_all_shards(move |database| {
            let removed = removed.clone();
            async move {
                let Ok(table) = database.table(id) else { return Ok(()) };
                let staged = table.staged.borrow_mut().remove(&split).unwrap_or_default();
                let view = table.view();
                let is_removed = |sstable: &&Rc<SSTable>| removed.contains(sstable.descriptor());
                let gone: Vec<_> = view.sstables.iter().filter(is_removed).cloned().collect();
                table.exchange(&gone, staged, has_left_out)?;
                database.compaction_wanted().notify_one();
                Ok(())
            }
        });
        exchanged.await.into_iter().collect()
    }

    async fn upgrade_all_of(
        &self,
        table: &Rc<Table>,
        only_others: bool,
        seen: &StopRequests,
    ) -> Result<(), StorageError> {
        let version = self.sstable_features(table).version;
        let is_other = |sstable: &Rc<SSTable>| sstable.descriptor().version != version;
        // Those that are there now; what is written meanwhile is of today. What is compacted before its turn is let go of, or its blocks would stay taken.
        let mut left: Vec<Rc<SSTable>> = table.view().sstables.to_vec();
        left.retain(|sstable| !only_others || is_other(sstable));
        let left: Vec<Weak<SSTable>> = left.iter().map(Rc::downgrade).rev().collect();
        let mut failure = FirstFailure::none();
        for sstable in left {
            let Some(sstable) = sstable.upgrade() else { continue };
            failure.keep(self.compact_one(table, &sstable, CompactionKind::Upgrade, seen).await)?;
        }
        failure.told()
    }

    pub(crate) fn running_compactions(&self) -> Vec<(Rc<Table>, Rc<Running>)> {
        let running = self.tables_here().into_iter().flat_map(|table| {
            let running = table.compactions.running();
            running.into_iter().map(move |running| (table.clone(), running))
        });
        running.collect()
    }

    /// Bytes of Data.db that one compaction may read at once: it is memory beside all budgets, so it is little where they are small.
    pub(crate) fn read_ahead_bytes(&self) -> usize {
        let shards = self.inner.context.count.max(1);
        (self.configuration().page_cache_bytes / shards / 8).min(MOST_READ_AHEAD_BYTES)
    }

    pub(crate) fn compaction_wanted(&self) -> &Notify {
        &self.inner.compaction_wanted
    }

    /// The first and the last token of this shard.
    pub(crate) fn own_tokens(&self) -> (i64, i64) {
        self.inner.context.token_range()
    }

    /// Notes which parts of a table's commit log no SSTable speaks of any more, though their writes are dead. Durable when it returns.
    pub(crate) async fn note_settled(
        &self,
        table: &Table,
        intervals: &[(LogPosition, LogPosition)],
    ) -> Result<(), StorageError> {
        let inner = &self.inner;
        let directory = &inner.configuration.commitlog_directory;
        let note = SettledNote::new(directory, inner.context.index, self.host_id());
        let id = table.borrow_metadata().id;
        let oldest = |id| self.oldest_segment_for(&*self.table(id).ok()?);
        let _turn = inner.settled_turn.acquire(1).await;
        note.add(&inner.file_system, id, intervals, oldest).await
    }

    /// No older segment of a table's commit log is there; `None` if it has no log.
    pub(crate) fn oldest_segment_for(&self, table: &Table) -> Option<u64> {
        let log = self.log_for(table)?;
        Some(log.oldest_on_disk())
    }

    pub(crate) fn note_compaction(&self, outcome: &CompactionOutcome) {
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
                tracing::debug!(%error, "a compaction is missing in the history");
            }
        })
        .detach();
    }

    /// How long to wait with a flush, because compactions cannot keep up: memtables fill up meanwhile, and writes wait for
    /// room in them, so that they come in as slowly as files can be compacted.
    pub(crate) fn flush_pause(&self, table: &Rc<Table>) -> Duration {
        let is_enabled = self.inner.compacts.get() && table.compaction_strategy().is_enabled();
        // Nothing would come of waiting: not before the log is replayed, either.
        if !is_enabled || table.compactions.is_undecided() {
            return Duration::ZERO;
        }
        let (strategy, arena) = (table.compaction_strategy(), arena_of(self, table));
        let pause = flush_pause(strategy.surplus(&arena.facts()));
        // Nor if there is nothing to be done, or nothing can be for a while.
        let has_failed = table.compactions.until_retry().is_some();
        let is_wanted =
            || !has_failed && !strategy.picks(&arena.without_suspects().facts()).is_empty();
        match pause.is_zero() || !table.compactions.running().is_empty() || is_wanted() {
            true => pause,
            false => Duration::ZERO,
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

/// How often compactions were to end, by shard, when somebody asked for one.
#[derive(Clone)]
pub(super) struct StopRequests(Arc<[u64]>);
