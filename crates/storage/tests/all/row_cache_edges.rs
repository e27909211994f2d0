//! Range deletions that begin and end at rows: whichever part of a partition is read first, in either direction, the cache has each row
//! and each gap under its own deletion afterwards.

use std::sync::Arc;

use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringSlice, ClusteringSlices, DeletionTime, Direction,
    Mutation, PartitionUpdate, RangeTombstone, schema::TableMetadata,
};
use espalier_runtime::{file::FileSystem, preempt, random::Generator, spawn_local};
use espalier_storage::{Database, ReadCommand, ReadTarget};

use crate::{
    row_cache::{compare, settings},
    support::*,
};

const ROWS: i32 = 5;

fn bound(kind: BoundKind, at: i32) -> ClusteringBound {
    ClusteringBound { kind, values: [Some(int(at))].into() }
}

/// Bounds of a slice that is not empty, at or beside rows.
fn random_slice(random: &mut Generator) -> ClusteringSlice {
    let first = random.below(ROWS as u64) as i32;
    let last = first + random.below((ROWS - first) as u64) as i32;
    let is_wide = last > first;
    let start = match is_wide && random.below(2) == 0 {
        true => BoundKind::ExclusiveStart,
        false => BoundKind::InclusiveStart,
    };
    let end = match is_wide && random.below(2) == 0 {
        true => BoundKind::ExclusiveEnd,
        false => BoundKind::InclusiveEnd,
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

async fn write(database: &Database, table: &Arc<TableMetadata>, random: &mut Generator) {
    let mut update = PartitionUpdate::new(table.id, key("p"));
    for at in 0..ROWS {
        let timestamp = 3 + 3 * random.below(2) as i64;
        update.rows.push(row(table, Some(at), timestamp, &[("v", "value")]));
    }
    for _ in 0..1 + random.below(4) {
        let ClusteringSlice { start, end } = random_slice(random);
        // One of two, so that there is the same one on both sides of the other.
        let deletion = DeletionTime::new(2 + 3 * random.below(2) as i64, NOW);
        update.range_tombstones.push(RangeTombstone { start, end, deletion });
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

#[test]
fn what_reads_add_is_what_the_files_have() {
    // 1683: a reader that had opened the files before others made known what it began with took a row to be deleted.
    for seed in 1400..2000 {
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
                // Together: one finds nothing known when it begins, and finds known what the others have read meanwhile.
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
            }
            // Among what is known now, under whatever is written before it.
            let mut older = PartitionUpdate::new(wide.id, key("p"));
            older.rows.extend((0..ROWS).map(|at| row(&wide, Some(at), 4, &[("w", "older")])));
            database.apply(Mutation { updates: vec![older] }).await.unwrap();
            for direction in [Direction::Forward, Direction::Reverse] {
                let whole = read_of(&wide, ClusteringSlice::all(), direction);
                compare(&database, &whole, 2, &format!("seed {seed}, all")).await;
            }
            preempt::force_yields(None);
        });
    }
}
