//! Tests range deletions that start and end at rows. Whichever part of a partition is read first,
//! in either direction, the cache then has each row and each gap under its own deletion.

use std::sync::Arc;

use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringSlice, ClusteringSlices, DeletionTime, Direction,
    Mutation, PartitionUpdate, RangeTombstone, schema::TableMetadata,
};
use espalier_runtime::{file::FileSystem, preempt, random::Generator, spawn_local};
use espalier_storage::{Node, ReadCommand, ReadTarget};

use crate::{
    row_cache::{compare, settings},
    support::*,
};

const ROWS: i32 = 5;

/// Returns a bound at row `at`. Rows are at every second value.
fn bound(kind: BoundKind, at: i32) -> ClusteringBound {
    ClusteringBound { kind, values: [Some(int(at * 2))].into() }
}

/// Returns a slice that is not empty, with bounds at rows or beside them.
fn random_slice(random: &mut Generator) -> ClusteringSlice {
    let first = random.below(ROWS as u64) as i32;
    let last = first + random.below((ROWS - first) as u64) as i32;
    let is_wide = last > first;
    let start = if is_wide && random.below(2) == 0 {
        BoundKind::ExclusiveStart
    } else {
        BoundKind::InclusiveStart
    };
    let end = if is_wide && random.below(2) == 0 {
        BoundKind::ExclusiveEnd
    } else {
        BoundKind::InclusiveEnd
    };
    ClusteringSlice { start: bound(start, first), end: bound(end, last) }
}

fn read_of(
    table: &Arc<TableMetadata>,
    slice: ClusteringSlice,
    direction: Direction,
) -> ReadCommand {
    let slices = Arc::new(ClusteringSlices { slices: vec![slice] });
    let target = ReadTarget::Partition(key("p"));
    ReadCommand { slices, direction, ..command(table, target) }
}

/// Returns a random range with one of two deletions, so that the same deletion can be on both sides
/// of the other.
fn random_tombstone(random: &mut Generator) -> RangeTombstone {
    let ClusteringSlice { start, end } = random_slice(random);
    RangeTombstone { start, end, deletion: DeletionTime::new(2 + 3 * random.below(2) as i64, NOW) }
}

async fn write(database: &Node, table: &Arc<TableMetadata>, random: &mut Generator) {
    let mut update = PartitionUpdate::new(table.id, key("p"));
    for at in 0..ROWS {
        let timestamp = 3 + 3 * random.below(2) as i64;
        update.rows.push(row(table, Some(at * 2), timestamp, &[("v", "value")]));
    }
    for _ in 0..1 + random.below(4) {
        update.range_tombstones.push(random_tombstone(random));
        if random.below(2) == 0 {
            let updates =
                vec![std::mem::replace(&mut update, PartitionUpdate::new(table.id, key("p")))];
            database.apply(Mutation { updates }).await.unwrap();
            database.flush("ks", None).await.unwrap();
        }
    }
    database.apply(Mutation { updates: vec![update] }).await.unwrap();
    database.flush("ks", None).await.unwrap();
}

/// `TEST_SEED=12 TEST_CASES=10000` runs more histories, from another seed on.
#[test]
fn rows_that_reads_add_to_the_cache_agree_with_the_files() {
    for seed in espalier_testing::seeds(300) {
        let file_system = FileSystem::simulated(seed);
        let mut random = Generator::from_seed(seed);
        run(async {
            preempt::force_yields(Some(seed));
            let database = open(&file_system, settings(1 << 20)).await.unwrap();
            create(&database, vec![keeping_tombstones(wide_table())]).await;
            let wide = table(&database, "wide");
            for step in 0..12 {
                if step % 6 == 0 {
                    write(&database, &wide, &mut random).await;
                }
                if step % 3 == 0 {
                    database.forget_cached_rows().await;
                }
                // The content of files changes beside the readers.
                let mut update = PartitionUpdate::new(wide.id, key("p"));
                update.range_tombstones.push(random_tombstone(&mut random));
                database.apply(Mutation { updates: vec![update] }).await.unwrap();
                let flush = spawn_local({
                    let database = database.clone();
                    async move { database.flush("ks", None).await.unwrap() }
                });
                // Concurrent readers: one finds nothing cached when it starts, and later finds what
                // the others have read.
                let readers: Vec<_> = (0..1 + random.below(3))
                    .map(|_| {
                        let direction = match random.below(2) {
                            0 => Direction::Forward,
                            _ => Direction::Reverse,
                        };
                        let slice = match random.below(3) {
                            0 => ClusteringSlice::all(),
                            _ => random_slice(&mut random),
                        };
                        let part = read_of(&wide, slice, direction);
                        let (database, page) = (database.clone(), 1 + random.below(2) as usize);
                        spawn_local(async move {
                            let context = format!("seed {seed} step {step}");
                            compare(&database, &part, page, &context).await;
                        })
                    })
                    .collect();
                for reader in readers {
                    reader.await;
                }
                flush.await;
                if random.below(2) == 0 {
                    // The row is between other rows or at one of them, and its timestamp is between
                    // those of the two deletions.
                    let mut older = PartitionUpdate::new(wide.id, key("p"));
                    let (at, timestamp) =
                        (random.below(2 * ROWS as u64) as i32 - 2, 3 + random.below(2) as i64);
                    older.rows.push(row(&wide, Some(at), timestamp, &[("w", "older")]));
                    database.apply(Mutation { updates: vec![older] }).await.unwrap();
                    for direction in [Direction::Forward, Direction::Reverse] {
                        let whole = read_of(&wide, ClusteringSlice::all(), direction);
                        compare(&database, &whole, 2, &format!("seed {seed} step {step}, all"))
                            .await;
                    }
                }
            }
            preempt::force_yields(None);
        });
    }
}

/// Rule 17 of docs/cache.md: a row deletion that the files have purged is kept for that row while
/// the row is cached, and for nothing else.
#[test]
fn a_purged_deletion_does_not_spread() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let file_system = FileSystem::simulated(1);
        run(async {
            let database = open(&file_system, settings(1 << 20)).await.unwrap();
            let mut definition = wide_table();
            definition.options.gc_grace_seconds = 0;
            create(&database, vec![definition]).await;
            let wide = table(&database, "wide");
            let mut update = PartitionUpdate::new(wide.id, key("p"));
            update.rows.extend([1, 3].map(|at| row(&wide, Some(at * 2), 20, &[("v", "value")])));
            let (start, end) =
                (bound(BoundKind::InclusiveStart, 3), bound(BoundKind::InclusiveEnd, 3));
            let of_row = ClusteringSlice { start: start.clone(), end: end.clone() };
            let deletion = DeletionTime::new(10, NOW);
            update.range_tombstones.push(RangeTombstone { start, end, deletion });
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
            database.flush("ks", None).await.unwrap();
            database.read(read_of(&wide, of_row, direction)).await.unwrap();
            database.compactions().compact("ks", None, false).await.unwrap();
            for timestamp in [5, 6] {
                // The first read makes the surroundings of the row continuous.
                for at in [2 * 2, 4 * 2] {
                    let mut between = PartitionUpdate::new(wide.id, key("p"));
                    between.rows.push(row(&wide, Some(at), timestamp, &[("v", "between")]));
                    database.apply(Mutation { updates: vec![between] }).await.unwrap();
                }
                for direction in [Direction::Forward, Direction::Reverse] {
                    let all = read_of(&wide, ClusteringSlice::all(), direction);
                    let result = database.read(all).await.unwrap();
                    assert_eq!(result.partitions[0].rows.len(), 4, "{timestamp}");
                }
            }
        });
    }
}
