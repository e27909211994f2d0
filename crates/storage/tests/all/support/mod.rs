//! Helpers that the tests share: a small schema, tables, and a database on one shard.
#![allow(dead_code)]

pub mod shards;
pub mod values;

use std::{collections::BTreeMap, future::Future, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ColumnData, DecoratedKey, KeyRange, Liveness, Mutation, PartitionUpdate, Row,
    schema::{KeyspaceMetadata, Schema, TableBuilder, TableId, TableMetadata, TableOptions},
};
use espalier_runtime::{ShardContext, block_on, file::FileSystem, random::Generator};
use espalier_storage::{
    MemtableKind, Node, PartitionRows, ReadCommand, ReadResult, ReadTarget, SharedStorage,
    StorageConfiguration, StorageError,
};
use espalier_types::CqlType;
use uuid::Uuid;

pub const NOW: u32 = 1_700_000_000;

thread_local! {
    /// The kind of memtable of [`configuration`].
    static MEMTABLES: std::cell::Cell<MemtableKind> = std::cell::Cell::default();
}

/// Runs a test with memtables of this kind.
pub fn with_memtables(kind: MemtableKind, test: impl FnOnce()) {
    MEMTABLES.set(kind);
    test();
}

/// Returns a table with one counter for each row, and one for the partition.
pub fn counter_table() -> TableMetadata {
    TableBuilder::new("ks", "counts", TableId(Uuid::from_u128(0xc1)))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Int, false)
        .static_column("all", CqlType::Counter)
        .regular("n", CqlType::Counter)
        .build()
}

pub fn configuration() -> StorageConfiguration {
    let mut configuration = StorageConfiguration::new("node");
    configuration.commit_log.segment_bytes = 1 << 20;
    configuration.commit_log.total_bytes = 16 << 20;
    configuration.memtables.configurations.set("default", MEMTABLES.get());
    // Compactions would purge tombstones, because the clock is years ahead of [`NOW`], and some
    // tests write older rows later.
    configuration.autocompaction = false;
    configuration.min_dropped = 2;
    configuration
}

/// Opens a database on one shard, without other threads.
pub async fn open(
    file_system: &FileSystem,
    configuration: StorageConfiguration,
) -> Result<Node, StorageError> {
    let shared = SharedStorage::new();
    let context = ShardContext { index: 0, count: 1 };
    Node::open(context, file_system.clone(), Arc::new(configuration), shared).await
}

/// Runs a test body on one shard.
pub fn run<F: Future>(body: F) -> F::Output {
    block_on(body)
}

/// Returns the table `k blob, c int, s blob static, m map<int, blob>, v blob, w blob, PRIMARY KEY
/// (k, c)`. Columns are in the order in which the schema tables return them, so that ids survive
/// restarts.
pub fn wide_table() -> TableMetadata {
    TableBuilder::new("ks", "wide", TableId(Uuid::from_u128(0xa1)))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Int, false)
        .static_column("s", CqlType::Blob)
        .regular(
            "m",
            CqlType::Map {
                key: Arc::new(CqlType::Int),
                value: Arc::new(CqlType::Blob),
                frozen: false,
            },
        )
        .regular("v", CqlType::Blob)
        .regular("w", CqlType::Blob)
        .build()
}

/// Returns the table `k blob PRIMARY KEY, v blob`.
pub fn narrow_table() -> TableMetadata {
    TableBuilder::new("ks", "narrow", TableId(Uuid::from_u128(0xa2)))
        .partition_key("k", CqlType::Blob)
        .regular("v", CqlType::Blob)
        .build()
}

/// Adds tables to the schema, in keyspace `ks`.
pub async fn create(database: &Node, tables: Vec<TableMetadata>) {
    let change = |schema: &Schema| -> Result<Option<Schema>, std::convert::Infallible> {
        Ok(Some(with_tables(schema, tables)))
    };
    database.change_schema(change).await.unwrap().unwrap();
}

/// Replaces a table of keyspace `ks` by the result of `change`.
pub async fn alter_table(
    database: &Node,
    name: &str,
    change: impl Fn(&TableMetadata) -> TableMetadata + Send + Sync + 'static,
) {
    let change = |schema: &Schema| -> Result<Option<Schema>, std::convert::Infallible> {
        let table = schema.table("ks", name).unwrap();
        Ok(Some(with_tables(schema, vec![change(table)])))
    };
    assert!(database.change_schema(change).await.unwrap().unwrap());
}

