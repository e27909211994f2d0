//! Tests that the skips of a merge change neither its fragments nor its visible rows, and that they
//! save reads of fragments.

use std::{cell::Cell as Counter, collections::BTreeMap, rc::Rc, sync::Arc};

use crate::support::{Obedience, SkippingStream, empty_row, merge, table};
use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, ClusteringBound, ColumnData, DeletionTime, Direction, Liveness,
    RangeTombstone, RangeTombstoneList, Row, Unfiltered, reconcile::merge_rows,
    schema::TableMetadata,
};
use proptest::prelude::*;

const SOURCES: i64 = 4;

#[derive(Clone, Debug)]
enum Write {
    /// Adjacent rows.
    Rows {
        first: u8,
        count: u8,
        column: usize,
        insert: bool,
        is_tombstone: bool,
    },
    DeleteRows {
        first: u8,
        count: u8,
    },
    DeleteRange {
        start: u8,
        end: u8,
    },
    DeletePartition,
}

fn writes() -> impl Strategy<Value = Write> {
    let run = (0..120u8, prop_oneof![Just(1u8), 2..9u8, 20..120u8]);
    prop_oneof![
        5 => (run.clone(), 0..2usize, any::<bool>(), prop::bool::weighted(0.3)).prop_map(
            |((first, count), column, insert, is_tombstone)|
            Write::Rows { first, count, column, insert, is_tombstone }),
        2 => run.prop_map(|(first, count)| Write::DeleteRows { first, count }),
        3 => (0..240u8, 0..240u8).prop_map(|(start, end)| Write::DeleteRange { start, end }),
        1 => Just(Write::DeletePartition),
    ]
}

/// Generates histories of (write, source, timestamp counted from the oldest of that source, wall
/// clock of a deletion).
fn histories() -> impl Strategy<Value = Vec<(Write, i64, i64, u32)>> {
    let write = (writes(), 0..SOURCES, prop_oneof![3 => 0..6i64, 1 => 0..30i64], 1..4u32);
    prop::collection::vec(write, 0..24)
}

fn bound(at: u8) -> ClusteringBound {
    let kind =
        if at.is_multiple_of(2) { BoundKind::InclusiveStart } else { BoundKind::ExclusiveStart };
    ClusteringBound { kind, values: [Some(Bytes::from(vec![at / 2]))].into() }
}

#[derive(Default)]
struct Part {
    deletion: DeletionTime,
    rows: BTreeMap<u8, Row>,
    ranges: RangeTombstoneList,
}

impl Part {
    fn apply(&mut self, table: &TableMetadata, write: &Write, deletion: DeletionTime) {
        let timestamp = deletion.marked_for_delete_at;
        match *write {
            Write::Rows { first, count, column, insert, is_tombstone } => {
                let id = table.regular_columns()[column].id;
                for at in first..first.saturating_add(count).min(120) {
                    let mut row = empty_row(&[at]);
                    if insert {
                        row.liveness = Liveness::live(timestamp);
                    }
                    row.set_cell(
                        id,
                        if is_tombstone {
                            Cell::tombstone(timestamp, deletion.local_deletion_time)
                        } else {
                            Cell::live(timestamp, Bytes::from(vec![at]))
                        },
                    );
                    self.add(table, at, row);
                }
            }
            Write::DeleteRows { first, count } => {
                for at in first..first.saturating_add(count).min(120) {
                    self.add(table, at, Row { deletion, ..empty_row(&[at]) });
                }
            }
            Write::DeleteRange { start, end } => {
                let tombstone = RangeTombstone { start: bound(start), end: bound(end), deletion };
                self.ranges.add(table.comparator(), &tombstone);
            }
            Write::DeletePartition => self.deletion = self.deletion.max(deletion),
        }
    }

    fn add(&mut self, table: &TableMetadata, at: u8, row: Row) {
        let merged = match self.rows.remove(&at) {
            Some(old) => merge_rows(table, old, row),
            None => row,
        };
        self.rows.insert(at, merged);
    }

