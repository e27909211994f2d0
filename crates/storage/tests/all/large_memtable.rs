//! A memtable may exceed 2 GiB, where offsets of 31 bits would end.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{
    Cell, ColumnData, Liveness, Mutation, PartitionUpdate, Row,
    schema::{KeyspaceMetadata, Schema, TableMetadata},
};
use espalier_runtime::{file::FileSystem, maybe_yield};
use espalier_storage::{MemtableKind, Node, StorageConfiguration};

use crate::support::*;

/// Bytes of the memtable, structure and content together.
const WANTED_BYTES: u64 = (2 << 30) + (256 << 20);

/// Returns a long name, so that fewer rows make up the size.
fn name(number: u64) -> String {
    format!("{:0>16x}{number:0>100}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn mutation(table: &TableMetadata, number: u64) -> Mutation {
    let mut row = Row::empty(espalier_mutation::Clustering::empty());
    row.liveness = Liveness::live(1);
    let value = bytes::Bytes::from(number.to_string());
    let id = table.regular_columns()[0].id;
    row.columns.push((id, ColumnData::Simple(Cell::live(1, value))));
    let mut update = PartitionUpdate::new(table.id, key(name(number)));
    update.rows.push(row);
    Mutation { updates: vec![update] }
}

async fn assert_there(database: &Node, table: &Arc<TableMetadata>, number: u64) {
    let found = read_partition(database, table, &name(number)).await;
    let rows = found.map(|partition| partition.rows).unwrap_or_default();
    let values: Vec<_> = rows.iter().map(|row| text(table, row, "v")).collect();
    assert_eq!(values, [Some(number.to_string())], "{number}");
}

/// Needs 3 GiB of memory, 3 GiB of disk, and some minutes: `cargo test -p espalier-storage --test
/// all -- --ignored a_memtable_takes_more_than_2_gib`
#[test]
#[ignore = "needs 3 GiB of memory and some minutes"]
fn a_memtable_takes_more_than_2_gib_and_is_flushed() {
    let directory = tempfile::tempdir().unwrap();
    let file_system = FileSystem::real();
    run(async {
        let mut configuration = StorageConfiguration::new(directory.path());
        configuration.memtables.bytes = 8 << 30;
        configuration.memtables.cleanup_threshold = 1.0;
        configuration.autocompaction = false;
        configuration.memtables.configurations.set("default", MemtableKind::default());
        let database = open(&file_system, configuration).await.unwrap();
        // Without a commit log, which would cause a flush.
        let narrow = narrow_table();
        let change = |schema: &Schema| -> Result<Option<Schema>, std::convert::Infallible> {
            let keyspace = KeyspaceMetadata {
                replication: BTreeMap::from([("class".into(), "SimpleStrategy".into())]),
                durable_writes: false,
                tables: BTreeMap::from([("narrow".to_owned(), Arc::new(narrow))]),
                ..KeyspaceMetadata::new("ks")
            };
            let mut keyspaces = schema.keyspaces.clone();
            keyspaces.insert("ks".into(), Arc::new(keyspace));
            Ok(Some(Schema::new(keyspaces, espalier_runtime::random::uuid_v4())))
        };
        database.change_schema(change).await.unwrap().unwrap();
        let narrow = table(&database, "narrow");
        let flushes = database.store().metrics().flushes.done;

        let mut count = 0;
        let memory = loop {
            for _ in 0..10_000 {
                database.apply(mutation(&narrow, count)).await.unwrap();
                count += 1;
            }
            maybe_yield().await;
            let memory = database.store().memtable_memory("ks", "narrow").unwrap();
            if memory.structure_bytes + memory.content_bytes > WANTED_BYTES {
                break memory;
            }
        };
        assert_eq!(database.store().metrics().flushes.done, flushes, "it was flushed before");
        assert_eq!((memory.partitions, memory.rows), (count, count));
        println!("{count} partitions, {memory:?}");
        // Overwrites an old row. The new version lies beyond 2 GiB.
        database.apply(mutation(&narrow, 0)).await.unwrap();
        for number in (0..count).step_by(97).chain([count - 1]) {
            assert_there(&database, &narrow, number).await;
        }
        assert!(read_partition(&database, &narrow, &name(count)).await.is_none());

        database.flush("ks", None).await.unwrap();
        assert_eq!(database.store().memtable_memory("ks", "narrow").unwrap().rows, 0);
        for number in (0..count).step_by(9973).chain([count - 1]) {
            assert_there(&database, &narrow, number).await;
        }
        assert!(read_partition(&database, &narrow, &name(count)).await.is_none());
        database.shutdown().await.unwrap();
    });
}