/// Replaces the options of a table by the result of `change`.
pub async fn alter_options(
    database: &Node,
    name: &str,
    change: impl Fn(&mut TableOptions) + Send + Sync + 'static,
) {
    let change = move |table: &TableMetadata| {
        let mut options = table.options.clone();
        change(&mut options);
        table.rebuild().options(options).build()
    };
    alter_table(database, name, change).await;
}

/// Enables or disables the cache of a table, without changing its rows.
pub async fn alter_caching(database: &Node, name: &str, is_cached: bool) {
    let change = move |options: &mut TableOptions| {
        options.caching.insert("enabled".into(), is_cached.to_string());
    };
    alter_options(database, name, change).await;
}

/// Keeps the tombstones of a table from being purged. After a purge, writes with older timestamps
/// could become visible, which models do not support.
pub fn keeping_tombstones(mut table: TableMetadata) -> TableMetadata {
    table.options.gc_grace_seconds = i32::MAX as u32;
    table
}

/// Returns `schema` with these tables added, or replaced, in keyspace `ks`.
pub fn with_tables(schema: &Schema, tables: Vec<TableMetadata>) -> Schema {
    let mut all = match schema.keyspace("ks") {
        Some(keyspace) => keyspace.tables.clone(),
        None => BTreeMap::new(),
    };
    all.extend(tables.into_iter().map(|table| (table.name.clone(), Arc::new(table))));
    with_keyspace(schema, all)
}

/// Returns `schema` without a table of keyspace `ks`.
pub fn without_table(schema: &Schema, name: &str) -> Schema {
    let mut tables = schema.keyspace("ks").unwrap().tables.clone();
    tables.remove(name);
    with_keyspace(schema, tables)
}

pub fn with_keyspace(schema: &Schema, tables: BTreeMap<String, Arc<TableMetadata>>) -> Schema {
    let keyspace = KeyspaceMetadata {
        replication: BTreeMap::from([("class".into(), "SimpleStrategy".into())]),
        tables,
        ..KeyspaceMetadata::new("ks")
    };
    let mut keyspaces = schema.keyspaces.clone();
    keyspaces.insert("ks".into(), Arc::new(keyspace));
    Schema::new(keyspaces, espalier_runtime::random::uuid_v4())
}

pub async fn set_durable_writes(database: &Node, durable_writes: bool) {
    let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
        let keyspace = schema.keyspace("ks").unwrap();
        let keyspace = KeyspaceMetadata { durable_writes, ..(**keyspace).clone() };
        let mut keyspaces = schema.keyspaces.clone();
        keyspaces.insert("ks".into(), Arc::new(keyspace));
        Ok(Some(Schema::new(keyspaces, schema.version)))
    };
    database.change_schema(change).await.unwrap().unwrap();
}

pub fn table(database: &Node, name: &str) -> Arc<TableMetadata> {
    database.store().schema().table("ks", name).unwrap().clone()
}

pub fn key(key: impl AsRef<[u8]>) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(key.as_ref()))
}

pub fn int(value: i32) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

/// Returns a row as INSERT writes it.
pub fn row(
    table: &TableMetadata,
    clustering: Option<i32>,
    timestamp: i64,
    values: &[(&str, &str)],
) -> Row {
    let mut row = Row::empty(Clustering::new(clustering.map(int)));
    row.liveness = Liveness::live(timestamp);
    for (name, value) in values {
        let column = table.column(name).unwrap();
        let cell = Cell::live(timestamp, Bytes::copy_from_slice(value.as_bytes()));
        row.column_or_insert(column.id, || ColumnData::Simple(cell));
    }
    row
}

/// Returns an insert of one row.
pub fn insert(
    table: &TableMetadata,
    partition: &str,
    clustering: Option<i32>,
    timestamp: i64,
    values: &[(&str, &str)],
) -> Mutation {
    let mut update = PartitionUpdate::new(table.id, key(partition));
    update.rows.push(row(table, clustering, timestamp, values));
    Mutation { updates: vec![update] }
}

pub fn command(table: &Arc<TableMetadata>, target: ReadTarget) -> ReadCommand {
    ReadCommand::of_all(table.clone(), target, NOW)
}

pub async fn read_all(database: &Node, table: &Arc<TableMetadata>) -> ReadResult {
    database.read(command(table, ReadTarget::Range(KeyRange::full()))).await.unwrap()
}

