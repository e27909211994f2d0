//! Tests empty ranges. A reader that skips empty ranges must return the rows that other readers
//! return, whatever is written at the same time, and must not read the dead rows again.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::{
    Cell, Clustering, ColumnData, DeletionTime, Direction, Liveness, Mutation, PartitionUpdate,
    Row,
    schema::{Schema, TableMetadata},
};
use espalier_runtime::{
    file::FileSystem,
    random::Generator,
    spawn_local,
    time::{self, Instant},
};
use espalier_storage::{Node, ReadCommand, ReadTarget};

use crate::{model::Writer, row_cache::compare, support::*};

fn whole(table: &Arc<TableMetadata>) -> ReadCommand {
    command(table, ReadTarget::Range(espalier_mutation::KeyRange::full()))
}

/// Makes a read of the whole table at the clock's time, which the prefetcher uses too. Ranges
/// recorded at a later second do not serve a read of an earlier one.
fn whole_now(table: &Arc<TableMetadata>) -> ReadCommand {
    ReadCommand { now_s: u32::try_from(time::now_seconds()).unwrap(), ..whole(table) }
}

fn deleted(table: &TableMetadata, partition: &str, clustering: Option<i32>) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.id, key(partition));
    let deletion = DeletionTime::new(1_000_000, NOW);
    match clustering {
        None => update.deletion = deletion,
        Some(row) => {
            let mut row = Row::empty(Clustering::new([int(row)]));
            row.deletion = deletion;
            update.rows.push(row);
        }
    }
    update
}

/// Returns the tables that a slow test runs on: both in a full run, otherwise one of them.
fn definitions() -> Vec<fn() -> TableMetadata> {
    let both: [fn() -> TableMetadata; 2] = [wide_table, narrow_table];
    if espalier_testing::runs_all() {
        return both.into();
    }
    vec![both[(espalier_testing::first_seed() % 2) as usize]]
}

async fn apply(database: &Node, update: PartitionUpdate) {
    database.apply(Mutation { updates: vec![update] }).await.unwrap();
}

/// Deletes many rows and writes some again, while readers that record empty ranges are always under
/// way. Returns the number of skips over empty ranges.
fn check(seed: u64, definition: fn() -> TableMetadata, partitions: u64, spread: u64) -> u64 {
    let file_system = FileSystem::simulated(seed);
    let mut writer = Writer::new(seed);
    writer.now_s = NOW + 1_000_000_000;
    let mut passes = 0;
    run(async {
        espalier_runtime::preempt::force_yields(Some(seed));
        let mut settings = configuration();
        settings.min_dropped = 1 + (seed % 3) as u32;
        let database = open(&file_system, settings).await.unwrap();
        create(&database, vec![keeping_tombstones(definition())]).await;
        let table = table(&database, &definition().name);
        let is_over = Rc::new(std::cell::Cell::new(false));
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                let (database, table, is_over) = (database.clone(), table.clone(), is_over.clone());
                let mut writer = Writer::new(1000 * seed + reader);
                writer.now_s = NOW + 1_000_000_000;
                spawn_local(async move {
                    while !is_over.get() {
                        let command = writer.command(&table, partitions, spread);
                        database.read(command).await.unwrap();
                        // A read that finds nothing may not have yielded.
                        espalier_runtime::yield_now().await;
                    }
                })
            })
            .collect();
        for step in 0..250 {
            match writer.below(24) {
                0 => database.flush("ks", None).await.unwrap(),
                1 if writer.below(4) == 0 => {
                    database.compactions().compact("ks", None, false).await.unwrap()
                }
                2..6 => {
                    let command = writer.command(&table, partitions, spread);
                    let page = 1 + writer.below(4) as usize;
                    compare(&database, &command, page, &format!("seed {seed} step {step}")).await;
                }
                6..10 => {
                    // Some consecutive rows, as a queue's consumer deletes them.
                    let first = writer.below(partitions.max(spread)) as i32;
                    for at in first..first + 6 {
                        let mut update = if table.clustering_columns().is_empty() {
                            deleted(&table, &format!("p{at}"), None)
                        } else {
                            let partition = format!("p{}", first as u64 % partitions);
                            deleted(&table, &partition, Some(at))
                        };
                        let timestamp = writer.timestamp();
                        update.deletion.marked_for_delete_at =
                            update.deletion.marked_for_delete_at.min(timestamp);
                        let rows = update.rows.iter_mut();
                        rows.for_each(|row| row.deletion.marked_for_delete_at = timestamp);
                        apply(&database, update).await;
                    }
                }
                _ => {
                    let update = writer.update(&table, partitions, spread);
                    if !update.is_empty() {
                        apply(&database, update).await;
                    }
                }
            }
        }
        is_over.set(true);
        for reader in readers {
            reader.await;
        }
        passes = database.store().metrics().empty_ranges.skips;
        espalier_runtime::preempt::force_yields(None);
    });
    passes
}

