//! Installs a schema on a shard: creates and alters tables.

use std::{rc::Rc, sync::Arc};

use espalier_commitlog::ColumnMapping;
use espalier_mutation::schema::{Schema, TableMetadata};
use espalier_sstable::{Component, Descriptor};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::ShardStore;
use crate::{
    StorageError,
    empty_ranges::EmptyRanges,
    system::{SCHEMA_KEYSPACE, is_virtual},
    table::{Table, TableDirectory},
};

/// Maximum number of tables whose SSTables are opened at once on a shard; most of this work waits
/// for the disk.
const OPENED_AT_ONCE: usize = 32;

/// The SSTables of each table, as a start found them.
pub(crate) type FoundTables = Arc<Vec<FoundTable>>;

/// The directory of one table, with its SSTables.
#[derive(Clone, Debug)]
pub(crate) struct FoundTable {
    pub(crate) directory: TableDirectory,
    pub(crate) sstables: Vec<Descriptor>,
    /// SSTables without TOC.txt.
    pub(crate) incomplete: Vec<Descriptor>,
    /// The reason why the directory could not be read. An error only if a table uses the directory.
    pub(crate) failure: Option<StorageError>,
}

impl ShardStore {
    /// Installs a schema snapshot: creates new tables, with the SSTables that `found` lists for
    /// them, and alters changed tables. Dropped tables stay.
    pub(crate) async fn install(
        &self,
        schema: &Arc<Schema>,
        found: &FoundTables,
    ) -> Result<(), StorageError> {
        let is_here = |metadata: &&Arc<TableMetadata>| {
            let is_of_first_shard = metadata.keyspace == SCHEMA_KEYSPACE;
            let is_elsewhere = is_of_first_shard && self.shard().index != 0;
            !is_elsewhere && !is_virtual(&metadata.keyspace)
        };
        let is_new =
            |metadata: &&Arc<TableMetadata>| !self.tables.by_id.borrow().contains_key(&metadata.id);
        let new: Vec<_> = schema.tables().filter(is_here).filter(is_new).collect();
        let created = new.into_iter().map(|metadata| create_table(self, metadata, found));
        stream::iter(created).buffered(OPENED_AT_ONCE).try_collect::<()>().await?;
        for metadata in schema.tables().filter(is_here) {
            let keyspace = schema.keyspace(&metadata.keyspace);
            let is_durable = keyspace.is_none_or(|keyspace| keyspace.durable_writes);
            let table = self.tables.get(metadata.id)?;
            let installed = table.metadata();
            if !Arc::ptr_eq(&installed, metadata) && *installed != **metadata {
                let mapping = ColumnMapping::new(self.tables.next_mapping_number(), metadata);
                table.alter(metadata.clone(), mapping)?;
                // The new strategy may want a compaction at once.
                self.wakers.compaction.notify_one();
                if !metadata.has_indexes_of(&installed) {
                    self.wakers.indexes.notify_one();
                }
            }
            table.set_durable(is_durable);
        }
        *self.tables.schema.borrow_mut() = schema.clone();
        Ok(())
    }
}

async fn create_table(
    store: &ShardStore,
    metadata: &Arc<TableMetadata>,
    found: &FoundTables,
) -> Result<(), StorageError> {
    // An operator may have copied the directory under another name; the copy is not the table.
    let directory = store.configuration.directory_of(metadata);
    let files = found
        .iter()
        .find(|found| found.directory.id == metadata.id && found.directory.path == directory);
    if let Some(failure) = files.and_then(|files| files.failure.clone()) {
        return Err(failure);
    }
    if let Some(descriptor) = files.and_then(|files| files.incomplete.first()) {
        return Err(StorageError::IncompleteSSTable(descriptor.path(&Component::Toc)));
    }
    let mapping = ColumnMapping::new(store.tables.next_mapping_number(), metadata);
    let (min_dropped, waker) = (store.configuration.min_dropped, &store.wakers.empty_ranges);
    let table = Rc::new(Table::new(
        metadata.clone(),
        mapping,
        directory,
        store.memtables.factory.clone(),
        store.caches.rows.clone(),
        EmptyRanges::new(min_dropped, waker.clone()),
    ));
    let mut sstables = Vec::new();
    for descriptor in files.iter().flat_map(|files| &files.sstables) {
        let sstable = store.open_sstable(metadata, descriptor.clone()).await?;
        if store.routing.may_own_part(metadata, &sstable) {
            sstables.push(sstable);
        }
    }
    table.change_view(|view| view.with_sstables(sstables));
    store.tables.by_id.borrow_mut().insert(metadata.id, table);
    Ok(())
}
