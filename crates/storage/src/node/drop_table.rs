//! Removal of a dropped table.
//!
//! The schema has already lost the table. A crash before the directory is marked as dropped leaves
//! an orphan (`orphans`). A later crash leaves a marked directory, which the next start removes.
//! Readers under way keep their files open.

use espalier_mutation::{
    LogPosition,
    schema::{Schema, TableId, TableMetadata},
};
use espalier_runtime::time;

use super::Node;
use crate::{
    StorageError,
    shard::{FoundTable, FoundTables},
    table::{
        DROPPED_FILE_NAME, TruncationRecord, greatest_copied_number, remove_dropped_directory,
    },
};

/// Removes a table that the schema has lost. Failures are only logged, because the table is
/// gone either way.
pub(super) async fn drop_table(node: &Node, old: &Schema, id: TableId) {
    node.store().shared.record_dropped(id);
    let directory = match node.store().tables.get(id) {
        Ok(table) => table.home.directory.clone(),
        Err(_) => return,
    };
    let file_system = &node.store().file_system;
    let has_files = file_system.exists(&directory).await.unwrap_or(true);
    if has_files
        && let Err(error) =
            file_system.write_atomically(directory.join(DROPPED_FILE_NAME), Vec::new()).await
    {
        tracing::warn!(%error, "directory of a dropped table could not be marked");
    }
    let forgotten = node.on_all_shards(move |node| async move { forget_table(&node, id).await });
    forgotten.await;
    let has_files = file_system.exists(&directory).await.unwrap_or(true);
    if has_files && let Err(error) = remove_dropped_directory(file_system, &directory).await {
        let name = old.table_by_id(id).map_or_else(String::new, |table| table.name.clone());
        tracing::warn!(
            %error,
            table = name,
            "files of a dropped table could not be removed: the next start retries"
        );
    }
}

/// Waits for a flush of a table that may be under way, and removes the table from this shard.
async fn forget_table(node: &Node, id: TableId) {
    let Ok(table) = node.store().tables.get(id) else { return };
    table.set_dropped();
    let _pause = table.compactions.pause().await;
    let _awaiting = node.store().memtables.await_flush();
    let _turn = table.flushes.lock.acquire(1).await;
    node.store().tables.by_id.borrow_mut().remove(&id);
    table.clear();
    node.store().logs.reclaim(&node.store().tables);
}

/// At start, warns of directories without a table in the schema.
pub(super) fn warn_of_unknown(node: &Node, schema: &Schema, found: &FoundTables) {
    for FoundTable { directory, failure, .. } in found.iter() {
        let path = directory.path.display();
        match schema.table_by_id(directory.id) {
            // `report_unreadable` has reported it.
            None if schema.is_unreadable(directory.id) => {}
            None => {
                let failure = failure.as_ref().map(tracing::field::display);
                tracing::warn!(%path, failure, "directory belongs to no table, it is not read");
            }
            Some(table) if node.store().configuration.directory_of(table) != directory.path => {
                let used = node.store().configuration.directory_of(table).display().to_string();
                tracing::warn!(
                    %path,
                    %used,
                    "directory is a second one of its table, it is not read"
                );
            }
            Some(_) => {}
        }
    }
}

/// At start: reports each table and type that the schema leaves out.
pub(super) fn report_unreadable(schema: &Schema) {
    for (keyspace, metadata) in &schema.keyspaces {
        for (name, reason) in &metadata.unreadable.types {
            tracing::error!(
                keyspace,
                user_type = name,
                reason,
                "user type cannot be read, left out; it and the tables that use it keep their \
                 names and files, and a version that can read it opens them again; DROP TYPE \
                 removes it"
            );
        }
        for (name, table) in &metadata.unreadable.tables {
            let id = table.id.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
            let reason = &table.reason;
            tracing::error!(
                keyspace,
                table = name,
                id,
                reason,
                "table cannot be read, left out; the node keeps its files, and a version that \
                 can read it opens it again; DROP TABLE removes its definition and keeps its \
                 files"
            );
        }
    }
}

/// Makes sure that a new table shows no data of an earlier table with its id. An id that this
/// process has made is new. An id that the user or another node gives may belong to a dropped
/// table whose writes are still in the commit log, or whose files a crash has left.
pub(super) async fn prepare_new_table(
    node: &Node,
    table: &TableMetadata,
) -> Result<(), StorageError> {
    if node.store().shared.is_new_id(table.id) {
        return Ok(());
    }
    let file_system = &node.store().file_system;
    let directory = node.store().configuration.directory_of(table);
    let mark = directory.join(DROPPED_FILE_NAME);
    let is_marked = file_system.exists(&mark).await?;
    if is_marked {
        remove_dropped_directory(file_system, &directory).await?;
        // The directory stays if it has snapshots, and the new table uses it.
        if file_system.exists(&mark).await? {
            file_system.remove_file(&mark).await?;
            file_system.sync_dir(&directory).await?;
        }
    }
    let is_orphan = node.snapshots().keep_orphan(&directory).await?;
    let copied = greatest_copied_number(file_system, &directory).await;
    node.store().shared.record_generation(table.id, copied);
    let positions = node.on_all_shards(|node| async move {
        let log = node.store().logs.data.get();
        log.map_or(LogPosition::NONE, |log| log.truncation_position())
    });
    let positions = positions.await;
    // The time also keeps out unfinished logged batches and hints of the earlier table. Without
    // an earlier table, the record has no time: the ring may have created the table while this
    // node was down, and a time would keep out the hints for it.
    let was_there = is_marked || is_orphan || node.store().shared.was_dropped(table.id);
    let at_us = if was_there { time::now_micros() } else { 0 };
    let record = TruncationRecord { at_us, positions, ..TruncationRecord::default() };
    record.save(file_system, &directory).await
}
