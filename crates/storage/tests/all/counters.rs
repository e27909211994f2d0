//! Counters add up under concurrency, over shards, flushes, crashes and deletions.

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnData, DeletionTime, Mutation,
    PartitionUpdate, RangeTombstone, Row,
    counter::{self, CounterShard},
    schema::TableMetadata,
};
use espalier_runtime::{file::FileSystem, spawn_local, time};
use espalier_storage::Node;

use crate::support::{shards::on_shards, *};

fn addition(
    table: &TableMetadata,
    partition: &str,
    clustering: i32,
    delta: i64,
) -> PartitionUpdate {
    let timestamp = time::next_timestamp_micros();
    let cell = || {
        let value = Bytes::copy_from_slice(&delta.to_be_bytes());
        ColumnData::Simple(Cell::live(timestamp, value))
    };
    let mut update = PartitionUpdate::new(table.id, key(partition));
    let mut row = Row::empty(Clustering::new([int(clustering)]));
    row.columns.push((table.column("n").unwrap().id, cell()));
    update.rows.push(row);
    let mut static_row = Row::empty(Clustering::empty());
    static_row.columns.push((table.column("all").unwrap().id, cell()));
    update.static_row = Some(static_row);
    update
}

/// Returns (static counter, counters by clustering).
async fn totals(database: &Node, partition: &str) -> (i64, Vec<(i32, i64)>) {
    let table = table(database, "counts");
    let total = |row: &Row, name: &str| match row.column(table.column(name).unwrap().id) {
        Some(ColumnData::Simple(cell)) => counter::total(&cell.value),
        _ => 0,
    };
    let Some(rows) = read_partition(database, &table, partition).await else {
        return (0, Vec::new());
    };
    let counts = rows.rows.iter().map(|row| {
        let clustering = row.clustering.values[0].as_deref().unwrap();
        (i32::from_be_bytes(*clustering.first_chunk().unwrap()), total(row, "n"))
    });
    (rows.static_row.as_ref().map_or(0, |row| total(row, "all")), counts.collect())
}

#[test]
fn concurrent_additions_add_up_on_any_number_of_shards() {
    let file_system = FileSystem::simulated(1);
    for (life, shards) in [1, 3, 2].into_iter().enumerate() {
        on_shards(shards, &file_system, configuration(), move |database| async move {
            if life == 0 {
                create(&database, vec![counter_table()]).await;
            }
            let counts = table(&database, "counts");
            let writers: Vec<_> = (0..40)
                .map(|number| {
                    let (database, counts) = (database.clone(), counts.clone());
                    spawn_local(async move {
                        for partition in ["a", "b", "c"] {
                            let update =
                                addition(&counts, partition, number % 4, 1 + i64::from(number));
                            database.apply_counters(update).await.unwrap();
                        }
                    })
                })
                .collect();
            for (index, writer) in writers.into_iter().enumerate() {
                if index == 20 {
                    database.flush("ks", None).await.unwrap();
                }
                writer.await;
            }
            let lives = life as i64 + 1;
            for partition in ["a", "b", "c"] {
                let (all, rows) = totals(&database, partition).await;
                assert_eq!(all, 820 * lives);
                let expected = [(0, 190), (1, 200), (2, 210), (3, 220)];
                assert_eq!(rows, expected.map(|(clustering, n)| (clustering, n * lives)));
            }
        })
        .unwrap();
    }
}

#[test]
fn changes_of_one_counter_in_one_update_add_up() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![counter_table()]).await;
        let counts = table(&database, "counts");
        for round in 1..=2 {
            let mut update = addition(&counts, "a", 1, 1);
            for (clustering, delta) in [(2, 10), (1, 100), (1, 1000)] {
                update.rows.extend(addition(&counts, "a", clustering, delta).rows);
            }
            database.apply_counters(update).await.unwrap();
            let expected = vec![(1, 1101 * round), (2, 10 * round)];
            assert_eq!(totals(&database, "a").await, (round, expected));
        }
    });
}

