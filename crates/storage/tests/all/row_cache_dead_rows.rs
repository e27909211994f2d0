//! Rows that consist only of old tombstones leave the row cache when a read has met them, and no
//! deleted data comes back.

use std::sync::Arc;

use espalier_mutation::{
    DeletionTime, Mutation, PartitionUpdate, Row,
    schema::{TableMetadata, TableOptions},
};
use espalier_runtime::{file::FileSystem, time};
use espalier_storage::{Node, ReadCommand, ReadTarget};

use crate::{row_cache::settings, support::*};

const ROWS: i32 = 200;

async fn delete(database: &Node, table: &TableMetadata, row: i32, timestamp: i64, second: u32) {
    let mut update = PartitionUpdate::new(table.id, key("p"));
    let mut dead = Row::empty(espalier_mutation::Clustering::new([int(row)]));
    dead.deletion = DeletionTime::new(timestamp, second);
    update.rows.push(dead);
    database.apply(Mutation { updates: vec![update] }).await.unwrap();
}

/// Reads the first row. Returns it and the number of cached rows that the read met.
async fn first(database: &Node, table: &Arc<TableMetadata>) -> (Option<i32>, u64) {
    let mut command = command(table, ReadTarget::Partition(key("p")));
    command.limits.rows = 1;
    let before = database.store().row_cache().metrics();
    let read = database.read(command.clone()).await.unwrap();
    let met = database.store().row_cache().metrics().row_hits - before.row_hits;
    assert_eq!(database.store().row_cache().metrics().reads_with_misses, before.reads_with_misses);
    let around = database.read(ReadCommand { bypass_cache: true, ..command }).await.unwrap();
    assert_eq!(read.partitions, around.partitions);
    let row = read.partitions.first().map(|partition| partition.rows[0].clone());
    let value = row.map(|row| row.clustering.values[0].clone().unwrap());
    (value.map(|value| i32::from_be_bytes(value[..].try_into().unwrap())), met)
}

/// Runs `check` with a partition of [`ROWS`] rows. All rows are cached, and the first half is
/// deleted and flushed.
fn with_queue(grace_s: u32, check: impl AsyncFn(Node, Arc<TableMetadata>, u32)) {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(1 << 20)).await.unwrap();
        let mut definition = wide_table();
        definition.options.gc_grace_seconds = grace_s;
        create(&database, vec![definition]).await;
        let table = table(&database, "wide");
        for row in 0..ROWS {
            database.apply(insert(&table, "p", Some(row), 10, &[("v", "x")])).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
        read_partition(&database, &table, "p").await.unwrap();
        let now_s = u32::try_from(time::now_seconds()).unwrap();
        for row in 0..ROWS / 2 {
            delete(&database, &table, row, 20, now_s - 100).await;
        }
        database.flush("ks", None).await.unwrap();
        check(database, table, now_s).await;
    });
}

#[test]
fn a_run_of_old_tombstones_is_walked_once() {
    with_queue(50, async |database, table, now_s| {
        let half = ROWS / 2;
        assert_eq!(database.store().row_cache().metrics().rows, ROWS as u64);
        let (row, met) = first(&database, &table).await;
        assert!((row, met > half as u64) == (Some(half), true), "{row:?} {met}");
        // The read goes in steps, and each step removes a part.
        let mut met = met;
        for _ in 0..10 {
            let (row, again) = first(&database, &table).await;
            assert_eq!(row, Some(half));
            met = again;
        }
        assert!(met < 10, "{met}");
        assert!(database.store().row_cache().metrics().rows <= half as u64 + 1);
        // The queue continues.
        delete(&database, &table, half, 20, now_s - 100).await;
        assert_eq!(first(&database, &table).await.0, Some(half + 1));
        database.apply(insert(&table, "p", Some(3), 30, &[("v", "y")])).await.unwrap();
        assert_eq!(first(&database, &table).await.0, Some(3));
        database.flush("ks", None).await.unwrap();
        assert_eq!(first(&database, &table).await.0, Some(3));
    });
}

#[test]
fn tombstones_stay_as_long_as_they_are_young() {
    with_queue(864_000, async |database, table, _| {
        for _ in 0..5 {
            assert_eq!(first(&database, &table).await.0, Some(ROWS / 2));
        }
        assert_eq!(database.store().row_cache().metrics().rows, ROWS as u64);
    });
}

#[test]
fn tombstones_kept_by_a_changed_option_cover_late_writes() {
    let changes: [fn(&mut TableOptions); 2] = [
        |options| options.gc_grace_seconds = 864_000,
        |options| {
            let name = "only_purge_repaired_tombstones";
            options.compaction.insert(name.into(), "true".into());
        },
    ];
    for change in changes {
        with_queue(50, async |database, table, _| {
            for _ in 0..10 {
                first(&database, &table).await;
            }
            assert!(database.store().row_cache().metrics().rows <= ROWS as u64 / 2 + 1);
            alter_options(&database, "wide", change).await;
            let table = crate::support::table(&database, "wide");
            database.apply(insert(&table, "p", Some(7), 15, &[("v", "late")])).await.unwrap();
            read_partition(&database, &table, "p").await.unwrap();
            assert_eq!(first(&database, &table).await.0, Some(ROWS / 2));
        });
    }
}

#[test]
fn cached_tombstones_stay_while_a_memtable_has_older_rows() {
    with_queue(50, async |database, table, _| {
        // Written before the deletion, but arriving after it.
        database.apply(insert(&table, "p", Some(7), 15, &[("v", "late")])).await.unwrap();
        for _ in 0..5 {
            assert_eq!(first(&database, &table).await.0, Some(ROWS / 2));
        }
        assert_eq!(database.store().row_cache().metrics().rows, ROWS as u64);
        // In a file it is covered by the tombstone in another file.
        database.flush("ks", None).await.unwrap();
        for _ in 0..5 {
            assert_eq!(first(&database, &table).await.0, Some(ROWS / 2));
        }
        assert!(database.store().row_cache().metrics().rows <= ROWS as u64 / 2 + 1);
    });
}