    fn stream(
        &self,
        table: &Arc<TableMetadata>,
        direction: Direction,
        obedience: Obedience,
    ) -> SkippingStream {
        let mut fragments: Vec<Unfiltered> =
            self.rows.values().cloned().map(Unfiltered::Row).collect();
        fragments.extend(self.ranges.markers().map(Unfiltered::Marker));
        fragments.sort_by(|a, b| table.comparator().compare(a.position(), b.position()));
        SkippingStream::new(table, direction, self.deletion, fragments, obedience)
    }
}

/// Returns the rows that hold more than tombstones.
fn visible(fragments: Vec<Unfiltered>) -> Vec<Row> {
    let rows = fragments.into_iter().filter_map(|fragment| match fragment {
        Unfiltered::Row(mut row) => {
            row.deletion = DeletionTime::LIVE;
            row.columns.retain(
                |(_, data)| !matches!(data, ColumnData::Simple(cell) if cell.is_tombstone()),
            );
            (!row.is_empty()).then_some(row)
        }
        Unfiltered::Marker(_) => None,
    });
    rows.collect()
}

proptest! {
    #![proptest_config(espalier_testing::properties(1500))]

    #[test]
    fn leaps_change_nothing(history in histories(), seed in any::<u64>()) {
        let table = table();
        let mut parts: Vec<Part> = (0..SOURCES).map(|_| Part::default()).collect();
        for (write, source, above, clock) in &history {
            let deletion = DeletionTime::new(source * 5 + above, *clock);
            parts[*source as usize].apply(&table, write, deletion);
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            let merged = |obedience: &dyn Fn(u64) -> Obedience, is_visible_only: bool| {
                let streams = parts.iter().zip(0u64..)
                    .map(|(part, index)| part.stream(&table, direction, obedience(index)))
                    .collect();
                merge(&table, direction, streams, is_visible_only, usize::MAX)
            };
            let plain = merged(&|_| Obedience::None, false);
            let seen = visible(plain.clone());
            for obedience in [
                &(|_| Obedience::Full) as &dyn Fn(u64) -> Obedience,
                &|index| Obedience::Moody(seed.wrapping_add(index)),
                &|index| if (seed >> index) & 1 == 0 { Obedience::Full } else { Obedience::None },
            ] {
                prop_assert_eq!(&merged(obedience, false), &plain);
                let fragments = merged(obedience, true);
                prop_assert!(fragments.iter().all(|f| f.clustering().is_some()));
                prop_assert_eq!(&visible(fragments), &seen);
            }
            prop_assert_eq!(&visible(merged(&|_| Obedience::None, true)), &seen);
        }
    }
}

const MANY: u32 = 100_000;

fn live_rows(table: &TableMetadata, places: impl Iterator<Item = u32>) -> Vec<Unfiltered> {
    let id = table.regular_columns()[0].id;
    let rows = places.map(|at| {
        let mut row = Row { liveness: Liveness::live(10), ..empty_row(&at.to_be_bytes()) };
        row.set_cell(id, Cell::live(10, Bytes::from_static(b"v")));
        Unfiltered::Row(row)
    });
    rows.collect()
}

fn dead_rows(places: impl Iterator<Item = u32>) -> Vec<Unfiltered> {
    let deletion = DeletionTime::new(20, 1);
    places.map(|at| Unfiltered::Row(Row { deletion, ..empty_row(&at.to_be_bytes()) })).collect()
}

fn range(start: u32, end: u32) -> Vec<Unfiltered> {
    let bound = |at: u32, kind| ClusteringBound {
        kind,
        values: [Some(Bytes::copy_from_slice(&at.to_be_bytes()))].into(),
    };
    let tombstone = RangeTombstone {
        start: bound(start, BoundKind::InclusiveStart),
        end: bound(end, BoundKind::ExclusiveEnd),
        deletion: DeletionTime::new(20, 1),
    };
    let mut list = RangeTombstoneList::default();
    list.add(table().comparator(), &tombstone);
    list.markers().map(Unfiltered::Marker).collect()
}

