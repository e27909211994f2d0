//! Reads skip rows that deletions cover: they touch few pages, and return the content of a plain
//! model.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, ClusteringSlice, ClusteringSlices, DeletionTime,
    Direction, KeyRange, Mutation, PartitionUpdate, RangeTombstone, Row, schema::TableMetadata,
};
use espalier_runtime::{file::FileSystem, random::Generator};
use espalier_storage::{
    Node, ReadCommand, ReadLimits, ReadPosition, ReadTarget, StorageConfiguration,
};

use crate::support::*;

const ROWS: i32 = 50_000;

fn with_small_blocks() -> StorageConfiguration {
    let mut configuration = configuration();
    configuration.sstables.column_index_bytes = Some(4096);
    configuration
}

async fn insert_rows(
    database: &Node,
    table: &Arc<TableMetadata>,
    rows: std::ops::Range<i32>,
    timestamp: i64,
) {
    let rows: Vec<i32> = rows.collect();
    for some in rows.chunks(1000) {
        let mut update = PartitionUpdate::new(table.id, key("a"));
        let rows = some.iter().map(|at| row(table, Some(*at), timestamp, &[("v", "some value")]));
        update.rows.extend(rows);
        database.apply(Mutation { updates: vec![update] }).await.unwrap();
    }
}

fn bound(kind: BoundKind, at: i32) -> ClusteringBound {
    ClusteringBound { kind, values: [Some(int(at))].into() }
}

/// Deletes `first..end`.
async fn delete_range(
    database: &Node,
    table: &Arc<TableMetadata>,
    first: i32,
    end: i32,
    timestamp: i64,
) {
    let mut update = PartitionUpdate::new(table.id, key("a"));
    update.range_tombstones.push(RangeTombstone {
        start: bound(BoundKind::InclusiveStart, first),
        end: bound(BoundKind::ExclusiveEnd, end),
        deletion: DeletionTime::new(timestamp, NOW),
    });
    database.apply(Mutation { updates: vec![update] }).await.unwrap();
}

fn limited(
    table: &Arc<TableMetadata>,
    direction: Direction,
    rows: usize,
    resume: Option<ReadPosition>,
) -> ReadCommand {
    let limits = ReadLimits { rows, ..ReadLimits::NONE };
    let target = ReadTarget::Partition(key("a"));
    ReadCommand { direction, limits, resume, ..command(table, target) }
}

fn clusterings(rows: &[Row]) -> Vec<i32> {
    let values = rows.iter().map(|row| row.clustering.values[0].as_deref().unwrap());
    values.map(|value| i32::from_be_bytes(*value.first_chunk().unwrap())).collect()
}

/// Returns the clusterings of the rows found, and the number of pages and chunks that the read
/// looked up.
async fn find(database: &Node, command: ReadCommand) -> (Vec<i32>, u64) {
    let looked = || {
        let metrics = database.store().metrics();
        metrics.page_cache.hits + metrics.page_cache.misses
    };
    let before = looked();
    let result = database.read(command).await.unwrap();
    let rows = result.partitions.iter().flat_map(|partition| clusterings(&partition.rows));
    (rows.collect(), looked() - before)
}

