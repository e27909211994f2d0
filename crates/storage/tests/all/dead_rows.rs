//! Tests runs of dead rows. Whatever is deleted and written again, a read must return the right
//! rows, and must skip the dead rows.

use std::collections::BTreeMap;

use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, ClusteringSlice, ClusteringSlices, DeletionTime,
    Direction, Mutation, PartitionUpdate, RangeTombstone, Row, schema::TableMetadata,
};
use espalier_runtime::{file::FileSystem, random::Generator};
use espalier_storage::{Node, ReadTarget};

use crate::support::*;

fn bound(clustering: i32, kind: BoundKind) -> ClusteringBound {
    ClusteringBound { kind, values: [Some(int(clustering))].into() }
}

fn deleted(clustering: i32, timestamp: i64) -> Row {
    let mut row = Row::empty(Clustering::new([int(clustering)]));
    row.deletion = DeletionTime::new(timestamp, NOW);
    row
}

fn range(first: i32, last: i32, timestamp: i64) -> RangeTombstone {
    RangeTombstone {
        start: bound(first, BoundKind::InclusiveStart),
        end: bound(last, BoundKind::InclusiveEnd),
        deletion: DeletionTime::new(timestamp, NOW),
    }
}

/// The newest write and the newest deletion of each row.
#[derive(Default)]
struct Model {
    written: BTreeMap<i32, i64>,
    deleted: BTreeMap<i32, i64>,
}

impl Model {
    fn write(&mut self, row: i32, timestamp: i64) {
        let newest = self.written.entry(row).or_insert(timestamp);
        *newest = timestamp.max(*newest);
    }

    fn delete(&mut self, rows: std::ops::Range<i32>, timestamp: i64) {
        for row in rows {
            let newest = self.deleted.entry(row).or_insert(timestamp);
            *newest = timestamp.max(*newest);
        }
    }

    fn visible(&self) -> impl DoubleEndedIterator<Item = (i32, i64)> {
        let is_visible = |row: &i32, at: i64| self.deleted.get(row).is_none_or(|gone| *gone < at);
        self.written
            .iter()
            .map(|(row, at)| (*row, *at))
            .filter(move |(row, at)| is_visible(row, *at))
    }
}

/// Number of rows in the test, small enough that runs touch.
const ROWS: u64 = 90;

async fn change(
    database: &Node,
    table: &TableMetadata,
    model: &mut Model,
    random: &mut Generator,
    now: i64,
) {
    // Mostly ascending timestamps, sometimes an older one.
    let timestamp = if random.below(5) == 0 { now - random.below(200) as i64 } else { now };
    let first = random.below(ROWS) as i32;
    let mut update = PartitionUpdate::new(table.id, key("p"));
    match random.below(40) {
        0 => {
            update.deletion = DeletionTime::new(timestamp, NOW);
            model.delete(0..ROWS as i32, timestamp);
        }
        1..3 => {
            let last = first + random.below(40) as i32;
            update.range_tombstones.push(range(first, last, timestamp));
            model.delete(first..last + 1, timestamp);
        }
        3..6 => {
            // Deletes rows in order, as a consumer of a queue does.
            for gone in first..(first + 20).min(ROWS as i32) {
                update.rows.push(deleted(gone, timestamp));
            }
            model.delete(first..(first + 20).min(ROWS as i32), timestamp);
        }
        6..22 => {
            update.rows.push(deleted(first, timestamp));
            model.delete(first..first + 1, timestamp);
        }
        _ => {
            let value = timestamp.to_string();
            update.rows.push(row(table, Some(first), timestamp, &[("v", &value)]));
            model.write(first, timestamp);
        }
    }
    database.apply(Mutation { updates: vec![update] }).await.unwrap();
}

