//! Truncation: removes all earlier writes to a table. No crash brings them back.
//!
//! 1. All shards block flushes and compactions of the table.
//! 2. All shards set the table's memtables and SSTables aside, and record their position in the
//!    commit log.
//! 3. A truncation record is made durable. A failure up to here restores the table.
//! 4. The files set aside are removed. Then their numbers and names are removed from the record, so
//!    that files that an operator copies into the directory later are not taken for truncated ones.

use std::{path::Path, time::Duration};

use espalier_mutation::{LogPosition, schema::TableId};
use espalier_runtime::{
    run_to_completion,
    time::{self, Instant},
};
use espalier_sstable::{
    SSTableId,
    components::{list_directory, remove_sstables},
};
use futures_util::future::LocalBoxFuture;

use super::{Node, views::truncate_with_views};
use crate::{
    StorageError,
    shard::{FoundTable, FoundTables},
    system::must_not_be_empty,
    table::TruncationRecord,
};

/// Time in which a truncation must begin: Cassandra's default of `truncate_request_timeout`.
const MAX_WAIT: Duration = Duration::from_secs(60);

impl Node {
    /// Removes all writes to a table so far. The truncation begins within 60 s, or not at all.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown or the node needs its contents to start, if the truncation
    /// cannot begin in time, if its record cannot be written, or if an SSTable in the table's
    /// directory that no shard has opened cannot be removed. If an SSTable of a shard cannot be
    /// removed, the node logs that, and the next start tries again.
    pub fn truncate(&self, table: TableId) -> LocalBoxFuture<'_, Result<(), StorageError>> {
        self.truncate_within(table, MAX_WAIT)
    }

    /// Removes all writes to a table so far, if that can begin within `wait`, as in
    /// [`Self::truncate`]. After this time the client gives up, and its later writes must stay.
    ///
    /// # Errors
    ///
    /// As [`Self::truncate`].
    pub fn truncate_within(
        &self,
        table: TableId,
        wait: Duration,
    ) -> LocalBoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move {
            let lead = move |node: Node| async move { lead_truncation(&node, table, wait).await };
            self.on_shard(0, lead).await
        })
    }

    /// Returns the time of a table's last truncation, in µs since 1970. Returns `None` if the
    /// table has no truncation record. Returns 0 if the record has no time: the table was created
    /// with a given id, and the node knows of no earlier table with this id.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown, or if its truncation record cannot be read.
    pub async fn truncated_at_us(&self, table: TableId) -> Result<Option<i64>, StorageError> {
        let table = self.store().tables.get(table)?;
        let record =
            TruncationRecord::load(&self.store().file_system, &table.home.directory).await?;
        Ok(record.map(|record| record.at_us))
    }
}

async fn lead_truncation(node: &Node, id: TableId, wait: Duration) -> Result<(), StorageError> {
    // Two truncations at the same time could wait for each other for ever, and the table must
    // not be dropped or get a view meanwhile.
    let deadline = Instant::now() + wait;
    let lock = time::timeout_at(deadline, node.inner.schema_lock.acquire(1)).await;
    let lock = lock.map_err(|_| StorageError::TruncationTimedOut(wait))?;
    let node = node.clone();
    // The truncation has a task of its own, so that it ends even if the caller drops this call:
    // one that stopped half-way would leave the table without its data, and block its flushes
    // and compactions. The task begins under the lock, so that at most one runs at a time.
    let truncated = run_to_completion(async move {
        let _lock = lock;
        truncate_any(&node, id, (deadline, wait)).await
    });
    truncated.await.unwrap_or(Err(StorageError::ShuttingDown))
}

/// Truncates a table and, if it has views, its views. The caller holds `schema_lock`.
async fn truncate_any(
    node: &Node,
    id: TableId,
    limit: (Instant, Duration),
) -> Result<(), StorageError> {
    let metadata = node.store().tables.get(id)?.metadata();
    if must_not_be_empty(&metadata) {
        StorageError::unless_needed_for_start("TRUNCATE", &metadata.keyspace)?;
    }
    if metadata.has_views() {
        return truncate_with_views(node, &metadata, Some(limit)).await;
    }
    truncate_locked(node, id, Some(limit)).await
}

/// Truncates a table without its views. The caller holds `schema_lock`, and polls this to its
/// end. `limit` is the time by which the truncation has to begin, and the wait until then.
pub(super) async fn truncate_locked(
    node: &Node,
    id: TableId,
    limit: Option<(Instant, Duration)>,
) -> Result<(), StorageError> {
    let table = node.store().tables.get(id)?;
    let directory = table.home.directory.clone();
    let held = node.on_all_shards(move |node| async move { hold(&node, id).await });
    held.await;
    // The shards may have waited for long flushes.
    if let Some((_, wait)) = limit.filter(|(deadline, _)| Instant::now() > *deadline) {
        let released =
            node.on_all_shards(move |node| async move { end_truncation(&node, id, false).await });
        released.await;
        return Err(StorageError::TruncationTimedOut(wait));
    }
    let recorded = record_truncation(node, id, &directory).await;
    let is_done = recorded.is_ok();
    let ended =
        node.on_all_shards(move |node| async move { end_truncation(&node, id, is_done).await });
    let are_all_removed = ended.await.into_iter().all(|removed| removed);
    let record = recorded?;
    if !are_all_removed {
        return Ok(()); // The next start retries, and needs the numbers.
    }
    // Files that no shard reads are removed as well. An unfinished compaction or import may
    // have left them, and the next start would open them.
    let file_system = &node.store().file_system;
    let mut unread = list_directory(file_system, &directory).await?.sealed;
    unread.retain(|descriptor| record.is_dead(descriptor));
    remove_sstables(file_system, &unread).await?;
    record.without_files().save(file_system, &directory).await
}

