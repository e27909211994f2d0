//! The steps of a start that a node and a store alone have in common, and the end of a store.
//!
//! `alone` opens a store that is used alone, and `node::open` opens all shards of a node.

use std::{
    mem,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use espalier_commitlog::{DiscardedIntervals, DiscardedIntervalsFile};
use espalier_mutation::schema::TableId;
use espalier_runtime::{SchedulingGroup, spawn_local, time};
use espalier_sstable::{Descriptor, SSTableId, components::remove_sstables};
use futures_util::stream::{self, StreamExt};

use super::{index_build, prefetch};
use crate::{
    FirstFailure, ShardStore, StorageError,
    compaction::{RequestedCompactions, run_scheduler as run_compactions, shares},
    flush::{flush_tables, run_scheduler as run_flushes},
    recovery::load_or_make_host_id,
    shard::{FoundTable, FoundTables, keep_memory_split, run_write_pace},
    table::{TableDirectory, TruncationRecord, find_sstables, find_tables, greatest_copied_number},
};

/// Maximum number of tables' directories that are listed at once.
const FOUND_AT_ONCE: usize = 32;

impl ShardStore {
    /// Flushes all tables of this shard.
    ///
    /// # Errors
    ///
    /// Fails with the first failure of a flush. A failure stops no other flush.
    pub async fn flush(self: &Rc<Self>) -> Result<(), StorageError> {
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
    /// log's files are removed; otherwise they stay, synced, for the next start. Releases the locks
    /// of the directories, and ends the tasks of the store, which is freed within about a second
    /// after its last handle.
    ///
    /// # Errors
    ///
    /// Fails with the first failure of a flush or of a log.
    pub async fn close(self: &Rc<Self>) -> Result<(), StorageError> {
        if self.life.is_closing.get() {
            return Ok(());
        }
        stop_tasks(self);
        for table in self.tables.all() {
            drop(table.compactions.pause().await);
        }
        let flushed = self.flush().await;
        self.wakers.flush.notify_one();
        self.wakers.indexes.notify_one();
        let is_flushed = flushed.is_ok();
        let mut failure = FirstFailure::none();
        let mut ended = failure.keep(flushed);
        for log in self.logs.all() {
            log.close().await;
            if is_flushed {
                let removed = log.remove_files().await;
                ended = ended.and(failure.keep(removed.map_err(StorageError::from)));
            }
        }
        self.life.locks.take();
        ended.and_then(|()| failure.into_result())
    }
}

/// Refuses new writes and makes most tasks of the store end. The tasks of flushes and indexes
/// continue until their wakers are notified, because a close still needs the flushes.
pub(super) fn stop_tasks(store: &ShardStore) {
    store.life.is_closing.set(true);
    store.memtables.write_pace.end();
    store.memtables.budget.wake_waiters();
    store.wakers.compaction.notify_one();
    store.wakers.empty_ranges.notify_one();
}

/// Creates the directories of the node, and reads or makes its id.
pub(crate) async fn prepare_directories(store: &ShardStore) -> Result<(), StorageError> {
    let configuration = &store.configuration;
    for directory in [&configuration.data_directory, &configuration.commit_log.directory] {
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
    let directory = &store.configuration.commit_log.directory;
    let (host, policy) = (store.host_id(), store.configuration.commit_log.failure_policy);
    let discarded =
        DiscardedIntervalsFile::load_all(&store.file_system, directory, host, policy).await?;
    let ends = discarded.values().flatten().map(|(_, end)| end.segment);
    // New segments must not use these positions again, because a replay skips them.
    let next = ends.max().unwrap_or(0).saturating_add(1);
    store.shared.segment_ids.fetch_max(next, Ordering::Relaxed);
    Ok(discarded)
}

/// Finds the directories of tables with their SSTables. Finishes compactions and truncations that a
/// crash interrupted. The schema is not known yet, so the result names each directory that could
/// not be read, with the reason.
pub(crate) async fn find_all_tables(store: &ShardStore) -> Result<FoundTables, StorageError> {
    let data_directory = &store.configuration.data_directory;
    let directories = find_tables(&store.file_system, data_directory).await?;
    let found = directories.into_iter().map(|directory| find_table(store, directory));
    Ok(Arc::new(stream::iter(found).buffered(FOUND_AT_ONCE).collect().await))
}

async fn find_table(store: &ShardStore, directory: TableDirectory) -> FoundTable {
    match find_files(store, &directory).await {
        Ok((sstables, incomplete)) => FoundTable { directory, sstables, incomplete, failure: None },
        Err(error) => FoundTable {
            directory,
            sstables: Vec::new(),
            incomplete: Vec::new(),
            failure: Some(error),
        },
    }
}

/// Returns the SSTables in a table's directory, and those without TOC.txt.
async fn find_files(
    store: &ShardStore,
    directory: &TableDirectory,
) -> Result<(Vec<Descriptor>, Vec<Descriptor>), StorageError> {
    espalier_compaction::recover(&store.file_system, &directory.path).await?;
    let files = find_sstables(&store.file_system, &directory.path).await?;
    let (mut sstables, incomplete) = (files.sealed, files.incomplete);
    if files.has_copies {
        let copied = greatest_copied_number(&store.file_system, &directory.path).await;
        store.shared.record_generation(directory.id, copied);
    }
    for descriptor in &sstables {
        if let SSTableId::Generation(generation) = descriptor.id {
            store.shared.record_generation(directory.id, generation.get());
        }
    }
    remove_truncated(store, directory, &mut sstables).await?;
    Ok((sstables, incomplete))
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
    store.shared.record_generation(directory.id, record.greatest_number());
    let (dead, live) =
        mem::take(sstables).into_iter().partition::<Vec<_>, _>(|it| record.is_dead(it));
    *sstables = live;
    Ok(remove_sstables(file_system, &dead).await?)
}

/// Starts flushes, the write pace, the empty-range prefetcher and the rebalancing of the caches.
/// They start before the replay of the log, which needs the flushes.
pub(crate) fn start_flushes(store: &Rc<ShardStore>) {
    store.memtables.are_flushed.set(true);
    set_controllers(store);
    SchedulingGroup::Flush.spawn(run_flushes(store.clone())).detach();
    spawn_local(run_write_pace(store.clone())).detach();
    SchedulingGroup::Maintenance.spawn(prefetch::run(store.clone())).detach();
    spawn_local(keep_memory_split(store.clone())).detach();
}

/// Sets the functions that return the shares of the background work.
fn set_controllers(store: &Rc<ShardStore>) {
    for group in [SchedulingGroup::Flush, SchedulingGroup::CacheUpdate] {
        let store = Rc::downgrade(store);
        group.set_controller(move || {
            let store = store.upgrade()?;
            Some(store.memtables.flush_shares(&store.logs))
        });
    }
    let store = Rc::downgrade(store);
    SchedulingGroup::Compaction.set_controller(move || Some(shares(&*store.upgrade()?)));
}

/// Starts compactions and builds of index entries. They start only after the replay of the log,
/// because they must see its writes: a purge depends on the memtables.
pub(crate) fn start_compactions(store: &Rc<ShardStore>) {
    if store.configuration.autocompaction {
        store.compactions.are_started.set(true);
        SchedulingGroup::Compaction.spawn(run_compactions(store.clone())).detach();
    }
    SchedulingGroup::Maintenance.spawn(index_build::run(store.clone())).detach();
    store.wakers.indexes.notify_one();
}