#[test]
fn a_counter_restarts_from_zero_after_its_row_was_deleted() {
    let file_system = FileSystem::simulated(2);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![counter_table()]).await;
        let counts = table(&database, "counts");
        database.apply_counters(addition(&counts, "a", 1, 5)).await.unwrap();
        let mut deletion = PartitionUpdate::new(counts.id, key("a"));
        deletion.deletion = DeletionTime::new(time::next_timestamp_micros(), NOW);
        database.apply(Mutation { updates: vec![deletion] }).await.unwrap();
        assert_eq!(totals(&database, "a").await, (0, vec![]));
        for is_flushed in [false, true] {
            database.apply_counters(addition(&counts, "a", 1, 3)).await.unwrap();
            let expected = if is_flushed { 6 } else { 3 };
            assert_eq!(totals(&database, "a").await, (expected, vec![(1, expected)]));
            database.flush("ks", None).await.unwrap();
            assert_eq!(totals(&database, "a").await, (expected, vec![(1, expected)]));
        }
    });
}

/// A client may choose the timestamp of each change. The clock of a share is the node's own, so no
/// change is lost.
#[test]
fn changes_with_extreme_timestamps_add_up() {
    let file_system = FileSystem::simulated(4);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![counter_table()]).await;
        let counts = table(&database, "counts");
        let timestamps = [i64::MAX, i64::MAX, 5, i64::MAX, i64::MIN + 1];
        for (done, timestamp) in (1..).zip(timestamps) {
            database.apply_counters(at(addition(&counts, "a", 1, -1), timestamp)).await.unwrap();
            assert_eq!(totals(&database, "a").await, (-done, vec![(1, -done)]), "{timestamp}");
        }
    });
}

/// Sets the timestamp of all cells.
fn at(mut update: PartitionUpdate, timestamp: i64) -> PartitionUpdate {
    for row in update.static_row.iter_mut().chain(&mut update.rows) {
        for (_, data) in &mut row.columns {
            if let ColumnData::Simple(cell) = data {
                cell.timestamp = timestamp;
            }
        }
    }
    update
}

/// If the node's clock has gone back, a share from before a deletion has a later clock than the
/// first share after the deletion.
#[test]
fn shares_of_a_deleted_counter_stay_deleted() {
    for is_range in [false, true] {
        let file_system = FileSystem::simulated(3);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![counter_table()]).await;
            let counts = table(&database, "counts");
            let add = async |timestamp: i64| {
                let mut update = at(addition(&counts, "a", 1, 1), timestamp);
                update.static_row = None;
                database.apply_counters(update).await.unwrap();
            };
            let id = *database.store().host_id().as_bytes();
            let clock = time::now_micros() + 3_600_000_000;
            let mut later = at(addition(&counts, "a", 1, 1), 1);
            later.static_row = None;
            for (_, data) in &mut later.rows[0].columns {
                let share = counter::build(&[CounterShard { id, clock, count: 5 }]);
                *data = ColumnData::Simple(Cell::live(1, share));
            }
            database.apply(Mutation { updates: vec![later] }).await.unwrap();
            assert_eq!(totals(&database, "a").await, (0, vec![(1, 5)]));
            let mut update = PartitionUpdate::new(counts.id, key("a"));
            let deletion = DeletionTime::new(2, NOW);
            if is_range {
                let bound =
                    |kind, number| ClusteringBound { kind, values: [Some(int(number))].into() };
                update.range_tombstones.push(RangeTombstone {
                    start: bound(BoundKind::InclusiveStart, 0),
                    end: bound(BoundKind::InclusiveEnd, 1),
                    deletion,
                });
            } else {
                update.deletion = deletion;
            }
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
            add(3).await;
            assert_eq!(totals(&database, "a").await, (0, vec![(1, 1)]));
            add(3).await;
            database.flush("ks", None).await.unwrap();
            assert_eq!(totals(&database, "a").await, (0, vec![(1, 2)]));
        });
    }
}