/// Merges fragments and returns (rows found, fragments read from all sources).
fn read(
    sources: Vec<Vec<Unfiltered>>,
    direction: Direction,
    is_visible_only: bool,
    limit: usize,
) -> (usize, usize) {
    let table = table();
    let mut counters: Vec<Rc<Counter<usize>>> = Vec::new();
    let streams = sources.into_iter().map(|fragments| {
        let live = DeletionTime::LIVE;
        let stream = SkippingStream::new(&table, direction, live, fragments, Obedience::Full);
        counters.push(stream.given.clone());
        stream
    });
    let streams = streams.collect();
    let merged = merge(&table, direction, streams, is_visible_only, limit);
    let rows = merged.iter().filter(|fragment| fragment.clustering().is_some()).count();
    (rows, counters.iter().map(|counter| counter.get()).sum())
}

#[test]
fn leaps_skip_rows_under_one_range_deletion() {
    let table = table();
    for direction in [Direction::Forward, Direction::Reverse] {
        for is_visible_only in [false, true] {
            let rows = live_rows(&table, 0..MANY);
            // In reverse, too, the ten rows that are left come last.
            let deleted = match direction {
                Direction::Forward => range(0, MANY - 10),
                Direction::Reverse => range(10, MANY),
            };
            let (rows, read) = read(vec![rows, deleted], direction, is_visible_only, 10);
            assert_eq!(rows, 10);
            assert!(read < 40, "{read} fragments were read");
        }
    }
}

/// The source that deletes the range also has newer rows in that range.
#[test]
fn leaps_skip_covered_rows_between_newer_live_rows() {
    let table = table();
    let mut newer = range(0, MANY);
    let mut rows = dead_rows((500..MANY).step_by(1000));
    for row in &mut rows {
        if let Unfiltered::Row(row) = row {
            row.deletion = DeletionTime::LIVE;
            row.liveness = Liveness::live(30);
        }
    }
    newer.splice(1..1, rows);
    for direction in [Direction::Forward, Direction::Reverse] {
        let sources = vec![live_rows(&table, 0..MANY), newer.clone()];
        let (rows, read) = read(sources, direction, false, usize::MAX);
        assert_eq!(rows, 100);
        assert!(read < 100 * 20 + 50, "{read} fragments were read");
    }
}

#[test]
fn leaps_skip_runs_of_deleted_rows() {
    let table = table();
    for direction in [Direction::Forward, Direction::Reverse] {
        let (dead, live) = match direction {
            Direction::Forward => (0..MANY, MANY..MANY + 10),
            Direction::Reverse => (10..MANY, 0..10),
        };
        // A single source.
        let mut one = dead_rows(dead.clone());
        one.extend(live_rows(&table, live.clone()));
        one.sort_by(|a, b| table.comparator().compare(a.position(), b.position()));
        let (rows, count) = read(vec![one.clone()], direction, true, 10);
        assert_eq!(rows, 10);
        assert!(count < 40, "{count} fragments were read");

        // Each of two sources has every second dead row. A third source has the live rows, and some
        // rows that the first two sources delete.
        let (even, odd): (Vec<_>, Vec<_>) = dead.partition(|at| at % 2 == 0);
        let mut older: Vec<u32> = (0..MANY).step_by(10_000).chain(live).collect();
        older.sort_unstable();
        older.dedup();
        let older = live_rows(&table, older.into_iter());
        let sources = vec![dead_rows(even.into_iter()), dead_rows(odd.into_iter()), older];
        let (rows, count) = read(sources.clone(), direction, true, usize::MAX);
        assert_eq!(rows, 10);
        assert!(count < 12 * 2 * 20, "{count} fragments were read");

        // A merge that is not limited to visible rows returns all dead rows.
        let (rows, _) = read(sources, direction, false, usize::MAX);
        assert!(rows >= MANY as usize);
    }
}

/// The merge does not read a source if a partition deletion covers all its data.
#[test]
fn covered_sources_are_not_opened() {
    let table = table();
    let deletion = DeletionTime::new(20, 1);
    for direction in [Direction::Forward, Direction::Reverse] {
        let rows = live_rows(&table, 0..1000);
        let stream = |deletion, fragments| {
            SkippingStream::new(&table, direction, deletion, fragments, Obedience::Full)
        };
        let covered = stream(DeletionTime::LIVE, rows);
        let given = covered.given.clone();
        let streams = vec![stream(deletion, Vec::new()), covered];
        assert!(merge(&table, direction, streams, false, usize::MAX).is_empty());
        assert_eq!(given.get(), 0);
    }
}