#[test]
fn reads_with_and_without_empty_ranges_agree() {
    let shapes: [(fn() -> TableMetadata, u64, u64); 3] =
        [(wide_table, 3, 12), (narrow_table, 30, 1), (wide_table, 12, 3)];
    for (index, (table, partitions, spread)) in shapes.into_iter().enumerate() {
        let first = 100 * index as u64;
        let seeds = espalier_testing::seeds(20).map(|seed| first + seed);
        let passes: u64 = seeds.map(|seed| check(seed, table, partitions, spread)).sum();
        assert!(passes > espalier_testing::at_least(200), "shape {index}: {passes} passes");
    }
}

#[test]
#[ignore = "runs as long as the environment says"]
fn many_histories() {
    for seed in 0..crate::row_cache::number_from_environment("ESPALIER_STEPS", 1000) {
        let (table, partitions, spread): (fn() -> TableMetadata, u64, u64) = match seed % 4 {
            0 => (wide_table, 3, 12),
            1 => (narrow_table, 30, 1),
            2 => (wide_table, 12, 3),
            _ => (wide_table, 1, 40),
        };
        println!("seed {seed}");
        check(
            crate::row_cache::number_from_environment("ESPALIER_SEED", 0) + seed,
            table,
            partitions,
            spread,
        );
    }
}

/// The number is such that the last deletion makes the prefetcher read the start of the table.
const ROWS: i32 = 4 * 8192;

/// Writes rows, flushes and deletes them. Returns the seconds that a read of all rows took before
/// the deletion.
async fn fill(database: &Node, table: &Arc<TableMetadata>) -> f64 {
    let is_wide = !table.clustering_columns().is_empty();
    for number in 0..ROWS {
        let mutation = if is_wide {
            insert(table, &format!("p{}", number / 1000), Some(number), 1, &[("v", "x")])
        } else {
            insert(table, &format!("p{number}"), None, 1, &[("v", "x")])
        };
        database.apply(mutation).await.unwrap();
    }
    database.flush("ks", None).await.unwrap();
    let began = Instant::now();
    let found = database.read(whole_now(table)).await.unwrap().partitions;
    let walked_s = began.elapsed().as_secs_f64();
    assert_eq!(found.iter().map(|partition| partition.rows.len()).sum::<usize>(), ROWS as usize);
    walked_s
}

async fn delete_all(database: &Node, table: &Arc<TableMetadata>) {
    let is_wide = !table.clustering_columns().is_empty();
    for number in 0..ROWS {
        let update = if is_wide {
            deleted(table, &format!("p{}", number / 1000), Some(number))
        } else {
            deleted(table, &format!("p{number}"), None)
        };
        apply(database, update).await;
    }
}

/// Returns the shortest time of several reads of the whole table, each at the clock's time, because
/// ranges that the prefetcher records at a later second do not serve an earlier read.
async fn min_s(
    database: &Node,
    table: &Arc<TableMetadata>,
    max_rows: Option<usize>,
    rows: usize,
) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..5 {
        let mut command = whole_now(table);
        command.limits.rows = max_rows.unwrap_or(command.limits.rows);
        let began = Instant::now();
        let found = database.read(command).await.unwrap().partitions;
        least = least.min(began.elapsed().as_secs_f64());
        assert_eq!(found.iter().map(|partition| partition.rows.len()).sum::<usize>(), rows);
    }
    least
}

fn settings() -> espalier_storage::StorageConfiguration {
    let mut settings = configuration();
    settings.min_dropped = 64;
    settings
}

#[test]
fn a_table_of_tombstones_is_walked_once() {
    for definition in definitions() {
        let file_system = FileSystem::simulated(3);
        run(async {
            let database = open(&file_system, settings()).await.unwrap();
            create(&database, vec![keeping_tombstones(definition())]).await;
            let table = table(&database, &definition().name);
            let walked_s = fill(&database, &table).await;
            delete_all(&database, &table).await;
            let mut first = whole_now(&table);
            first.limits.rows = 1;
            assert!(database.read(first).await.unwrap().partitions.is_empty());
            let passed_s = min_s(&database, &table, Some(1), 0).await;
            assert!(passed_s < walked_s / 50.0, "{passed_s} s beside {walked_s} s");
            // Nothing changes when the tombstones are flushed.
            database.flush("ks", None).await.unwrap();
            let passed_s = min_s(&database, &table, Some(1), 0).await;
            assert!(passed_s < walked_s / 50.0, "{passed_s} s beside {walked_s} s");
            // A row that is written again is returned, and the ranges on both sides of it are
            // skipped.
            let row = match definition().name.as_str() {
                "wide" => insert(&table, "p7", Some(7500), 2_000_000, &[("v", "back")]),
                _ => insert(&table, "p7500", None, 2_000_000, &[("v", "back")]),
            };
            database.apply(row).await.unwrap();
            let passed_s = min_s(&database, &table, None, 1).await;
            assert!(passed_s < walked_s / 50.0, "{passed_s} s beside {walked_s} s");
        });
    }
}