/// Sets the table's data aside on all shards, and makes the truncation record durable. The
/// shards hold the table.
async fn record_truncation(
    node: &Node,
    id: TableId,
    directory: &Path,
) -> Result<TruncationRecord, StorageError> {
    // No flush or compaction is under way on any shard. So all existing SSTables have lower
    // numbers than `generations` (or no number), and all later SSTables have greater numbers.
    let names = name_sstables(node, id, directory).await?;
    let generations = node.store().shared.next_generation(id);
    let begun = node.on_all_shards(move |node| async move { begin_truncation(&node, id) });
    let positions = begun.await;
    let at_us = time::now_micros();
    let record = TruncationRecord { at_us, generations, given: 0, positions, names };
    replace_record(node, &record, directory).await?;
    Ok(record)
}

/// Makes a record durable, or else restores the earlier one. A record that may or may not
/// survive a crash could truncate the table in part.
async fn replace_record(
    node: &Node,
    record: &TruncationRecord,
    directory: &Path,
) -> Result<(), StorageError> {
    let file_system = &node.store().file_system;
    let before = TruncationRecord::load(file_system, directory).await?;
    let Err(error) = record.save(file_system, directory).await else { return Ok(()) };
    let restored = match before {
        Some(before) => before.save(file_system, directory).await,
        None => TruncationRecord::remove(file_system, directory).await,
    };
    if let Err(error) = restored {
        tracing::error!(
            %error,
            "failed truncation may take effect at the next start: its record could not be \
             removed"
        );
    }
    Err(error)
}

async fn hold(node: &Node, id: TableId) {
    if let Ok(table) = node.store().tables.get(id) {
        let pause = table.compactions.pause().await;
        let _awaiting = node.store().memtables.await_flush();
        let flush_permit = table.flushes.lock.acquire(1).await;
        table.hold(flush_permit, pause);
    }
}

/// Returns the names of the table's SSTables whose ids are UUIDs, because such ids have no
/// order. Makes later numbers greater than those of the other SSTables. Lists the directory,
/// because an unfinished import may have left SSTables that no shard reads.
async fn name_sstables(
    node: &Node,
    id: TableId,
    directory: &Path,
) -> Result<Vec<String>, StorageError> {
    let (file_system, mut names) = (&node.store().file_system, Vec::new());
    if !file_system.exists(directory).await? {
        return Ok(names);
    }
    for descriptor in list_directory(file_system, directory).await?.sealed {
        match descriptor.id {
            SSTableId::Uuid(_) => names.push(descriptor.to_string()),
            SSTableId::Generation(generation) => {
                node.store().shared.record_generation(id, generation.get());
            }
        }
    }
    Ok(names)
}

/// Sets the table's data aside. Returns the shard's position in the commit log.
fn begin_truncation(node: &Node, id: TableId) -> LogPosition {
    let Ok(table) = node.store().tables.get(id) else { return LogPosition::NONE };
    table.begin_truncation();
    let log = node.store().logs.of_table(&table);
    log.map_or(LogPosition::NONE, |log| log.truncation_position())
}

/// Ends a truncation. If it succeeded, removes the files. Returns false if a file could not be
/// removed.
async fn end_truncation(node: &Node, id: TableId, is_done: bool) -> bool {
    let Ok(table) = node.store().tables.get(id) else { return true };
    let files = table.end_truncation(is_done);
    // The flush scheduler excluded the table until now.
    node.store().wakers.flush.notify_one();
    let removed = remove_sstables(&node.store().file_system, &files).await;
    if let Err(error) = &removed {
        tracing::warn!(
            %error,
            "files of a truncated table could not be removed: the next start retries"
        );
    }
    node.store().logs.reclaim(&node.store().tables);
    removed.is_ok()
}

/// At start, removes the numbers and names of SSTables from the records of completed
/// truncations.
pub(super) async fn finish_truncations(
    node: &Node,
    found: &FoundTables,
) -> Result<(), StorageError> {
    for FoundTable { directory, .. } in found.iter() {
        if node
            .store()
            .tables
            .get(directory.id)
            .is_ok_and(|table| table.home.directory == directory.path)
        {
            forget_removed(node, &directory.path).await?;
        }
    }
    Ok(())
}

async fn forget_removed(node: &Node, directory: &Path) -> Result<(), StorageError> {
    let file_system = &node.store().file_system;
    match TruncationRecord::load(file_system, directory).await? {
        Some(record) if record.names_files() => {
            record.without_files().save(file_system, directory).await
        }
        _ => Ok(()),
    }
}