#[test]
pub fn reads_among_deleted_and_rewritten_rows_agree_with_a_model() {
    for seed in espalier_testing::seeds(12) {
        println!("seed {seed}");
        let file_system = FileSystem::simulated(seed);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![keeping_tombstones(wide_table())]).await;
            let wide = table(&database, "wide");
            let (mut model, mut random) = (Model::default(), Generator::from_seed(seed));
            for step in 0..1500 {
                change(&database, &wide, &mut model, &mut random, 1000 + step).await;
                if random.below(300) == 0 {
                    database.flush("ks", None).await.unwrap();
                }
                let (low, high) = match random.below(3) {
                    0 => (0, ROWS as i32),
                    _ => (random.below(ROWS) as i32, random.below(ROWS) as i32),
                };
                let limit = 1 + random.below(20) as usize;
                let mut wanted: Vec<_> =
                    model.visible().filter(|(row, _)| (low..=high).contains(row)).collect();
                let mut command = command(&wide, ReadTarget::Partition(key("p")));
                if random.below(2) == 0 {
                    command.direction = Direction::Reverse;
                    wanted.reverse();
                }
                wanted.truncate(limit);
                command.limits.rows = limit;
                let slice = ClusteringSlice {
                    start: bound(low, BoundKind::InclusiveStart),
                    end: bound(high, BoundKind::InclusiveEnd),
                };
                let slices = if low <= high { vec![slice] } else { vec![] };
                command.slices = ClusteringSlices { slices }.into();
                let result = database.read(command).await.unwrap();
                let rows = result.partitions.iter().flat_map(|partition| &partition.rows);
                let found: Vec<_> = rows
                    .map(|row| {
                        let bytes = row.clustering.values[0].as_ref().unwrap();
                        let number = i32::from_be_bytes(bytes[..].try_into().unwrap());
                        (number, text(&wide, row, "v").unwrap().parse::<i64>().unwrap())
                    })
                    .collect();
                assert_eq!(found, wanted, "seed {seed}, step {step}, rows {low} to {high}");
            }
        });
    }
}

/// Number of rows that are deleted before the row that a read looks for.
const GONE: i32 = 20_000;

/// Maximum number of dead fragments that a read may drop before the first visible row. Arbitrary; a
/// read that does not seek drops a hundred times as many.
const MAX_DROPPED: u64 = GONE as u64 / 100;

/// Deletes rows with `delete`. Returns the number of dead fragments that the first read of the rows
/// behind them drops.
async fn first_behind(delete: impl AsyncFn(&Node, &TableMetadata)) -> u64 {
    let file_system = FileSystem::simulated(1);
    let database = open(&file_system, configuration()).await.unwrap();
    create(&database, vec![keeping_tombstones(wide_table())]).await;
    let wide = table(&database, "wide");
    for first in (0..=GONE).step_by(1000) {
        let mut update = PartitionUpdate::new(wide.id, key("p"));
        let last = (first + 1000).min(GONE + 10);
        update.rows.extend((first..last).map(|number| row(&wide, Some(number), 1, &[("v", "x")])));
        database.apply(Mutation { updates: vec![update] }).await.unwrap();
    }
    delete(&database, &wide).await;
    let mut command = command(&wide, ReadTarget::Partition(key("p")));
    command.limits.rows = 10;
    let result = database.read(command).await.unwrap();
    let rows = &result.partitions[0].rows;
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[0].clustering, Clustering::new([int(GONE)]));
    result.dropped
}

#[test]
pub fn a_read_seeks_past_deleted_rows() {
    run(async {
        let mut shuffled: Vec<i32> = (0..GONE).collect();
        let mut random = Generator::from_seed(7);
        for index in (1..shuffled.len()).rev() {
            shuffled.swap(index, random.below(index as u64 + 1) as usize);
        }
        let orders = [(0..GONE).collect(), (0..GONE).rev().collect(), shuffled];
        for order in orders {
            let dropped = first_behind(async |database, table| {
                for chunk in order.chunks(1000) {
                    let mut update = PartitionUpdate::new(table.id, key("p"));
                    update.rows.extend(chunk.iter().map(|row| deleted(*row, 2)));
                    database.apply(Mutation { updates: vec![update] }).await.unwrap();
                }
            })
            .await;
            assert!(dropped <= MAX_DROPPED, "{dropped}");
        }
    });
}

#[test]
pub fn a_read_seeks_past_deleted_ranges_and_partitions() {
    run(async {
        let dropped = first_behind(async |database, table| {
            let mut update = PartitionUpdate::new(table.id, key("p"));
            update.range_tombstones.push(range(0, GONE - 1, 2));
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
        })
        .await;
        assert!(dropped <= MAX_DROPPED, "{dropped}");
        let dropped = first_behind(async |database, table| {
            let mut update = PartitionUpdate::new(table.id, key("p"));
            update.deletion = DeletionTime::new(2, NOW);
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
            let mut update = PartitionUpdate::new(table.id, key("p"));
            let rows = (0..10).map(|number| row(table, Some(GONE + number), 3, &[("v", "y")]));
            update.rows.extend(rows);
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
        })
        .await;
        assert!(dropped <= MAX_DROPPED, "{dropped}");
    });
}
