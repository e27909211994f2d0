//! Compares reads through the row cache with reads that bypass it, in random histories with
//! flushes, compactions, evictions and invalidations. The histories include look-ups of one row,
//! which the cache answers, and from which it adds rows. The tables are fixed here;
//! `row_cache_histories` has random tables, and readers beside the writer.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use espalier_mutation::{Mutation, schema::TableMetadata};
use espalier_runtime::{file::FileSystem, spawn_local, time};
use espalier_storage::{Node, ReadCommand, RowCacheMetrics, StorageConfiguration};

use crate::{
    looks::compare_look,
    model::{Writer, forget_liveness, read_in_pages},
    row_cache_histories::{self, Met},
    support::*,
};

/// The shape of a table and its history.
#[derive(Clone, Copy)]
struct Shape {
    table: fn() -> TableMetadata,
    partitions: u64,
    spread: u64,
    /// Bytes of the cache. A small one evicts all the time.
    cache_bytes: usize,
    /// True if tombstones are purged at once; then no write is older than a deletion.
    purges: bool,
}

pub(crate) fn settings(cache_bytes: usize) -> StorageConfiguration {
    let mut configuration = configuration();
    configuration.caches.row_cache_bytes = cache_bytes;
    configuration
}

/// Compares a read with and without the cache.
pub(crate) async fn compare(database: &Node, command: &ReadCommand, page: usize, context: &str) {
    let around = ReadCommand { bypass_cache: true, ..command.clone() };
    let mut expected = database.read(around).await.unwrap().partitions;
    let mut got = database.read(command.clone()).await.unwrap().partitions;
    forget_liveness(&mut expected);
    forget_liveness(&mut got);
    assert_eq!(got, expected, "{context} {command:?}");
    let mut got = read_in_pages(database, command.clone(), page).await;
    forget_liveness(&mut got);
    assert_eq!(got, expected, "pages of {page}: {context} {command:?}");
}

/// Runs `steps` steps. Returns the cache's metrics and the number of answered look-ups of one row.
fn check(seed: u64, shape: Shape, steps: u64) -> (RowCacheMetrics, u64) {
    let file_system = FileSystem::simulated(seed);
    let mut writer = Writer::new(seed);
    writer.ttl_s = 10_000;
    // Purges depend on the clock. Nothing expires during the history.
    writer.now_s = if shape.purges {
        u32::try_from(time::now_seconds()).unwrap() - 3
    } else {
        NOW + 1_000_000_000
    };
    let (mut result, mut answered) = (RowCacheMetrics::default(), 0);
    run(async {
        espalier_runtime::preempt::force_yields(Some(seed));
        let mut settings = settings(shape.cache_bytes);
        // Partitions of several rows get a row index.
        settings.sstables.column_index_bytes = seed.is_multiple_of(2).then_some(64);
        let database = open(&file_system, settings).await.unwrap();
        let mut definition = keeping_tombstones((shape.table)());
        if shape.purges {
            definition.options.gc_grace_seconds = 0;
        }
        let name = definition.name.clone();
        create(&database, vec![definition]).await;
        let table = table(&database, &name);
        let mut flushing = None;
        for step in 0..steps {
            let context = format!("seed {seed} step {step}");
            match writer.below(40) {
                0 => {
                    // The flush runs beside the next steps.
                    let database = database.clone();
                    let flush = spawn_local(async move { database.flush("ks", None).await });
                    if let Some(earlier) = flushing.replace(flush) {
                        earlier.await.unwrap();
                    }
                }
                1 if writer.below(4) == 0 => {
                    database.compactions().compact("ks", None, false).await.unwrap()
                }
                2 if writer.below(8) == 0 => database.forget_cached_rows().await,
                3 => {
                    // The clock hand evicts the oldest entries.
                    let used = database.store().row_cache().metrics().used_bytes as usize;
                    let least = used * writer.below(100) as usize / 100;
                    database.store().row_cache().set_limit(least);
                    database.store().row_cache().set_limit(shape.cache_bytes);
                }
                4..12 => {
                    let partition = key(format!("p{}", writer.below(shape.partitions)));
                    let (row, now_s) = (writer.clustering(&table, shape.spread), writer.now_s);
                    let look = compare_look(&database, &table, partition, row, now_s, &context);
                    answered += u64::from(look.await);
                }
                12..24 => {
                    let command = writer.command(&table, shape.partitions, shape.spread);
                    let page = 1 + writer.below(4) as usize;
                    compare(&database, &command, page, &context).await;
                }
                _ => {
                    if shape.purges {
                        // An older write would bring back data of a purged deletion, and files and
                        // cache purge at different times.
                        writer.raise_floor();
                    }
                    let update = writer.update(&table, shape.partitions, shape.spread);
                    if !update.is_empty() {
                        database.apply(Mutation { updates: vec![update] }).await.unwrap();
                    }
                }
            }
        }
        if let Some(flush) = flushing {
            flush.await.unwrap();
        }
        let metrics = database.store().row_cache().metrics();
        // The last insertion may have split nodes, or a flush may have made a row longer.
        assert!(metrics.used_bytes <= shape.cache_bytes as u64 + 512, "{metrics:?}");
        result = metrics;
        espalier_runtime::preempt::force_yields(None);
    });
    (result, answered)
}