#[test]
pub fn a_range_deletion_over_many_rows_is_not_walked() {
    run(async {
        let file_system = FileSystem::simulated(1);
        let database = open(&file_system, with_small_blocks()).await.unwrap();
        create(&database, vec![keeping_tombstones(wide_table())]).await;
        let wide = table(&database, "wide");
        insert_rows(&database, &wide, 0..ROWS, 10).await;
        database.flush("ks", None).await.unwrap();
        let (rows, pages) =
            find(&database, limited(&wide, Direction::Forward, 100_000, None)).await;
        assert_eq!(rows.len(), ROWS as usize);
        assert!(pages > 100, "only {pages} pages hold all rows: nothing can be skipped");

        // The deletion is in the memtable first, and then in another SSTable. Ten rows are left at
        // each end.
        delete_range(&database, &wide, 10, ROWS - 10, 20).await;
        for is_flushed in [false, true] {
            if is_flushed {
                database.flush("ks", None).await.unwrap();
                assert_eq!(database.store().metrics().sstables, 2);
            }
            let last: Vec<i32> = (ROWS - 10..ROWS).collect();
            for (direction, first) in [(Direction::Forward, 9), (Direction::Reverse, ROWS - 10)] {
                let expected: Vec<i32> = match direction {
                    Direction::Forward => (0..10).chain(last.iter().copied().take(1)).collect(),
                    Direction::Reverse => last.iter().rev().copied().chain([9]).collect(),
                };
                let (rows, pages) = find(&database, limited(&wide, direction, 11, None)).await;
                assert_eq!(rows, expected);
                assert!(pages < 40, "{pages} pages, {direction:?}");

                // The read resumes after a page that ended before the deletion, or in the middle of
                // the deletion.
                for at in [first, ROWS / 2] {
                    let resume = Some(ReadPosition {
                        key: key("a"),
                        clustering: Some(Clustering::new([int(at)])),
                        rows_of_partition: 10,
                    });
                    let (rows, pages) = find(&database, limited(&wide, direction, 1, resume)).await;
                    assert_eq!(rows, expected[10..]);
                    assert!(pages < 40, "{pages} pages, {direction:?} from {at}");
                }

                // A slice with five rows on each side of the deletion.
                let middle = ClusteringSlice {
                    start: bound(BoundKind::InclusiveStart, 5),
                    end: bound(BoundKind::ExclusiveEnd, ROWS - 5),
                };
                let slices = Arc::new(ClusteringSlices { slices: vec![middle] });
                let whole = ReadCommand { slices, ..limited(&wide, direction, 11, None) };
                let (mut rows, pages) = find(&database, whole).await;
                rows.sort_unstable();
                assert_eq!(rows, (5..10).chain(ROWS - 10..ROWS - 5).collect::<Vec<_>>());
                assert!(pages < 40, "{pages} pages, {direction:?}");
            }
        }
    });
}

/// A deleted row, by itself or in a range, is not looked up in older SSTables.
#[test]
fn a_deleted_row_is_not_looked_for_in_older_sstables() {
    run(async {
        let database = open(&FileSystem::simulated(1), configuration()).await.unwrap();
        create(&database, vec![keeping_tombstones(wide_table())]).await;
        let wide = table(&database, "wide");
        insert_rows(&database, &wide, 0..100, 10).await;
        database.flush("ks", None).await.unwrap();
        delete_range(&database, &wide, 10, 20, 20).await;
        let mut update = PartitionUpdate::new(wide.id, key("a"));
        let deletion = DeletionTime::new(20, NOW);
        update.rows.push(Row { deletion, ..Row::empty(Clustering::new([int(30)])) });
        database.apply(Mutation { updates: vec![update] }).await.unwrap();
        let only_v = [wide.column("v").unwrap().id];
        for (at, is_deleted) in [(5, false), (15, true), (30, true), (31, false)] {
            let row = ClusteringSlice::prefix([Some(int(at))].into());
            let command = ReadCommand {
                slices: Arc::new(ClusteringSlices { slices: vec![row] }),
                columns: espalier_storage::ColumnSelection::Only(only_v.into()),
                ..limited(&wide, Direction::Forward, 10, None)
            };
            let (rows, pages) = find(&database, command).await;
            assert_eq!(rows.is_empty(), is_deleted);
            assert_eq!(pages == 0, is_deleted, "{pages} pages for row {at}");
        }
    });
}

/// Timestamps of the visible rows, by clustering.
type Model = BTreeMap<i32, i64>;

