//! Concurrent readers of the row cache, beside everything that changes it: while nothing is
//! written, all readers see the same.

use std::{cell::Cell, rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    FoundRow, Mutation,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{file::FileSystem, preempt, spawn_local};
use espalier_storage::{Node, RowCacheMetrics, RowLookup};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::{
    model::Writer,
    row_cache::{compare, number_from_environment, settings},
    support::*,
};

/// Returns a table whose clustering values have several byte forms, so that a cached row stores its
/// form beside its path.
fn varint_table() -> TableMetadata {
    TableBuilder::new("ks", "inexact", TableId(Uuid::from_u128(0xa9)))
        .partition_key("k", CqlType::Blob)
        .clustering("a", CqlType::Varint, true)
        .clustering("b", CqlType::Varint, false)
        .static_column("s", CqlType::Blob)
        .regular("v", CqlType::Blob)
        .build()
}

/// Changes the cache, and the files under it, until the flag is set.
async fn disturb(
    database: Node,
    table: Arc<TableMetadata>,
    seed: u64,
    cache_bytes: usize,
    is_over: Rc<Cell<bool>>,
) {
    let mut random = espalier_runtime::random::Generator::from_seed(seed);
    while !is_over.get() {
        match random.below(8) {
            0 => database.flush("ks", None).await.unwrap(),
            1 => database.compactions().compact("ks", None, false).await.unwrap(),
            2 if random.below(8) == 0 => database.forget_cached_rows().await,
            3 if random.below(8) == 0 => {
                // Cached rows stay, or are invalidated.
                if random.below(2) == 0 {
                    alter_caching(&database, &table.name, false).await;
                }
                alter_caching(&database, &table.name, true).await;
            }
            _ => {
                let used = database.store().row_cache().metrics().used_bytes as usize;
                database.store().row_cache().set_limit(used * random.below(100) as usize / 100);
                database.store().row_cache().set_limit(cache_bytes);
            }
        }
        preempt::yield_now().await;
    }
}

fn check(seed: u64, definition: fn() -> TableMetadata, partitions: u64, spread: u64) {
    let cache_bytes = if seed.is_multiple_of(2) { 1 << 20 } else { 4 << 10 };
    let file_system = FileSystem::simulated(seed);
    let mut writer = Writer::new(seed);
    writer.now_s = NOW + 1_000_000_000;
    run(async {
        preempt::force_yields(Some(seed));
        let database = open(&file_system, settings(cache_bytes)).await.unwrap();
        let definition = keeping_tombstones(definition());
        let name = definition.name.clone();
        create(&database, vec![definition]).await;
        for burst in 0..12 {
            let table = table(&database, &name);
            for _ in 0..1 + writer.below(20) {
                let update = writer.update(&table, partitions, spread);
                if !update.is_empty() {
                    database.apply(Mutation { updates: vec![update] }).await.unwrap();
                }
            }
            if writer.below(12) == 0 {
                database.truncate(table.id).await.unwrap();
            }
            let is_over = Rc::new(Cell::new(false));
            let disturber = spawn_local(disturb(
                database.clone(),
                table.clone(),
                seed * 100 + burst,
                cache_bytes,
                is_over.clone(),
            ));
            let readers: Vec<_> = (0..4)
                .map(|_| {
                    let commands: Vec<_> = (0..6)
                        .map(|_| (writer.command(&table, partitions, spread), 1 + writer.below(4)))
                        .collect();
                    let (database, context) =
                        (database.clone(), format!("seed {seed} burst {burst}"));
                    spawn_local(async move {
                        for (command, page) in commands {
                            compare(&database, &command, page as usize, &context).await;
                        }
                    })
                })
                .collect();
            for reader in readers {
                reader.await;
            }
            is_over.set(true);
            disturber.await;
        }
        // Without room, the cache becomes empty and counts nothing. A flush that adds its rows may
        // keep the last entry until the flush is done.
        let mut left = (0, 0, 0);
        for _ in 0..10_000 {
            database.store().row_cache().set_limit(0);
            let RowCacheMetrics { rows, partitions, used_bytes, .. } =
                database.store().row_cache().metrics();
            left = (rows, partitions, used_bytes);
            if left == (0, 0, 0) {
                break;
            }
            preempt::yield_now().await;
        }
        assert_eq!(left, (0, 0, 0), "seed {seed}");
        preempt::force_yields(None);
    });
}

/// Rule 9 of docs/cache.md. A read of many cached rows takes longer than a write of the first and
/// the last row and its flush, which adds both rows to the cache while the read is between the two.
/// The read must return the last row as old as the first one.
#[test]
fn a_long_read_of_known_rows_shows_one_state() {
    const ROWS: i32 = 3000;
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(64 << 20)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        let versioned = |clustering, version: i64| {
            row(&wide, Some(clustering), version, &[("v", &version.to_string())])
        };
        let mut whole = insert(&wide, "p", Some(0), 1, &[("v", "1")]);
        whole.updates[0].rows.extend((1..ROWS).map(|clustering| versioned(clustering, 1)));
        database.apply(whole).await.unwrap();
        database.flush("ks", None).await.unwrap();
        read_partition(&database, &wide, "p").await.unwrap();
        preempt::force_every_yield(true);
        let flushed = Rc::new(Cell::new(1));
        let is_over = Rc::new(Cell::new(false));
        let reader = {
            let (database, wide) = (database.clone(), wide.clone());
            let (flushed, is_over) = (flushed.clone(), is_over.clone());
            spawn_local(async move {
                let mut overtaken = 0;
                while !is_over.get() {
                    let before = flushed.get();
                    let rows = read_partition(&database, &wide, "p").await.unwrap().rows;
                    assert_eq!(rows.len(), ROWS as usize);
                    let [first, last] = [&rows[0], &rows[rows.len() - 1]];
                    assert_eq!(text(&wide, first, "v"), text(&wide, last, "v"));
                    overtaken += u32::from(flushed.get() > before + 1);
                }
                overtaken
            })
        };
        for version in 2..20 {
            let mut both = insert(&wide, "p", Some(0), version, &[("v", &version.to_string())]);
            both.updates[0].rows.push(versioned(ROWS - 1, version));
            database.apply(both).await.unwrap();
            database.flush("ks", None).await.unwrap();
            flushed.set(version);
        }
        is_over.set(true);
        // A write and its flush started and ended during a read. Otherwise the test shows nothing.
        assert!(reader.await > 0);
        preempt::force_every_yield(false);
        let metrics = database.store().row_cache().metrics();
        assert!(metrics.reads_without_misses > 0 && metrics.row_merges > 0, "{metrics:?}");
    });
}