fn check_seeds(first: u64, seeds: u64, shape: Shape, steps: u64) {
    let (mut all, mut answered) = (RowCacheMetrics::default(), 0);
    let seeds = espalier_testing::cases(seeds);
    let first = first + espalier_testing::first_seed();
    for seed in first..first + seeds {
        let (metrics, looks) = check(seed, shape, steps);
        all.add(&metrics);
        answered += looks;
    }
    assert!(all.reads_without_misses > 0 && all.reads_with_misses > 0, "{all:?}");
    if espalier_testing::runs_all() {
        assert!(answered > seeds, "only {answered} looks were answered");
        assert!(all.row_evictions > 0 && all.row_merges > 0, "{all:?}");
    }
}

const WIDE: Shape =
    Shape { table: wide_table, partitions: 3, spread: 12, cache_bytes: 1 << 20, purges: false };

#[test]
fn reads_of_wide_partitions_are_those_without_the_cache() {
    check_seeds(0, 30, WIDE, 400);
}

#[test]
fn reads_are_those_without_the_cache_while_old_tombstones_go() {
    let wide = Shape { purges: true, ..WIDE };
    let mixed = Shape { table: mixed_table, partitions: 2, spread: 5, ..wide };
    let mut removals = 0;
    // The histories of one seed may have few removals.
    let is_enough = espalier_testing::run_seeds(12, |seed| {
        for shape in [wide, mixed, Shape { cache_bytes: 4 << 10, ..wide }] {
            removals += check(400 + seed, shape, 400).0.row_removals;
        }
        removals > espalier_testing::at_least(100)
    });
    assert!(is_enough, "{removals}");
}

#[test]
fn reads_of_wide_partitions_under_eviction_are_those_without_the_cache() {
    check_seeds(100, 30, Shape { cache_bytes: 3 << 10, ..WIDE }, 400);
    check_seeds(150, 6, Shape { cache_bytes: 8 << 10, partitions: 1, spread: 300, ..WIDE }, 600);
}

#[test]
fn reads_of_small_partitions_are_those_without_the_cache() {
    let shape = Shape { table: narrow_table, partitions: 30, spread: 1, ..WIDE };
    check_seeds(200, 10, shape, 400);
    check_seeds(220, 10, Shape { cache_bytes: 2 << 10, partitions: 100, ..shape }, 400);
}

#[test]
fn reads_of_composite_clusterings_are_those_without_the_cache() {
    let shape = Shape { table: mixed_table, partitions: 2, spread: 5, ..WIDE };
    check_seeds(300, 15, shape, 400);
    check_seeds(320, 15, Shape { cache_bytes: 3 << 10, ..shape }, 400);
}