pub async fn read_partition(
    database: &Node,
    table: &Arc<TableMetadata>,
    partition: &str,
) -> Option<PartitionRows> {
    let target = ReadTarget::Partition(key(partition));
    let mut result = database.read(command(table, target)).await.unwrap();
    assert!(result.partitions.len() <= 1);
    result.partitions.pop()
}

/// Returns the text of a column, for tables of blobs that hold text.
pub fn text(table: &TableMetadata, row: &Row, column: &str) -> Option<String> {
    match row.column(table.column(column)?.id)? {
        ColumnData::Simple(cell) => Some(String::from_utf8_lossy(&cell.value).into_owned()),
        ColumnData::Complex(_) => None,
    }
}

/// Formats rows as lines: `partition/clustering column=value ...`.
pub fn show(table: &TableMetadata, result: &ReadResult) -> Vec<String> {
    let mut lines = Vec::new();
    for partition in &result.partitions {
        let name = String::from_utf8_lossy(&partition.key.key).into_owned();
        if let Some(row) = &partition.static_row {
            lines.push(format!("{name}/static{}", show_row(table, row)));
        }
        for row in &partition.rows {
            let clustering: Vec<String> = row
                .clustering
                .values
                .iter()
                .map(|value| match value.as_deref().and_then(|v| v.first_chunk()) {
                    Some(bytes) => i32::from_be_bytes(*bytes).to_string(),
                    None => format!("{value:?}"),
                })
                .collect();
            lines.push(format!("{name}/{}{}", clustering.join(","), show_row(table, row)));
        }
    }
    lines
}

fn show_row(table: &TableMetadata, row: &Row) -> String {
    let mut line = String::new();
    for column in table.columns() {
        if let Some(value) = text(table, row, &column.name) {
            line += &format!(" {}={value}", column.name);
        }
    }
    line
}

/// Returns the table `k blob, a int, b int, v blob, PRIMARY KEY (k, a, b)`, with `b` in descending
/// order.
pub fn mixed_table() -> TableMetadata {
    TableBuilder::new("ks", "mixed", TableId(Uuid::from_u128(0xa3)))
        .partition_key("k", CqlType::Blob)
        .clustering("a", CqlType::Int, false)
        .clustering("b", CqlType::Int, true)
        .regular("v", CqlType::Blob)
        .build()
}

/// Writes partitions of these names to the table `narrow`.
pub async fn write_narrow(database: &Node, names: &[&str]) {
    let narrow = table(database, "narrow");
    for name in names {
        database.apply(insert(&narrow, name, None, 1, &[("v", "1")])).await.unwrap();
    }
}

/// Returns the names of the partitions of `narrow`, in order.
pub async fn names_in_narrow(database: &Node) -> Vec<String> {
    let narrow = table(database, "narrow");
    let partitions = read_all(database, &narrow).await.partitions;
    let mut names: Vec<String> = partitions
        .iter()
        .map(|partition| String::from_utf8(partition.key.key.to_vec()).unwrap())
        .collect();
    names.sort();
    names
}

/// Returns text that does not become shorter by compression.
pub fn incompressible_text(random: &mut Generator, length: usize) -> String {
    (0..length).map(|_| char::from(b'!' + random.below(90) as u8)).collect()
}

/// Accepts an operation that succeeded, or that another request stopped.
pub fn done_or_stopped(ended: Result<(), StorageError>) {
    match ended {
        Ok(()) | Err(StorageError::CompactionStopped(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Returns the names of a table's SSTables, as `da-1-bti`.
pub async fn sstable_names(file_system: &FileSystem, table: &TableMetadata) -> Vec<String> {
    let mut names = Vec::new();
    for entry in file_system.read_dir(table_directory(table)).await.unwrap_or_default() {
        names.extend(entry.name.strip_suffix("-TOC.txt").map(str::to_owned));
    }
    names
}

/// Returns the names of all files in a table's directory.
pub async fn file_names(file_system: &FileSystem, table: &TableMetadata) -> Vec<String> {
    let entries = file_system.read_dir(table_directory(table)).await.unwrap_or_default();
    entries.into_iter().map(|entry| entry.name).collect()
}

pub fn table_directory(table: &TableMetadata) -> std::path::PathBuf {
    let data = configuration().data_directory;
    data.join(&table.keyspace).join(table.directory_name())
}
