//! Tests the merge of streams. Its result must not depend on the distribution of the writes over
//! the sources, nor on the direction of the read.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnData, DecoratedKey, DeletionTime,
    Direction, Liveness, PartitionHeader, RangeTombstone, RangeTombstoneList, Row, Unfiltered,
    UnfilteredStream,
    reconcile::{MergedPartition, apply_deletion, merge_rows},
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_types::CqlType;
use proptest::prelude::*;

use crate::support::{Source, run, table};

fn bound(at: u8) -> ClusteringBound {
    let kind =
        if at.is_multiple_of(2) { BoundKind::InclusiveStart } else { BoundKind::ExclusiveStart };
    ClusteringBound { kind, values: [Some(Bytes::from(vec![at / 2]))].into() }
}

#[derive(Clone, Debug)]
enum Write {
    Row { clustering: u8, timestamp: i64, column: u8, value: u8, insert: bool },
    DeleteRow { clustering: u8, timestamp: i64 },
    DeleteRange { start: u8, end: u8, timestamp: i64 },
    DeletePartition { timestamp: i64 },
}

fn writes() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => (0..6u8, 0..9i64, 0..2u8, 0..3u8, any::<bool>()).prop_map(|(clustering, timestamp, column, value, insert)|
            Write::Row { clustering, timestamp, column, value, insert }),
        1 => (0..6u8, 0..9i64).prop_map(|(clustering, timestamp)| Write::DeleteRow { clustering, timestamp }),
        2 => (0..12u8, 0..12u8, 0..9i64).prop_map(|(start, end, timestamp)| Write::DeleteRange { start, end, timestamp }),
        1 => (0..4i64).prop_map(|timestamp| Write::DeletePartition { timestamp }),
    ]
}

/// A small partition that applies writes by the simplest rules.
#[derive(Default)]
struct Model {
    deletion: DeletionTime,
    rows: std::collections::BTreeMap<u8, Row>,
    ranges: RangeTombstoneList,
}

impl Model {
    fn apply(&mut self, table: &TableMetadata, write: &Write) {
        let empty = |clustering: u8| Row::empty(Clustering::new([Bytes::from(vec![clustering])]));
        let row = match *write {
            Write::Row { clustering, timestamp, column, value, insert } => {
                let id = table.regular_columns()[column as usize].id;
                let mut row = empty(clustering);
                if insert {
                    row.liveness = Liveness::live(timestamp);
                }
                row.set_cell(id, Cell::live(timestamp, Bytes::from(vec![value])));
                row
            }
            Write::DeleteRow { clustering, timestamp } => {
                Row { deletion: DeletionTime::new(timestamp, 1), ..empty(clustering) }
            }
            Write::DeleteRange { start, end, timestamp } => {
                let deletion = DeletionTime::new(timestamp, 1);
                let tombstone = RangeTombstone { start: bound(start), end: bound(end), deletion };
                self.ranges.add(table.comparator(), &tombstone);
                return;
            }
            Write::DeletePartition { timestamp } => {
                self.deletion = self.deletion.max(DeletionTime::new(timestamp, 1));
                return;
            }
        };
        let key = row.clustering.values[0].as_ref().unwrap()[0];
        let merged = match self.rows.remove(&key) {
            Some(old) => merge_rows(table, old, row),
            None => row,
        };
        self.rows.insert(key, merged);
    }

    /// Returns the fragments as a source streams them: unpurged, with markers between rows.
    fn stream(&self, table: &TableMetadata, direction: Direction) -> Source {
        let mut fragments: Vec<Unfiltered> =
            self.rows.values().cloned().map(Unfiltered::Row).collect();
        fragments.extend(self.ranges.markers().map(Unfiltered::Marker));
        fragments.sort_by(|a, b| table.comparator().compare(a.position(), b.position()));
        if direction == Direction::Reverse {
            fragments.reverse();
        }
        let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
        let header = PartitionHeader { key, deletion: self.deletion, static_row: None };
        Source { header, fragments: fragments.into_iter() }
    }

    /// Returns the rows that a reader sees, with the cells that survive.
    fn live_rows(&self, table: &TableMetadata) -> Vec<Row> {
        let rows = self.rows.values().cloned().filter_map(|mut row| {
            let range = self.ranges.deletion_at(table.comparator(), row.clustering.position());
            apply_deletion(&mut row, self.deletion.max(range)).then_some(row)
        });
        rows.collect()
    }
}

fn collect(
    table: &Arc<TableMetadata>,
    direction: Direction,
    sources: Vec<Source>,
) -> Vec<Unfiltered> {
    run(async {
        let mut merged =
            MergedPartition::new(table.clone(), direction, sources).await.unwrap().unwrap();
        let mut all = Vec::new();
        while let Some(fragment) = merged.next().await.unwrap() {
            all.push(fragment);
        }
        all
    })
}

