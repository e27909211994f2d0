//! This background task writes the missing entries of SSTables that are older than the index, that
//! were imported, or whose entries are damaged.
//!
//! The task flushes the memtables that were frozen when the index was created. It rewrites each
//! SSTable without entries by a compaction of this one file, which writes the entries of its rows.
//! Until then, a query by the index reads all rows of its target.

use std::{rc::Rc, time::Duration};

use espalier_compaction::CompactionKind;
use espalier_memtable::Memtable;
use espalier_mutation::schema::TableMetadata;
use espalier_runtime::time;
use espalier_sstable::SSTable;

use crate::{
    ShardStore, StorageError,
    compaction::{RequestedCompactions, may_take},
    flush::flush_in_background,
    table::Table,
};

/// The interval at which the task looks for SSTables without entries. Arbitrary; CREATE INDEX wakes
/// the task.
const INTERVAL: Duration = Duration::from_secs(30);

/// The pause after a failure that concerns a whole table.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The minimum pause before the task tries an SSTable again. The pause gives other tasks time.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// Builds missing entries until the store closes.
pub(crate) async fn run(store: Rc<ShardStore>) {
    let mut pause = INTERVAL;
    loop {
        let _ = time::timeout(pause, store.wakers.indexes.notified()).await;
        pause = INTERVAL;
        for table in store.tables.all() {
            if store.is_closing() {
                return;
            }
            let mut built = build_indexes(&store, &table).await;
            if built.is_ok()
                && let Some(peers) = store.peers()
            {
                built = peers.record_built_indexes(&table).await;
            }
            if let Err(error) = built {
                let metadata = table.metadata();
                tracing::warn!(
                    %error,
                    keyspace = metadata.keyspace,
                    table = metadata.name,
                    "building secondary indexes failed, retrying after a pause; queries by the \
                     indexes read all rows until then"
                );
                pause = pause.min(RETRY_PAUSE);
            }
            let until_retry = table.indexes.failures.until_retry(time::Instant::now());
            pause = until_retry.map_or(pause, |left| pause.min(left.max(MIN_PAUSE)));
        }
        if store.is_closing() {
            return;
        }
    }
}

/// Builds the missing entries of a table on this shard: flushes frozen memtables with the
/// entries of other indexes, and rewrites SSTables without entries.
async fn build_indexes(store: &Rc<ShardStore>, table: &Rc<Table>) -> Result<(), StorageError> {
    let has_none = table.borrow_metadata().indexes.is_empty();
    if table.is_dropped() || (has_none && table.borrow_view().flushing.is_empty()) {
        return Ok(());
    }
    if has_frozen_without_entries(table) {
        flush_in_background(store, table).await?;
    }
    let missing = unindexed(table);
    table.indexes.failures.retain(&missing);
    let now = time::Instant::now();
    // If several shards share a file, another shard may be the one that splits it. That shard wakes
    // this one afterwards.
    let may_try = |sstable: &&Rc<SSTable>| {
        may_take(store, table, sstable) && table.indexes.failures.may_try(sstable, now)
    };
    let missing: Vec<Rc<SSTable>> = missing.iter().filter(may_try).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let seen = store.compactions.stop_requests.get();
    let requests = RequestedCompactions { store, table, seen };
    let (metadata, mut has_built) = (table.metadata(), false);
    tracing::info!(
        keyspace = metadata.keyspace,
        table = metadata.name,
        sstables = missing.len(),
        "building secondary indexes: rewriting the SSTables that lack their entries"
    );
    for sstable in missing {
        match requests.compact_one(&sstable, CompactionKind::IndexBuild).await {
            Ok(()) => has_built = true,
            Err(
                error @ (StorageError::ShuttingDown
                | StorageError::CompactionStopped(_)
                | StorageError::CompactionUndecided(_)),
            ) => return Err(error),
            Err(error) => {
                let pause = table.indexes.failures.record(&sstable, time::Instant::now());
                tracing::error!(
                    %error,
                    sstable = %sstable.descriptor(),
                    retry_after_s = pause.as_secs(),
                    "building secondary indexes of an SSTable failed, going on with others; \
                     queries by the indexes read all rows until it is done, check the file \
                     and the disk"
                );
            }
        }
    }
    if has_built && let Some(peers) = store.peers() {
        // A file that several shards share may have been split, so that other shards may be done
        // now, too.
        peers.wake_index_builds().await;
    }
    if unindexed(table).is_empty() {
        tracing::info!(
            keyspace = metadata.keyspace,
            table = metadata.name,
            "secondary indexes built on this shard"
        );
    }
    Ok(())
}

/// Returns whether a memtable has the entries of exactly the indexes of `table`.
fn has_entries(memtable: &Memtable, table: &TableMetadata) -> bool {
    let wanted: Vec<(String, String)> =
        table.indexes.iter().map(|index| (index.name.clone(), index.signature(table))).collect();
    memtable.with_indexes(|indexes| indexes.names()).unwrap_or_default() == wanted
}

/// Returns whether an SSTable has the entries of all indexes of `table`.
fn is_indexed(sstable: &SSTable, table: &TableMetadata) -> bool {
    table.indexes.iter().all(|index| {
        let found = sstable.reader().secondary_index(&index.name);
        found.is_some_and(|found| found.signature() == index.signature(table))
    })
}

/// Returns the SSTables that lack entries of an index.
fn unindexed(table: &Table) -> Vec<Rc<SSTable>> {
    let (view, metadata) = (table.view(), table.metadata());
    let is_missing = |sstable: &&Rc<SSTable>| !is_indexed(sstable, &metadata);
    view.sstables.iter().filter(is_missing).cloned().collect()
}

/// Returns whether all data of the table on this shard has the entries of the indexes of
/// `wanted`, a version of the table.
pub(crate) fn has_entries_of(table: &Table, wanted: &TableMetadata) -> bool {
    table.borrow_metadata().has_indexes_of(wanted)
        && unindexed(table).is_empty()
        && !has_frozen_without_entries(table)
}

/// Returns whether a frozen memtable has other entries than the indexes of the table need.
fn has_frozen_without_entries(table: &Table) -> bool {
    let (view, metadata) = (table.view(), table.metadata());
    view.flushing.iter().any(|memtable| !has_entries(memtable, &metadata))
}
