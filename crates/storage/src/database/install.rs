//! Installs a schema on a shard: creates and alters tables.

use std::{path::PathBuf, rc::Rc, sync::Arc};

use espalier_commitlog::ColumnMapping;
use espalier_mutation::schema::{Schema, TableMetadata};
use espalier_sstable::{Component, SSTable};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::{Database, open::FoundTables};
use crate::{
    StorageError,
    empty_ranges::EmptyRanges,
    system::{SCHEMA_KEYSPACE, is_virtual},
    table::Table,
};

/// Maximum number of tables whose SSTables are opened at once on a shard; most of it waits for the
/// disk.
const OPENED_AT_ONCE: usize = 32;

impl Database {
    /// Installs a schema snapshot: creates new tables, opening the SSTables that `found` has of
    /// them, and alters changed ones. Dropped tables stay until [`Database::forget_tables`].
    pub(super) async fn install_schema(
        &self,
        schema: &Arc<Schema>,
        found: &FoundTables,
    ) -> Result<(), StorageError> {
        let is_here = |metadata: &&Arc<TableMetadata>| {
            let is_of_first_shard = metadata.keyspace == SCHEMA_KEYSPACE;
            let is_elsewhere = is_of_first_shard && self.inner.context.index != 0;
            !is_elsewhere && !is_virtual(&metadata.keyspace)
        };
        let is_new =
            |metadata: &&Arc<TableMetadata>| !self.inner.tables.borrow().contains_key(&metadata.id);
        let new: Vec<_> = schema.tables().filter(is_here).filter(is_new).collect();
        let created = new.into_iter().map(|metadata| self.create_table(metadata, found));
        stream::iter(created).buffered(OPENED_AT_ONCE).try_collect::<()>().await?;
        for metadata in schema.tables().filter(is_here) {
            let keyspace = schema.keyspace(&metadata.keyspace);
            let is_durable = keyspace.is_none_or(|keyspace| keyspace.durable_writes);
            let table = self.table(metadata.id)?;
            let installed = table.metadata();
            if !Arc::ptr_eq(&installed, metadata) && *installed != **metadata {
                let mapping = ColumnMapping::new(self.next_mapping_number(), metadata);
                table.alter(metadata.clone(), mapping)?;
                // The new strategy may want a compaction at once.
                self.compaction_wanted().notify_one();
                if !metadata.has_indexes_of(&installed) {
                    self.index_wanted().notify_one();
                }
            }
            table.set_durable(is_durable);
        }
        *self.inner.schema.borrow_mut() = schema.clone();
        self.inner.views.plans.borrow_mut().clear();
        Ok(())
    }

    async fn create_table(
        &self,
        metadata: &Arc<TableMetadata>,
        found: &FoundTables,
    ) -> Result<(), StorageError> {
        // An operator may have copied the directory under another name; the copy is not the table.
        let directory = self.directory_of(metadata);
        let files = found
            .iter()
            .find(|found| found.directory.id == metadata.id && found.directory.path == directory);
        if let Some(descriptor) = files.and_then(|files| files.incomplete.first()) {
            return Err(StorageError::IncompleteSSTable(descriptor.path(&Component::Toc)));
        }
        let mapping = ColumnMapping::new(self.next_mapping_number(), metadata);
        let memtables = self.inner.memtables.clone();
        let table = Rc::new(Table::new(
            metadata.clone(),
            mapping,
            directory,
            memtables,
            self.inner.row_cache.clone(),
            EmptyRanges::new(
                self.inner.configuration.min_dropped,
                self.inner.empty_ranges_queued.clone(),
            ),
        ));
        let mut sstables = Vec::new();
        for descriptor in files.iter().flat_map(|files| &files.sstables) {
            let sstable = self.open_sstable(metadata, descriptor.clone()).await?;
            if self.may_own_part(metadata, &sstable) {
                sstables.push(sstable);
            }
        }
        table.change_view(|view| view.with_sstables(sstables));
        self.inner.tables.borrow_mut().insert(metadata.id, table);
        Ok(())
    }

    /// Returns the directory for the files of a table that has none yet.
    pub(super) fn directory_of(&self, metadata: &TableMetadata) -> PathBuf {
        let data = &self.inner.configuration.data_directory;
        data.join(&metadata.keyspace).join(metadata.directory_name())
    }

    /// Creates the directory of a new table, as Cassandra does, so that operators see where files
    /// for `upload` go. A failure is only logged: the directory is not needed before the first
    /// flush, which creates it if necessary and makes its name durable.
    pub(super) async fn show_directory_of(&self, metadata: &TableMetadata) {
        let directory = self.directory_of(metadata);
        if let Err(error) = self.inner.file_system.create_dir_all(&directory).await {
            tracing::warn!(
                %error,
                table = metadata.name,
                "directory of a new table could not be created: its first flush retries"
            );
        }
    }

    /// Returns whether this shard may own partitions of an SSTable.
    pub(super) fn may_own_part(&self, metadata: &TableMetadata, sstable: &SSTable) -> bool {
        if metadata.keyspace == SCHEMA_KEYSPACE {
            return true;
        }
        let (first, last) = self.inner.context.token_range();
        sstable.overlaps(first, last)
    }
}
