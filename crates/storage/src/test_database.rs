//! A node for unit tests of internals.

use std::{path::PathBuf, rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_memtable::Memtable;
use espalier_mutation::{
    Cell, Clustering, ColumnData, DecoratedKey, DeletionTime, Mutation, PartitionHeader,
    PartitionUpdate, Row, Unfiltered,
    schema::{
        CLASS_OPTION, IndexKind, IndexMetadata, KeyspaceMetadata, SASI, Schema, TARGET_OPTION,
        TableBuilder, TableId, TableMetadata,
    },
};
use espalier_runtime::{ShardContext, file::FileSystem, random::uuid_v4};
use espalier_sstable::{
    Descriptor, PageCache, SSTable, SSTableId, SSTableWriter, WriterOptions, versions::Version,
};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::{Node, SharedStorage, StorageConfiguration, table::Table};

/// Opens a node on one shard, without automatic compactions.
pub(crate) async fn open(file_system: FileSystem) -> Node {
    let mut configuration = StorageConfiguration::new("node");
    configuration.autocompaction = false;
    open_with(configuration, file_system).await
}

/// Opens a node on one shard with these settings.
pub(crate) async fn open_with(configuration: StorageConfiguration, files: FileSystem) -> Node {
    let (context, shared) = (ShardContext { index: 0, count: 1 }, SharedStorage::new());
    Node::open(context, files, Arc::new(configuration), shared).await.unwrap()
}

/// Begins a table in the keyspace `ks`. The number distinguishes the ids of tables.
pub(crate) fn table_builder(name: &str, number: u128) -> TableBuilder {
    TableBuilder::new("ks", name, TableId(Uuid::from_u128(number)))
}

/// Makes a table `k blob PRIMARY KEY, v blob`.
pub(crate) fn table_of_blobs(name: &str, number: u128) -> TableMetadata {
    let builder = table_builder(name, number).partition_key("k", CqlType::Blob);
    builder.regular("v", CqlType::Blob).build()
}

/// Makes an index of the values of a column, or of the elements that `target` names.
pub(crate) fn index_of(name: &str, target: &str) -> IndexMetadata {
    let options = [(TARGET_OPTION.into(), target.into())].into();
    IndexMetadata::from_options(name, IndexKind::Composites, options).unwrap()
}

/// Makes an index `by_v` of the terms of the texts in column `v`.
pub(crate) fn index_of_terms() -> IndexMetadata {
    let class = "org.apache.cassandra.index.sasi.analyzer.StandardAnalyzer";
    let options = [(TARGET_OPTION, "v"), (CLASS_OPTION, SASI), ("analyzer_class", class)];
    let options = options.into_iter().map(|(name, value)| (name.into(), value.into()));
    IndexMetadata::from_options("by_v", IndexKind::Custom, options.collect()).unwrap()
}

/// Makes a write of a row with this data in column `v`, in a table without clustering columns.
pub(crate) fn write_of(metadata: &TableMetadata, key: Bytes, data: ColumnData) -> Mutation {
    let mut row = Row::empty(Clustering::empty());
    row.columns.push((metadata.column("v").unwrap().id, data));
    let mut update = PartitionUpdate::new(metadata.id, DecoratedKey::new(key));
    update.rows.push(row);
    Mutation { updates: vec![update] }
}

/// Writes an SSTable of one row with this value in column `v`. The caller may add components before
/// it calls [`open_sstable`].
pub(crate) async fn write_sstable(
    file_system: &FileSystem,
    table: &Arc<TableMetadata>,
    key: &DecoratedKey,
    clustering: Clustering,
    value: &'static [u8],
) -> SSTableWriter {
    file_system.create_dir_all("ks/t").await.unwrap();
    let id = SSTableId::Generation(1.try_into().unwrap());
    let descriptor = Descriptor::new(PathBuf::from("ks/t"), Version::named("da").unwrap(), id);
    let settings = WriterOptions::for_table(descriptor, table.clone()).unwrap();
    let mut writer = SSTableWriter::create(file_system, settings).await.unwrap();
    let (key, deletion) = (key.clone(), DeletionTime::LIVE);
    writer.start_partition(PartitionHeader { key, deletion, static_row: None }).unwrap();
    let mut row = Row::empty(clustering);
    let cell = Cell::live(1, Bytes::from_static(value));
    row.columns.push((table.column("v").unwrap().id, ColumnData::Simple(cell)));
    writer.add(Unfiltered::Row(row)).await.unwrap();
    writer.end_partition().await.unwrap();
    writer
}

/// Finishes an SSTable and opens it.
pub(crate) async fn open_sstable(
    file_system: &FileSystem,
    table: &Arc<TableMetadata>,
    writer: SSTableWriter,
) -> Rc<SSTable> {
    let written = writer.finish().await.unwrap().unwrap();
    let cache = PageCache::new(1 << 20);
    Rc::new(SSTable::open(file_system, table, written.descriptor, &cache).await.unwrap())
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
            replication: [("class".into(), "SimpleStrategy".into())].into(),
            tables,
            ..KeyspaceMetadata::new("ks")
        };
        keyspaces.insert("ks".into(), Arc::new(keyspace));
        Ok(Some(Schema::new(keyspaces, uuid_v4())))
    };
    node.change_schema(change).await.unwrap().unwrap();
    node.store().schema().table("ks", &name).unwrap().clone()
}

/// Returns the number of entries that a memtable has in an index.
pub(crate) fn entry_count(memtable: &Memtable, index: &str) -> usize {
    memtable.index_entries(index, (&[], &[]), usize::MAX).entries.len()
}

/// Returns this shard's part of a table.
pub(crate) fn table(node: &Node, metadata: &TableMetadata) -> Rc<Table> {
    let mut tables = node.store().tables.all().into_iter();
    tables.find(|table| table.metadata().id == metadata.id).unwrap()
}
