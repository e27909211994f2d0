//! Opens the store of a shard that is used alone.
//!
//! 1. Refuse a schema that needs a node, and a directory that a node has used. Up to here, nothing
//!    on disk changes.
//! 2. Lock the directories.
//! 3. Find segments of the commit log and the directories of tables; finish what a crash
//!    interrupted.
//! 4. Open the SSTables of the schema's tables.
//! 5. Replay the segments. Fail if they have writes of a table that the schema lacks.
//! 6. Open the log, and start compactions.
//!
//! If a step fails, the tasks that earlier steps started end, and the locks are released.

use std::{rc::Rc, sync::Arc};

use espalier_commitlog::{LogKind, find_segments};
use espalier_mutation::schema::Schema;
use espalier_runtime::{
    ShardContext,
    file::{DirectoryLock, FileSystem, LockError},
};
use futures_util::future::LocalBoxFuture;

use super::start::{
    begin_segment_ids, find_all_tables, load_discarded, prepare_directories, start_compactions,
    start_flushes, stop_tasks,
};
use crate::{
    ShardStore, SharedStorage, StorageConfiguration, StorageError,
    recovery::arrange,
    shard::{apply_replayed, open_log, recover_tables, replay},
    system::is_needed_for_start,
};

/// Name of the file by which a node, or a store that is used alone, locks a directory.
pub const DIRECTORY_LOCK: &str = "espalier.lock";

const OF_A_NODE: StorageError =
    StorageError::NotSupported("the directory of a node as that of a store alone");

impl ShardStore {
    /// Opens a store that is used alone: without a node, another shard or CQL. It has the tables of
    /// `schema`, whose ids must be the same at each start. The directories of the configuration
    /// belong to this store. On the real file system it locks them.
    ///
    /// The caller must call [`ShardStore::close`] at the end. Without it, the background tasks keep
    /// the store, its memory and its locks until the process ends, and continue to write files.
    ///
    /// A store alone lacks all that a [`crate::Node`] adds: materialized views, counters,
    /// statements that read rows before they write them, logged batches, schema changes (also drops
    /// and truncations), snapshots, imports, scrubs, and statistics by table.
    ///
    /// # Errors
    ///
    /// Fails if the settings are not supported, if the schema has materialized views or tables of
    /// a node's own keyspaces, if a node has used the directory, if another store or a node holds
    /// its lock, if the commit log has writes of a table that the schema lacks, or if an SSTable or
    /// the commit log cannot be read. After a failure nothing of the store is left in memory.
    pub fn open(
        file_system: FileSystem,
        configuration: Arc<StorageConfiguration>,
        schema: Schema,
    ) -> LocalBoxFuture<'static, Result<Rc<Self>, StorageError>> {
        Box::pin(async move {
            check_schema(&schema)?;
            refuse_node(&file_system, &configuration).await?;
            let locks = lock_directories(&file_system, &configuration).await?;
            let context = ShardContext { index: 0, count: 1 };
            let shared = SharedStorage::new();
            let store = Rc::new(Self::unopened(context, file_system, configuration, shared)?);
            store.life.locks.replace(locks);
            let started = start(&store, Arc::new(schema)).await;
            if started.is_err() {
                abandon(&store).await;
            }
            started.map(|()| store)
        })
    }
}

fn check_schema(schema: &Schema) -> Result<(), StorageError> {
    for table in schema.tables() {
        if table.has_views() || table.view.is_some() {
            return Err(StorageError::NotSupported("a materialized view in a store alone"));
        }
        if is_needed_for_start(&table.keyspace) {
            return Err(StorageError::NotSupported("a node's own keyspace in a store alone"));
        }
    }
    Ok(())
}

/// Returns an error if a node has used the directories. Its log has writes of tables that the
/// caller's schema may lack. Until the node's first flush, only the log of the schema shows that a
/// node has used them.
async fn refuse_node(
    file_system: &FileSystem,
    configuration: &StorageConfiguration,
) -> Result<(), StorageError> {
    let (data, log) = (&configuration.data_directory, &configuration.commit_log.directory);
    if file_system.exists(data).await?
        && file_system.read_dir(data).await?.iter().any(|entry| is_needed_for_start(&entry.name))
    {
        return Err(OF_A_NODE);
    }
    if file_system.exists(log).await? {
        let policy = configuration.commit_log.failure_policy;
        // Every segment counts, also a damaged one and one without records.
        if find_segments(file_system, log, LogKind::Schema, policy).await?.greatest_id > 0 {
            return Err(OF_A_NODE);
        }
    }
    Ok(())
}

/// Creates and locks the directories. A simulated disk has no locks, because only one process uses
/// it.
async fn lock_directories(
    file_system: &FileSystem,
    configuration: &StorageConfiguration,
) -> Result<Vec<DirectoryLock>, StorageError> {
    let mut paths = vec![&configuration.data_directory, &configuration.commit_log.directory];
    paths.dedup();
    let mut locks = Vec::new();
    for path in paths {
        file_system.create_dir_all(path).await?;
        if file_system.simulated_disk().is_some() {
            continue;
        }
        locks.push(DirectoryLock::acquire(path, DIRECTORY_LOCK).map_err(|error| match error {
            LockError::Held { holder } => StorageError::InUse { path: path.clone(), holder },
            LockError::File(error) => error.into(),
        })?);
    }
    Ok(locks)
}

async fn start(store: &Rc<ShardStore>, schema: Arc<Schema>) -> Result<(), StorageError> {
    let (configuration, file_system) = (&store.configuration, &store.file_system);
    let directory = &configuration.commit_log.directory;
    let policy = configuration.commit_log.failure_policy;
    let segments = find_segments(file_system, directory, LogKind::Data, policy).await?;
    if segments.segments.iter().any(|segment| segment.shard_count != 1) {
        return Err(OF_A_NODE);
    }
    prepare_directories(store).await?;
    begin_segment_ids(store, segments.greatest_id);
    let discarded = load_discarded(store).await?;
    let found = find_all_tables(store).await?;
    store.shared.set_schema(schema.clone());
    store.install(&schema, &found).await?;
    start_flushes(store);
    let mut recovered = recover_tables(store, &found, |_| true).await?;
    arrange(&mut recovered, &discarded);
    let apply = async |mutation, position| apply_replayed(store, &mutation, Some(position)).await;
    let summary = replay(store, segments.segments, &schema, &recovered.into(), apply).await?;
    // On a node the schema proves that such a table was dropped. Here nothing does, and the log
    // would free the segments as soon as the tables of the schema are flushed.
    if let Some(id) = summary.unknown {
        return Err(StorageError::Schema(format!(
            "the commit log has writes of the table with id {id}, which the given schema lacks: \
             open the store with a schema that has the table, and close it"
        )));
    }
    for path in &segments.unused {
        file_system.remove_file(path).await?;
    }
    open_log(store, LogKind::Data, summary.segments);
    store.logs.reclaim(&store.tables);
    start_compactions(store);
    Ok(())
}

/// Ends the tasks of a store that could not be opened, and releases its locks once no flush writes
/// any more. The segments of the log stay as they are.
async fn abandon(store: &ShardStore) {
    stop_tasks(store);
    store.wakers.flush.notify_one();
    for table in store.tables.all() {
        drop(table.flushes.lock.acquire(1).await);
    }
    store.life.locks.take();
}
