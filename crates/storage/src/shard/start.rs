//! Opens the store of a shard that is used alone, and closes stores.
//!
//! 1. Find segments of the commit log and the directories of tables; finish what a crash
//!    interrupted.
//! 2. Open the SSTables of the schema's tables.
//! 3. Replay the segments. If several shards wrote them, flush everything and remove them.
//! 4. Open the log, and start flushes and compactions.
//!
//! The node does the same steps for all of its shards (`node::open`).

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use espalier_commitlog::{DiscardedIntervals, DiscardedIntervalsFile, LogKind, find_segments};
use espalier_mutation::schema::{Schema, TableId};
use espalier_runtime::{ShardContext, file::FileSystem, spawn_local, time};
use espalier_sstable::{Descriptor, SSTableId, components::remove_sstable};
use futures_util::{
    future::LocalBoxFuture,
    stream::{self, StreamExt, TryStreamExt},
};

use super::{
    FoundTable, FoundTables, RequestedCompactions, ShardStore,
    caches::keep_memory_split,
    open_log::open_log,
    replay::{apply_replayed, recover_tables, replay},
};
use crate::{
    FirstFailure, SharedStorage, StorageConfiguration, StorageError,
    recovery::{arrange, load_or_make_host_id},
    system::SCHEMA_KEYSPACE,
    table::{Table, TableDirectory, TruncationRecord, find_sstables, find_tables},
};

/// Maximum number of tables' directories that are listed at once.
const FOUND_AT_ONCE: usize = 32;

/// Maximum number of flushes that a request or a shutdown runs at once on a shard. Each holds about
/// 2 MiB of buffers.
const FLUSHES_AT_ONCE: usize = 16;

impl ShardStore {
    /// Opens a store that is used alone: without a node, another shard or CQL. It has the tables of
    /// `schema`, whose ids must be the same at each start. The directories of the configuration
    /// belong to this store.
    ///
    /// # Errors
    ///
    /// Fails if the settings are not supported, if the directory belongs to a node, or if an
    /// SSTable or the commit log cannot be read.
    pub fn open(
        file_system: FileSystem,
        configuration: Arc<StorageConfiguration>,
        schema: Schema,
    ) -> LocalBoxFuture<'static, Result<Rc<Self>, StorageError>> {
        Box::pin(async move {
            let context = ShardContext { index: 0, count: 1 };
            let shared = SharedStorage::new();
            let store = Self::unopened(context, file_system, configuration, shared)?;
            let store = Rc::new(store);
            open_alone(&store, Arc::new(schema)).await?;
            Ok(store)
        })
    }

    /// Flushes all tables of this shard.
    ///
    /// # Errors
    ///
    /// Fails with the first failure of a flush. A failure stops no other flush.
    pub async fn flush(&self) -> Result<(), StorageError> {
        flush_tables(self, self.tables.all()).await
    }

    /// Compacts all files of a table on this shard into one sorted run.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown, if the compaction is stopped, or if a file cannot be read or
    /// written.
    pub async fn compact(self: &Rc<Self>, table: TableId) -> Result<(), StorageError> {
        let table = &self.tables.get(table)?;
        let seen = self.compactions.stop_requests.get();
        RequestedCompactions { store: self, table, seen }.compact_where(|_| true).await
    }

    /// Refuses new writes, flushes all tables and closes the logs. If every flush succeeds, the
    /// log's files are removed; otherwise they stay, synced, for the next start.
    ///
    /// # Errors
    ///
    /// Fails with the first failure of a flush or of a log.
    pub async fn close(&self) -> Result<(), StorageError> {
        if self.is_closing.replace(true) {
            return Ok(());
        }
        self.memtables.write_pace.end();
        self.memtables.budget.wake_waiters();
        self.wakers.compaction.notify_one();
        self.wakers.empty_ranges.notify_one();
        for table in self.tables.all() {
            drop(table.compactions.pause().await);
        }
        let flushed = self.flush().await;
        self.wakers.flush.notify_one();
        self.wakers.indexes.notify_one();
        for log in self.logs.all() {
            log.close().await;
            if flushed.is_ok() {
                log.remove_files().await?;
            }
        }
        flushed
    }
}

/// Flushes tables on this shard. Most of a small flush waits for the disk, which syncs several
/// files in about the time of one. A failure stops no other flush; returns the first one.
pub(crate) async fn flush_tables(
    store: &ShardStore,
    tables: Vec<Rc<Table>>,
) -> Result<(), StorageError> {
    let flushes = tables.iter().map(|table| store.flush_table(table));
    let mut outcomes = stream::iter(flushes).buffer_unordered(FLUSHES_AT_ONCE);
    let (mut failure, mut ended) = (FirstFailure::none(), Ok(()));
    while let Some(outcome) = outcomes.next().await {
        // Whatever ends one flush, the others under way are not dropped half done.
        ended = ended.and(failure.keep(outcome));
    }
    ended.and_then(|()| failure.into_result())
}

