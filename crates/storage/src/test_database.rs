//! A node for unit tests of internals.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::schema::{KeyspaceMetadata, Schema, TableMetadata};
use espalier_runtime::{ShardContext, file::FileSystem, random::uuid_v4};

use crate::{Node, SharedStorage, StorageConfiguration, table::Table};

/// Opens a node on one shard, without automatic compactions.
pub(crate) async fn open(file_system: FileSystem) -> Node {
    let mut configuration = StorageConfiguration::new("node");
    configuration.autocompaction = false;
    let context = ShardContext { index: 0, count: 1 };
    let shared = SharedStorage::new();
    Node::open(context, file_system, Arc::new(configuration), shared).await.unwrap()
}

/// Adds a table to the keyspace `ks` and returns its metadata as installed.
pub(crate) async fn create(node: &Node, metadata: TableMetadata) -> Arc<TableMetadata> {
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
    node.change_schema(change).await.unwrap().unwrap();
    node.store().schema().table("ks", &name).unwrap().clone()
}

/// Returns this shard's part of a table.
pub(crate) fn table(node: &Node, metadata: &TableMetadata) -> Rc<Table> {
    let mut tables = node.store().tables.all().into_iter();
    tables.find(|table| table.metadata().id == metadata.id).unwrap()
}