/// No reader runs while the rows are deleted, and the first reader must not read the dead rows
/// either.
#[test]
fn ranges_follow_deletions_without_a_read() {
    for definition in definitions() {
        let file_system = FileSystem::simulated(4);
        run(async {
            let database = open(&file_system, settings()).await.unwrap();
            create(&database, vec![keeping_tombstones(definition())]).await;
            let table = table(&database, &definition().name);
            fill(&database, &table).await;
            delete_all(&database, &table).await;
            // The prefetcher finishes soon. The checking read does not disturb the prefetcher: the
            // read drops one fragment, and as a reverse read it neither records nor queues ranges.
            let deadline = Instant::now() + std::time::Duration::from_secs(60);
            let mut first = whole_now(&table);
            (first.limits.rows, first.limits.tombstones) = (1, 1);
            first.direction = Direction::Reverse;
            loop {
                first.now_s = u32::try_from(time::now_seconds()).unwrap();
                let page = database.read(first.clone()).await.unwrap();
                assert!(page.partitions.is_empty());
                if page.next.is_none() {
                    break;
                }
                assert!(Instant::now() < deadline, "the first page still ends at {:?}", page.next);
                time::sleep(std::time::Duration::from_millis(100)).await;
            }
        });
    }
}

/// A scan of cached partitions, of which all but the first have expired, yields between two of
/// them. A write then adds a partition in front of the scan, which no empty range may hide.
#[test]
fn a_partition_written_in_front_of_a_scan_is_not_hidden() {
    for seed in 0..40 {
        let file_system = FileSystem::simulated(seed);
        run(async {
            let mut settings = configuration();
            settings.min_dropped = 2;
            let database = open(&file_system, settings).await.unwrap();
            create(&database, vec![narrow_table()]).await;
            let table = table(&database, "narrow");
            let mut names: Vec<_> = (0..40).map(|number| format!("p{number}")).collect();
            names.sort_by_key(|name| key(name).token);
            let late = names.remove(20);
            for (index, name) in names.iter().enumerate() {
                let mut row = row(&table, None, 1, &[("v", "x")]);
                if index > 0 {
                    row.liveness = Liveness::NONE;
                    let id = table.column("v").unwrap().id;
                    let cell = Cell::expiring(1, 10, NOW + 10, "x".into());
                    row.columns = vec![(id, ColumnData::Simple(cell))];
                }
                let mut update = PartitionUpdate::new(table.id, key(name));
                update.rows.push(row);
                apply(&database, update).await;
            }
            database.flush("ks", None).await.unwrap();
            let found = |now_s: u32| {
                let command = ReadCommand { now_s, ..whole(&table) };
                let database = database.clone();
                async move { database.read(command).await.unwrap().partitions.len() }
            };
            assert_eq!(found(NOW).await, names.len());
            espalier_runtime::preempt::force_yields(Some(seed));
            let scan = spawn_local(found(NOW + 20));
            for _ in 0..seed {
                espalier_runtime::yield_now().await;
            }
            database.apply(insert(&table, &late, None, 1, &[("v", "new")])).await.unwrap();
            scan.await;
            espalier_runtime::preempt::force_yields(None);
            assert_eq!(found(NOW + 20).await, 2, "seed {seed}");
        });
    }
}

/// A partition with only a static row visible ends an empty range as well, and the prefetcher stops
/// there.
#[test]
fn the_prefetcher_stops_at_a_static_row() {
    let file_system = FileSystem::simulated(8);
    run(async {
        let database = open(&file_system, settings()).await.unwrap();
        create(&database, vec![keeping_tombstones(wide_table())]).await;
        let table = table(&database, "wide");
        for number in 0..4 {
            let mut update = PartitionUpdate::new(table.id, key(format!("static{number}")));
            let mut static_row = row(&table, None, 1, &[("s", "x")]);
            static_row.liveness = Liveness::NONE;
            update.static_row = Some(static_row);
            apply(&database, update).await;
        }
        // The last deletion makes the prefetcher read the start of the table.
        for number in 0..8192 {
            apply(&database, deleted(&table, &format!("p{number}"), None)).await;
        }
        let deadline = Instant::now() + std::time::Duration::from_secs(60);
        let mut passes = 0;
        loop {
            time::sleep(std::time::Duration::from_millis(200)).await;
            let metrics = database.store().metrics();
            if metrics.empty_ranges.ranges > 0 && metrics.empty_ranges.skips == passes {
                break;
            }
            passes = metrics.empty_ranges.skips;
            assert!(Instant::now() < deadline, "{passes} passes, and more all the time");
        }
        // One range from the start of the table to the first static row, and one from the last
        // deletion to the next static row.
        assert!((1..=2).contains(&database.store().metrics().empty_ranges.ranges));
    });
}