async fn compare(
    database: &Node,
    table: &Arc<TableMetadata>,
    model: &Model,
    random: &mut Generator,
) {
    let mut below = |bound: i32| random.below(bound as u64) as i32;
    for direction in [Direction::Forward, Direction::Reverse] {
        let ordered = |rows: Vec<i32>| match direction {
            Direction::Forward => rows,
            Direction::Reverse => rows.into_iter().rev().collect(),
        };
        let all = ordered(model.keys().copied().collect());
        let (rows, _) = find(database, limited(table, direction, usize::MAX, None)).await;
        assert_eq!(rows, all);
        // In pages.
        let (mut paged, mut resume) = (Vec::new(), None);
        let page = 1 + below(50) as usize;
        loop {
            let command = limited(table, direction, page, resume);
            let result = database.read(command).await.unwrap();
            paged.extend(result.partitions.iter().flat_map(|p| clusterings(&p.rows)));
            resume = result.next;
            if resume.is_none() {
                break;
            }
        }
        assert_eq!(paged, all);
        // One or two slices.
        let at = [below(400), below(400), below(400), below(400)];
        let slice = |first, last| ClusteringSlice {
            start: bound(BoundKind::ExclusiveStart, first),
            end: bound(BoundKind::InclusiveEnd, last),
        };
        let slices = vec![slice(at[0], at[1]), slice(at[2], at[3])];
        let inside =
            |row: &&i32| (at[0] < **row && **row <= at[1]) || (at[2] < **row && **row <= at[3]);
        let expected = ordered(model.keys().filter(inside).copied().collect());
        let slices = Arc::new(ClusteringSlices::normalise(slices, table.comparator()));
        let command = ReadCommand { slices, ..limited(table, direction, usize::MAX, None) };
        if !command.slices.slices.is_empty() {
            assert_eq!(find(database, command.clone()).await.0, expected);
            let target = ReadTarget::Range(KeyRange::full());
            assert_eq!(find(database, ReadCommand { target, ..command }).await.0, expected);
        }
    }
}

/// Writes and deletes runs of rows, sometimes with older timestamps, in memtables and SSTables.
#[test]
pub fn reads_over_covered_rows_agree_with_a_model() {
    for seed in espalier_testing::seeds(12) {
        let file_system = FileSystem::simulated(seed);
        run(async {
            let mut configuration = with_small_blocks();
            configuration.sstables.column_index_bytes = Some(512);
            let database = open(&file_system, configuration).await.unwrap();
            create(&database, vec![keeping_tombstones(wide_table())]).await;
            let wide = table(&database, "wide");
            let mut random = Generator::from_seed(seed);
            let mut model = Model::new();
            // The timestamp up to which each clustering is deleted.
            let mut deleted: BTreeMap<i32, i64> = BTreeMap::new();
            for step in 0..40i64 {
                let below = |random: &mut Generator, bound| random.below(bound) as i32;
                let first = below(&mut random, 400);
                let width = [1, 20, 100, 400][below(&mut random, 4) as usize];
                let end = (first + 1 + below(&mut random, width)).min(400);
                let timestamp = match random.below(4) {
                    0 => 1 + i64::from(below(&mut random, 40)),
                    _ => 1 + step,
                };
                match random.below(10) {
                    0..4 => {
                        insert_rows(&database, &wide, first..end, timestamp).await;
                        for at in first..end {
                            let newest = model.get(&at).copied().unwrap_or(0).max(timestamp);
                            if deleted.get(&at).is_none_or(|deleted| *deleted < newest) {
                                model.insert(at, newest);
                            }
                        }
                    }
                    kind @ 4..8 => {
                        match kind {
                            4..6 => delete_range(&database, &wide, first, end, timestamp).await,
                            _ => {
                                let mut update = PartitionUpdate::new(wide.id, key("a"));
                                update.rows.extend((first..end).map(|at| Row {
                                    deletion: DeletionTime::new(timestamp, NOW),
                                    ..Row::empty(Clustering::new([int(at)]))
                                }));
                                let mutation = Mutation { updates: vec![update] };
                                database.apply(mutation).await.unwrap();
                            }
                        }
                        for at in first..end {
                            let newest = deleted.entry(at).or_insert(timestamp);
                            *newest = timestamp.max(*newest);
                            if model.get(&at).is_some_and(|row| *row <= *newest) {
                                model.remove(&at);
                            }
                        }
                    }
                    _ => database.flush("ks", None).await.unwrap(),
                }
                compare(&database, &wide, &model, &mut random).await;
            }
        });
    }
}
