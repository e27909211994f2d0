//! A database for unit tests of internals.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::schema::{KeyspaceMetadata, Schema, TableMetadata};
use espalier_runtime::{ShardContext, file::FileSystem, random::uuid_v4};

use crate::{Database, SharedDatabase, StorageConfiguration, table::Table};

/// Opens a database on one shard, without automatic compactions.
pub(crate) async fn open(file_system: FileSystem) -> Database {
    let mut configuration = StorageConfiguration::new("node");
    configuration.autocompaction = false;
    let context = ShardContext { index: 0, count: 1 };
    let shared = SharedDatabase::new();
    Database::open(context, file_system, Arc::new(configuration), shared).await.unwrap()
}

/// Adds a table to the keyspace `ks` and returns its metadata as installed.
pub(crate) async fn create(database: &Database, metadata: TableMetadata) -> Arc<TableMetadata> {
    let name = metadata.name.clone();
    let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
        let mut keyspaces = schema.keyspaces.clone();
        let mut tables =
            schema.keyspace("ks").map(|keyspace| keyspace.tables.clone()).unwrap_or_default();
        tables.insert(metadata.name.clone(), Arc::new(metadata));
        let keyspace = KeyspaceMetadata {
            name: "ks".into(),
            replication: [("class".into(), "SimpleStrategy".into())].into(),
            durable_writes: true,
            tables,
            types: Default::default(),
            annotations: Default::default(),
            unreadable: Default::default(),
        };
        keyspaces.insert("ks".into(), Arc::new(keyspace));
        Ok(Some(Schema::new(keyspaces, uuid_v4())))
    };
    database.change_schema(change).await.unwrap().unwrap();
    database.store().schema().table("ks", &name).unwrap().clone()
}

/// Returns this shard's part of a table.
pub(crate) fn table(database: &Database, metadata: &TableMetadata) -> Rc<Table> {
    let mut tables = database.store().tables.all().into_iter();
    tables.find(|table| table.metadata().id == metadata.id).unwrap()
}