#[test]
fn readers_of_wide_partitions_agree() {
    espalier_testing::seeds(20).for_each(|seed| check(seed, wide_table, 3, 12));
}

#[test]
fn readers_of_long_partitions_agree() {
    espalier_testing::seeds(6).for_each(|seed| check(seed, wide_table, 1, 200));
}

#[test]
fn readers_of_small_partitions_agree() {
    espalier_testing::seeds(10).for_each(|seed| check(seed, narrow_table, 20, 1));
}

#[test]
fn readers_of_inexact_clusterings_agree() {
    espalier_testing::seeds(16).for_each(|seed| check(seed, varint_table, 2, 5));
}

/// Runs the histories that the environment selects: `ESPALIER_SEED=12 ESPALIER_SEEDS=1`.
#[test]
#[ignore = "runs as long as the environment says"]
fn races_of_the_configured_seeds_agree() {
    let first = number_from_environment("ESPALIER_SEED", 0);
    for seed in first..first + number_from_environment("ESPALIER_SEEDS", 100) {
        check(seed, wide_table, 3, 12);
    }
}

/// A column is dropped and added again while a flush brings its rows into the cache. The cells from
/// before the drop must not come with them.
#[test]
fn a_flush_caches_no_cells_of_a_column_that_was_dropped_meanwhile() {
    const ROWS: u32 = 12;
    for seed in 0..40 {
        let file_system = FileSystem::simulated(seed);
        run(async {
            let database = open(&file_system, settings(1 << 20)).await.unwrap();
            let definition = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(0xaa)))
                .partition_key("k", CqlType::Blob)
                .regular("v", CqlType::Blob)
                .regular("w", CqlType::Blob);
            create(&database, vec![definition.build()]).await;
            let names: Vec<_> = (0..ROWS).map(|number| format!("p{number}")).collect();
            let before = table(&database, "t");
            for (timestamp, value) in [(1, "old"), (2, "new")] {
                for name in &names {
                    let write = insert(&before, name, None, timestamp, &[("v", value), ("w", "x")]);
                    database.apply(write).await.unwrap();
                }
                if timestamp == 1 {
                    database.flush("ks", None).await.unwrap();
                    for name in &names {
                        assert!(read_partition(&database, &before, name).await.is_some());
                    }
                }
            }
            preempt::force_yields(Some(seed));
            let flushing = database.clone();
            let flush = spawn_local(async move { flushing.flush("ks", None).await });
            for _ in 0..8 * seed {
                preempt::yield_now().await;
            }
            alter_table(&database, "t", |table| {
                table.rebuild().drop_column("v", 20_000_000).build()
            })
            .await;
            alter_table(&database, "t", |table| {
                table.rebuild().regular("v", CqlType::Blob).build()
            })
            .await;
            let after = table(&database, "t");
            for name in &names {
                assert!(read_partition(&database, &after, name).await.is_some());
            }
            flush.await.unwrap();
            preempt::force_yields(None);
            let dropped = after.column("v").unwrap().id;
            for name in &names {
                let key = key(name);
                let mut lookup = RowLookup::new(&after, key.borrowed(), &[] as &[Option<Bytes>]);
                let found = |found: FoundRow<'_>| {
                    let mut has_dropped = false;
                    let look = |column, _| has_dropped |= column == dropped;
                    found.visible_cells(NOW, |_| true, look).unwrap();
                    has_dropped
                };
                let has_dropped = lookup.poll(database.store(), found).known_or(|| false);
                assert_ne!(has_dropped, Some(true), "seed {seed}, {name}");
            }
        });
    }
}