proptest! {
    #[test]
    fn writes_spread_over_sources_merge_to_the_model(writes in prop::collection::vec((writes(), 0..3usize), 0..30)) {
        let table = table();
        let mut whole = Model::default();
        let mut parts: Vec<Model> = (0..3).map(|_| Model::default()).collect();
        for (write, source) in &writes {
            whole.apply(&table, write);
            parts[*source].apply(&table, write);
        }
        let forward = collect(&table, Direction::Forward, parts.iter().map(|p| p.stream(&table, Direction::Forward)).collect());
        let mut reverse = collect(&table, Direction::Reverse, parts.iter().map(|p| p.stream(&table, Direction::Reverse)).collect());
        reverse.reverse();
        prop_assert_eq!(&forward, &reverse);
        let rows: Vec<Row> = forward.iter().filter_map(|f| match f { Unfiltered::Row(row) => Some(row.clone()), _ => None }).collect();
        prop_assert_eq!(rows, whole.live_rows(&table));
        // Markers pair up, and none repeats a deletion that the partition deletion covers.
        let mut open = DeletionTime::LIVE;
        for fragment in &forward {
            if let Unfiltered::Marker(marker) = fragment {
                prop_assert_eq!(marker.before, open);
                prop_assert_ne!(marker.before, marker.after);
                prop_assert!(marker.after.is_live() || marker.after.supersedes(&whole.deletion));
                open = marker.after;
            }
        }
        prop_assert!(open.is_live());
    }
}

#[test]
fn kind_expiry_and_value_decide_between_equal_timestamps() {
    let table = table();
    let id = table.regular_columns()[0].id;
    let row = |cell: Cell| Row {
        columns: vec![(id, ColumnData::Simple(cell))],
        ..Row::empty(Clustering::empty())
    };
    let wins = |a: Cell, b: Cell| {
        for (l, r) in [(&a, &b), (&b, &a)] {
            let merged = merge_rows(&table, row(l.clone()), row(r.clone()));
            assert_eq!(merged, row(a.clone()));
        }
    };
    wins(Cell::live(5, "b".into()), Cell::live(5, "a".into()));
    wins(Cell::live(5, "ab".into()), Cell::live(5, "a".into()));
    wins(Cell::tombstone(5, 1), Cell::live(5, "z".into()));
    wins(Cell::tombstone(5, 1), Cell::expiring(5, 9, 99, "z".into()));
    wins(Cell::expiring(5, 9, 99, "a".into()), Cell::live(5, "z".into()));
    wins(Cell::expiring(5, 9, 100, "a".into()), Cell::expiring(5, 9, 99, "z".into()));
    wins(Cell::live(6, "a".into()), Cell::tombstone(5, 1));
}

/// A deletion is newer than the share of one node and older than the share of another node. The
/// deleted share must not come back.
#[test]
fn deleted_shares_of_counters_do_not_come_back() {
    use espalier_mutation::counter::{CounterShard, build, total};
    let id = TableId(uuid::Uuid::from_u128(2));
    let table = Arc::new(
        TableBuilder::new("ks", "counts", id)
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Blob, false)
            .static_column("s", CqlType::Counter)
            .regular("n", CqlType::Counter)
            .build(),
    );
    let key = DecoratedKey::new(Bytes::from_static(b"k"));
    let deletion = DeletionTime::new(20, 0);
    let counted = |clustering: Clustering, column: &str, node: u8, timestamp: i64| {
        let mut row = Row::empty(clustering);
        let share = CounterShard { id: [node; 16], clock: timestamp, count: timestamp };
        let cell = Cell::live(timestamp, build(&[share]));
        row.set_cell(table.column(column).unwrap().id, cell);
        row
    };
    let one = || Clustering::new([Bytes::from_static(b"a")]);
    for direction in [Direction::Forward, Direction::Reverse] {
        // The partition deletion in the header, the row's own deletion, and a range deletion.
        for kind in 0..3 {
            let header = |node: u8, timestamp: i64| PartitionHeader {
                key: key.clone(),
                deletion: DeletionTime::LIVE,
                static_row: Some(counted(Clustering::empty(), "s", node, timestamp)),
            };
            let source = |header, fragments: Vec<Unfiltered>| Source {
                header,
                fragments: fragments.into_iter(),
            };
            let row = |node, timestamp| Unfiltered::Row(counted(one(), "n", node, timestamp));
            let mut of_deletion = PartitionHeader { static_row: None, ..header(1, 0) };
            let mut fragments = Vec::new();
            match kind {
                0 => of_deletion.deletion = deletion,
                1 => fragments.push(Unfiltered::Row(Row { deletion, ..Row::empty(one()) })),
                _ => {
                    let mut list = RangeTombstoneList::default();
                    let (start, end) = (bound(0), bound(0xff));
                    let range = RangeTombstone { start, end, deletion };
                    list.add(table.comparator(), &range);
                    fragments.extend(list.markers().map(Unfiltered::Marker));
                    if direction == Direction::Reverse {
                        fragments.reverse();
                    }
                }
            }
            let streams = vec![
                source(header(1, 10), vec![row(1, 10)]),
                source(header(2, 30), vec![row(2, 30)]),
                source(of_deletion, fragments),
            ];
            run(async {
                let merged = MergedPartition::new(table.clone(), direction, streams).await;
                let mut merged = merged.unwrap().unwrap();
                let value = |row: &Row, name: &str| match row.column(table.column(name).unwrap().id)
                {
                    Some(ColumnData::Simple(cell)) => total(&cell.value),
                    _ => 0,
                };
                let expected = if kind == 0 { 30 } else { 40 };
                let static_row = merged.header().static_row.clone().unwrap();
                assert_eq!(value(&static_row, "s"), expected);
                let mut found = Vec::new();
                while let Some(fragment) = merged.next().await.unwrap() {
                    if let Unfiltered::Row(row) = fragment {
                        found.push(value(&row, "n"));
                    }
                }
                assert_eq!(found, [30], "kind {kind} {direction:?}");
            });
        }
    }
}