#[test]
fn rows_expired_in_an_empty_range_are_read_at_an_earlier_time() {
    let file_system = FileSystem::simulated(5);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![keeping_tombstones(wide_table())]).await;
        let table = table(&database, "wide");
        for number in 0..200 {
            let mut update = PartitionUpdate::new(table.id, key("p"));
            let mut row = Row::empty(Clustering::new([int(number)]));
            row.liveness = Liveness { timestamp: 1, ttl: 10, local_expiration: NOW + 10 };
            update.rows.push(row);
            apply(&database, update).await;
        }
        let late = ReadCommand { now_s: NOW + 20, ..whole(&table) };
        for _ in 0..3 {
            assert!(database.read(late.clone()).await.unwrap().partitions.is_empty());
        }
        assert!(database.store().metrics().empty_ranges.ranges > 0);
        for direction in [Direction::Forward, Direction::Reverse] {
            let early = ReadCommand { direction, ..whole(&table) };
            assert_eq!(database.read(early).await.unwrap().partitions[0].rows.len(), 200);
        }
    });
}

/// A new column and an import clear the empty ranges. The import makes a row visible without a
/// write.
#[test]
fn imports_and_other_columns_forget_ranges() {
    let file_system = FileSystem::simulated(6);
    let mut other = espalier_storage::StorageConfiguration::new("other");
    other.autocompaction = false;
    let backup = run(async {
        let database = open(&file_system, other).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let table = table(&database, "narrow");
        database.apply(insert(&table, "p3", None, 2_000_000, &[("v", "x")])).await.unwrap();
        database.flush("ks", None).await.unwrap();
        file_system.read_dir("other/data/ks").await.unwrap()[0].path.clone()
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![keeping_tombstones(narrow_table())]).await;
        let narrow = table(&database, "narrow");
        for number in 0..50 {
            apply(&database, deleted(&narrow, &format!("p{number}"), None)).await;
        }
        let learn = async || {
            for _ in 0..3 {
                read_all(&database, &narrow).await;
            }
            assert!(database.store().metrics().empty_ranges.ranges > 0);
        };
        learn().await;
        assert!(read_all(&database, &narrow).await.partitions.is_empty());
        let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
            let table = schema.table("ks", "narrow").unwrap();
            let table = table.rebuild().regular("w", espalier_types::CqlType::Blob).build();
            Ok(Some(with_tables(schema, vec![table])))
        };
        assert!(database.change_schema(change).await.unwrap().unwrap());
        assert_eq!(database.store().metrics().empty_ranges.ranges, 0);
        let narrow = table(&database, "narrow");
        for _ in 0..3 {
            read_all(&database, &narrow).await;
        }
        assert!(database.store().metrics().empty_ranges.ranges > 0);
        database.import("ks", "narrow", Some(backup)).await.unwrap();
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), 1);
    });
}

/// A long read records ranges, while writes arrive in places that it has passed.
#[test]
fn writes_during_the_recording_of_empty_ranges_are_read() {
    for seed in espalier_testing::seeds(40) {
        let file_system = FileSystem::simulated(seed);
        run(async {
            espalier_runtime::preempt::force_yields(Some(seed));
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![keeping_tombstones(narrow_table())]).await;
            let table = table(&database, "narrow");
            let mut random = Generator::from_seed(seed);
            for number in 0..100 {
                apply(&database, deleted(&table, &format!("p{number}"), None)).await;
                if random.below(60) == 0 {
                    database.flush("ks", None).await.unwrap();
                }
            }
            let (reader, read) = (database.clone(), whole(&table));
            let walk = spawn_local(async move { reader.read(read).await.unwrap() });
            for count in 1..8 {
                for _ in 0..random.below(30) {
                    espalier_runtime::yield_now().await;
                }
                let back = format!("p{}", random.below(100));
                let at = 2_000_000 + count;
                database.apply(insert(&table, &back, None, at, &[("v", "x")])).await.unwrap();
            }
            walk.await;
            compare(&database, &whole(&table), 3, &format!("seed {seed}")).await;
            espalier_runtime::preempt::force_yields(None);
        });
    }
}
