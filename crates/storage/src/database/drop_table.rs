//! The end of a table.
//!
//! The schema no longer has it, so a crash at any point here leaves at worst a directory with a note that its table was
//! dropped; the next start removes it. Readers that are under way keep their files open.

use espalier_mutation::schema::{Schema, TableId, TableMetadata};
use espalier_runtime::time;

use super::{
    Database,
    open::{FoundTable, FoundTables},
};
use crate::{
    StorageError,
    commitlog::LogPosition,
    table::{DROPPED_FILE_NAME, TruncationRecord, remove_dropped_directory},
};

impl Database {
    /// Removes a table that the schema has lost. Failures are told in the log only: the table is gone either way.
    pub(super) async fn drop_table(&self, old: &Schema, id: TableId) {
        self.inner.shared.note_dropped(id);
        let directory = match self.table(id) {
            Ok(table) => table.directory.clone(),
            Err(_) => return,
        };
        let file_system = &self.inner.file_system;
        let has_files = file_system.exists(&directory).await.unwrap_or(true);
        if has_files
            && let Err(error) =
                file_system.write_atomically(directory.join(DROPPED_FILE_NAME), Vec::new()).await
        {
            tracing::warn!(%error, "a dropped table's directory cannot be marked");
        }
        let forgotten =
            self.on_all_shards(move |database| async move { database.forget_table(id).await });
        forgotten.await;
        let has_files = file_system.exists(&directory).await.unwrap_or(true);
        if has_files && let Err(error) = remove_dropped_directory(file_system, &directory).await {
            let name = old.table_by_id(id).map_or_else(String::new, |table| table.name.clone());
            tracing::warn!(%error, table = name, "a dropped table's files are left");
        }
    }

    /// Takes a table off this shard, after a flush of it that may be under way.
    async fn forget_table(&self, id: TableId) {
        let Ok(table) = self.table(id) else { return };
        table.set_dropped();
        let _pause = table.compactions.pause().await;
        let _awaiting = self.await_flush();
        let _turn = table.flush_lock.acquire(1).await;
        self.inner.tables.borrow_mut().remove(&id);
        table.clear();
        self.reclaim_log();
    }

    /// At start: tells of the directories that no table in the schema has.
    pub(super) fn warn_of_unknown(&self, schema: &Schema, found: &FoundTables) {
        for FoundTable { directory, .. } in found.iter() {
            let path = directory.path.display();
            match schema.table_by_id(directory.id) {
                // `report_unreadable` has reported it.
                None if schema.is_unreadable(directory.id) => {}
                None => tracing::warn!(%path, "this directory's table is not in the schema"),
                Some(table) if self.directory_of(table) != directory.path => {
                    let used = self.directory_of(table).display().to_string();
                    tracing::warn!(%path, %used, "this directory is not its table's, and nothing in it is read");
                }
                Some(_) => {}
            }
        }
    }

    /// At start: reports each table and type that the schema leaves out.
    pub(super) fn report_unreadable(&self, schema: &Schema) {
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

    /// Before a table is created: nothing of an earlier table with its id may come back. Ids that are made anew are
    /// those of no earlier table; one that the user gives may be that of a table whose writes are still in the log.
    pub(super) async fn prepare_new_table(
        &self,
        table: &TableMetadata,
    ) -> Result<(), StorageError> {
        if self.inner.shared.is_new_id(table.id) {
            return Ok(());
        }
        let file_system = &self.inner.file_system;
        let directory = self.directory_of(table);
        let mark = directory.join(DROPPED_FILE_NAME);
        if file_system.exists(&mark).await? {
            remove_dropped_directory(file_system, &directory).await?;
            // Where its snapshots have stayed, the new table moves in.
            if file_system.exists(&mark).await? {
                file_system.remove_file(&mark).await?;
                file_system.sync_dir(&directory).await?;
            }
        }
        let positions = self.on_all_shards(|database| async move {
            let log = database.inner.log.get();
            log.map_or(LogPosition::NONE, |log| log.truncation_position())
        });
        let positions = positions.await;
        // Also batches that were noted before have nothing for this one.
        let at_us = time::now_micros();
        let record = TruncationRecord { at_us, positions, ..TruncationRecord::default() };
        record.save(file_system, &directory).await
    }
}
