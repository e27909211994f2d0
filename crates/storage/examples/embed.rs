//! The storage engine in a program of its own, without a server, a second shard or CQL.
//!
//! The program opens the store of one shard, writes rows, reads, flushes, compacts and closes it,
//! opens it again and finds the rows:
//!
//! ```text
//! cargo run -p espalier-storage --example embed -- DIRECTORY
//! ```

use std::{path::PathBuf, rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, DecoratedKey, KeyRange, Mutation, PartitionUpdate, Row,
    schema::{KeyspaceMetadata, Schema, TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{block_on, file::FileSystem, time};
use espalier_storage::{ReadCommand, ReadTarget, ShardStore, StorageConfiguration, StorageError};
use espalier_types::CqlType;
use uuid::Uuid;

/// The table's id. It must be the same at each start, because files and the log name it.
const ID: TableId = TableId(Uuid::from_u128(0x5e3d_0001));

/// Number of partitions, and of rows that each half adds to a partition.
const PARTITIONS: i32 = 100;
const ROWS: i32 = 10;

/// A table like `CREATE TABLE app.readings (sensor int, at int, value blob, PRIMARY KEY (sensor,
/// at))`.
pub fn schema() -> Schema {
    let table = TableBuilder::new("app", "readings", ID)
        .partition_key("sensor", CqlType::Int)
        .clustering("at", CqlType::Int, false)
        .regular("value", CqlType::Blob)
        .build();
    let keyspace = KeyspaceMetadata {
        replication: [("class".into(), "SimpleStrategy".into())].into(),
        tables: [(table.name.clone(), Arc::new(table))].into(),
        ..KeyspaceMetadata::new("app")
    };
    Schema::new([("app".into(), Arc::new(keyspace))].into(), Uuid::nil())
}

/// Opens the store of a directory.
pub async fn open(
    file_system: &FileSystem,
    directory: impl Into<PathBuf>,
) -> Result<Rc<ShardStore>, StorageError> {
    let configuration = Arc::new(StorageConfiguration::new(directory));
    ShardStore::open(file_system.clone(), configuration, schema()).await
}

/// Returns the table in the version that the store has.
pub fn table(store: &ShardStore) -> Arc<TableMetadata> {
    store.schema().table_by_id(ID).cloned().expect("the schema has the table")
}

/// Writes one row. When this returns, the commit log on disk has it.
pub async fn write(store: &ShardStore, sensor: i32, at: i32) -> Result<(), StorageError> {
    let table = table(store);
    let int = |value: i32| Bytes::copy_from_slice(&value.to_be_bytes());
    let value = Bytes::from(format!("reading {at} of sensor {sensor}"));
    let mut row = Row::empty(Clustering::new([int(at)]));
    let column = table.column("value").expect("the table has the column").id;
    row.set_cell(column, Cell::live(time::next_timestamp_micros(), value));
    let mut update = PartitionUpdate::new(ID, DecoratedKey::new(int(sensor)));
    update.rows.push(row);
    store.apply(&Mutation { updates: vec![update] }).await
}

/// Reads all rows and returns their number.
pub async fn count(store: &ShardStore) -> Result<usize, StorageError> {
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let all = ReadTarget::Range(KeyRange::full());
    let result = store.read(&ReadCommand::of_all(table(store), all, now_s)).await?;
    Ok(result.live_rows())
}

/// Uses a store in a directory, and returns the number of rows that it finds at the end.
pub async fn embed(file_system: &FileSystem, directory: PathBuf) -> Result<usize, StorageError> {
    let store = open(file_system, &directory).await?;
    // Two flushes make two files.
    for half in 0..2 {
        for sensor in 0..PARTITIONS {
            for at in 0..ROWS {
                write(&store, sensor, half * ROWS + at).await?;
            }
        }
        store.flush().await?;
    }
    println!("{} rows in {} files", count(&store).await?, store.metrics().sstables);
    store.compact(ID).await?;
    println!("{} rows in {} file", count(&store).await?, store.metrics().sstables);
    // This row is in the memtable, which the close flushes.
    write(&store, PARTITIONS, 0).await?;
    store.close().await?;
    let store = open(file_system, &directory).await?;
    let rows = count(&store).await?;
    println!("{rows} rows after the store was opened again");
    store.close().await?;
    Ok(rows)
}

fn main() -> Result<(), StorageError> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "espalier-embedded".into());
    block_on(embed(&FileSystem::real(), directory.into())).map(drop)
}