async fn open_alone(store: &Rc<ShardStore>, schema: Arc<Schema>) -> Result<(), StorageError> {
    let (configuration, file_system) = (&store.configuration, &store.file_system);
    prepare_directories(store).await?;
    let directory = &configuration.commitlog_directory;
    let policy = configuration.commit_failure_policy;
    let segments = find_segments(file_system, directory, LogKind::Data, policy).await?;
    begin_segment_ids(store, segments.greatest_id);
    let discarded = load_discarded(store).await?;
    let found = find_all_tables(store).await?;
    let is_of_node = |found: &FoundTable| {
        found.directory.path.parent().is_some_and(|keyspace| keyspace.ends_with(SCHEMA_KEYSPACE))
    };
    if found.iter().any(is_of_node) {
        return Err(StorageError::NotSupported("the directory of a node as that of a store alone"));
    }
    store.shared.set_schema(schema.clone());
    store.install(&schema, &found).await?;
    start_flushes(store);
    let mut recovered = recover_tables(store, &found, |_| true).await?;
    arrange(&mut recovered, &discarded);
    let is_kept = segments.segments.iter().all(|segment| segment.shard_count == 1);
    let apply = async |mutation, position| {
        apply_replayed(store, &mutation, is_kept.then_some(position)).await
    };
    let summary =
        replay(store, segments.segments, &schema, &recovered.into(), is_kept, apply).await?;
    let mut adopted = summary.segments;
    if !is_kept {
        store.flush().await?;
        for (_, path, _) in std::mem::take(&mut adopted) {
            file_system.remove_file(&path).await?;
        }
        file_system.sync_dir(directory).await?;
    }
    for path in &segments.unused {
        file_system.remove_file(path).await?;
    }
    let _ = store.logs.data.set(open_log(store, LogKind::Data, adopted));
    store.logs.reclaim(&store.tables);
    start_compactions(store);
    Ok(())
}

/// Creates the directories of the node, and reads or makes its id.
pub(crate) async fn prepare_directories(store: &ShardStore) -> Result<(), StorageError> {
    let configuration = &store.configuration;
    for directory in [&configuration.data_directory, &configuration.commitlog_directory] {
        store.file_system.create_dir_all(directory).await?;
    }
    let host_id = load_or_make_host_id(&store.file_system, &configuration.data_directory).await?;
    store.shared.set_host_id(host_id);
    Ok(())
}

/// Makes new segments have greater ids than those of earlier runs. As in Cassandra, ids start from
/// the clock, so that they grow even if the log's directory was emptied.
pub(crate) fn begin_segment_ids(store: &ShardStore, greatest: u64) {
    let clock = u64::try_from(time::now_millis()).unwrap_or(0);
    store.shared.segment_ids.store(clock.max(greatest + 1), Ordering::Relaxed);
}

/// Loads the discarded intervals: the parts of the commit log with mutations that compactions
/// purged.
pub(crate) async fn load_discarded(store: &ShardStore) -> Result<DiscardedIntervals, StorageError> {
    let directory = &store.configuration.commitlog_directory;
    let (host, policy) = (store.host_id(), store.configuration.commit_failure_policy);
    let discarded =
        DiscardedIntervalsFile::load_all(&store.file_system, directory, host, policy).await?;
    let ends = discarded.values().flatten().map(|(_, end)| end.segment);
    // These positions must not be used again.
    let next = ends.max().unwrap_or(0).saturating_add(1);
    store.shared.segment_ids.fetch_max(next, Ordering::Relaxed);
    Ok(discarded)
}

/// Finds the directories of tables with their SSTables. Finishes compactions and truncations that a
/// crash interrupted.
pub(crate) async fn find_all_tables(store: &ShardStore) -> Result<FoundTables, StorageError> {
    let data_directory = &store.configuration.data_directory;
    let directories = find_tables(&store.file_system, data_directory).await?;
    let found = directories.into_iter().map(|directory| find_table(store, directory));
    Ok(Arc::new(stream::iter(found).buffered(FOUND_AT_ONCE).try_collect().await?))
}

async fn find_table(
    store: &ShardStore,
    directory: TableDirectory,
) -> Result<FoundTable, StorageError> {
    espalier_compaction::recover(&store.file_system, &directory.path).await?;
    let files = find_sstables(&store.file_system, &directory.path).await?;
    let (mut sstables, incomplete) = (files.sealed, files.incomplete);
    for descriptor in &sstables {
        if let SSTableId::Generation(generation) = descriptor.id {
            store.shared.record_generation(directory.id, generation.get());
        }
    }
    remove_truncated(store, &directory, &mut sstables).await?;
    Ok(FoundTable { directory, sstables, incomplete })
}

/// Removes the files that a truncation had no time to remove.
async fn remove_truncated(
    store: &ShardStore,
    directory: &TableDirectory,
    sstables: &mut Vec<Descriptor>,
) -> Result<(), StorageError> {
    let file_system = &store.file_system;
    let Some(record) = TruncationRecord::load(file_system, &directory.path).await? else {
        return Ok(());
    };
    store.shared.record_generation(directory.id, record.generations);
    for descriptor in sstables.iter().filter(|descriptor| record.is_dead(descriptor)) {
        remove_sstable(file_system, descriptor).await?;
    }
    sstables.retain(|descriptor| !record.is_dead(descriptor));
    Ok(())
}

/// Starts the tasks that free memory. A replay needs them already.
pub(crate) fn start_flushes(store: &Rc<ShardStore>) {
    store.memtables.are_flushed.set(true);
    spawn_local(crate::flush::run_scheduler(store.clone())).detach();
    spawn_local(crate::flush::run_write_pace(store.clone())).detach();
    spawn_local(crate::empty_ranges::run_follower(store.clone())).detach();
    spawn_local(keep_memory_split(store.clone())).detach();
}

/// Starts compactions and builds of index entries. They start only after the replay of the log,
/// because they must see its writes: a purge depends on the memtables.
pub(crate) fn start_compactions(store: &Rc<ShardStore>) {
    if store.configuration.autocompaction {
        store.compactions.are_started.set(true);
        spawn_local(crate::compaction::run_scheduler(store.clone())).detach();
    }
    spawn_local(crate::index::run_builder(store.clone())).detach();
    store.wakers.indexes.notify_one();
}