/// Returns a number from the environment, or `default`.
pub(crate) fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// The long run: `ESPALIER_STEPS=1000000 cargo test -p espalier-storage --test all
/// row_cache::a_million -- --ignored --nocapture`. Every fourth history uses the tables here, the
/// others use random ones.
#[test]
#[ignore = "runs as long as the environment says"]
fn a_million_steps() {
    let (steps, first) = (
        number_from_environment("ESPALIER_STEPS", 1_000_000),
        number_from_environment("ESPALIER_SEED", 0),
    );
    let small = Shape { cache_bytes: 3 << 10, ..WIDE };
    let narrow = Shape { table: narrow_table, partitions: 60, spread: 1, ..small };
    let mixed = Shape { table: mixed_table, partitions: 3, spread: 5, ..small };
    let purging = Shape { purges: true, ..WIDE };
    let shapes = [WIDE, small, narrow, mixed, purging];
    let mut met = Met::default();
    for round in 0..steps / 2000 {
        let seed = espalier_runtime::random::Generator::from_seed(first + round).below(u64::MAX);
        if round % 4 > 0 {
            met.add(row_cache_histories::check(seed, 2000));
            continue;
        }
        let shape = shapes[round as usize / 4 % shapes.len()];
        println!("seed {seed} {}", (shape.table)().name);
        check(seed, shape, 2000);
    }
    println!("{met:?}");
}

/// A writer writes whole partitions, and readers yield in the middle. Each read sees one write, not
/// parts of two.
#[test]
fn readers_see_whole_writes_while_flushes_update_the_cache() {
    // On a busy machine all reads of one seed may have had misses.
    let without_misses = Cell::new(0);
    for seed in espalier_testing::seeds(10) {
        let file_system = FileSystem::simulated(seed);
        run(async {
            espalier_runtime::preempt::force_yields(Some(seed));
            let database = open(&file_system, settings(1 << 20)).await.unwrap();
            create(&database, vec![wide_table()]).await;
            let table = table(&database, "wide");
            let rows = 40;
            let is_over = Rc::new(RefCell::new(false));
            write_version(&database, &table, rows, 1).await;
            let readers: Vec<_> = (0..4)
                .map(|_| {
                    let (database, table) = (database.clone(), table.clone());
                    let is_over = is_over.clone();
                    spawn_local(async move {
                        let mut reads = 0;
                        while !*is_over.borrow() {
                            let found = read_partition(&database, &table, "p").await.unwrap();
                            let texts: Vec<_> =
                                found.rows.iter().map(|row| text(&table, row, "v")).collect();
                            assert_eq!(texts.len(), rows as usize, "seed {seed}");
                            assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "{texts:?}");
                            reads += 1;
                        }
                        reads
                    })
                })
                .collect();
            for version in 2..30 {
                write_version(&database, &table, rows, version).await;
                if version % 3 == 0 {
                    database.flush("ks", None).await.unwrap();
                }
                if version % 7 == 0 {
                    database.forget_cached_rows().await;
                }
            }
            *is_over.borrow_mut() = true;
            for reader in readers {
                assert!(reader.await > 0);
            }
            let metrics = database.store().row_cache().metrics();
            assert!(metrics.row_merges > 0, "{metrics:?}");
            without_misses.set(without_misses.get() + metrics.reads_without_misses);
            espalier_runtime::preempt::force_yields(None);
        });
    }
    assert!(without_misses.get() > 0 || !espalier_testing::runs_all());
}

async fn write_version(database: &Node, table: &Arc<TableMetadata>, rows: i32, version: i64) {
    let mut whole = insert(table, "p", Some(0), version, &[("v", &version.to_string())]);
    for at in 1..rows {
        let one = row(table, Some(at), version, &[("v", &version.to_string())]);
        whole.updates[0].rows.push(one);
    }
    database.apply(whole).await.unwrap();
}
