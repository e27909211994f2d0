//! Tests two deletions with about the same timestamp, one of which encloses the other. The
//! deletions that stay must be the same as in a memtable of Cassandra, because the digests of reads
//! include them. Such deletions are common: the deletion of a row at time t, and the overwrite of
//! one of its collections at t + 1, which deletes the old elements at t.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnData, ComplexColumn, DecoratedKey,
    DeletionTime, Direction, PartitionHeader, RangeTombstone, RangeTombstoneList, Row, Unfiltered,
    UnfilteredStream,
    reconcile::{MergedPartition, apply_deletion, merge_rows},
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_types::CqlType;

use crate::support::{Source, run};

fn table() -> Arc<TableMetadata> {
    let set = || CqlType::Set { element: Arc::new(CqlType::Blob), frozen: false };
    let table = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Blob, false)
        .static_column("s", set())
        .regular("m", set());
    Arc::new(table.build())
}

fn deleted(timestamp: i64, second: u32) -> DeletionTime {
    DeletionTime::new(timestamp, second)
}

fn place() -> Clustering {
    Clustering::new([Bytes::from_static(b"a")])
}

/// Makes a row whose collection was overwritten: `deletion` deletes its old elements, and one new
/// element has the timestamp `cell`.
fn overwritten(column: &str, clustering: Clustering, deletion: DeletionTime, cell: i64) -> Row {
    let id = table().column(column).unwrap().id;
    let cells = vec![(Bytes::from_static(b"e"), Cell::live(cell, Bytes::new()))];
    let mut row = Row::empty(clustering);
    row.columns.push((id, ColumnData::Complex(ComplexColumn { deletion, cells })));
    row
}

/// Returns the deletion of the only column; `None` if the row has no column.
fn of_column(row: &Row) -> Option<DeletionTime> {
    match row.columns.first() {
        Some((_, ColumnData::Complex(column))) => Some(column.deletion),
        _ => None,
    }
}

/// The deletion of a column, the enclosing deletion, and the column's deletion after both are
/// applied.
const CASES: [(DeletionTime, DeletionTime, DeletionTime); 5] = [
    (DeletionTime::new(5, 1), DeletionTime::new(5, 1), DeletionTime::new(5, 1)),
    (DeletionTime::new(5, 2), DeletionTime::new(5, 1), DeletionTime::new(5, 2)),
    (DeletionTime::new(5, 1), DeletionTime::new(5, 2), DeletionTime::LIVE),
    (DeletionTime::new(6, 1), DeletionTime::new(5, 9), DeletionTime::new(6, 1)),
    (DeletionTime::new(4, 9), DeletionTime::new(5, 1), DeletionTime::LIVE),
];

#[test]
fn the_deletion_of_a_column_stays_beside_an_equal_row_deletion() {
    let table = table();
    for (inner, outer, expected) in CASES {
        let overwrite = || overwritten("m", place(), inner, 9);
        let deletion = || Row { deletion: outer, ..Row::empty(place()) };
        for mut row in [
            merge_rows(&table, overwrite(), deletion()),
            merge_rows(&table, deletion(), overwrite()),
            // One write may have both deletions.
            Row { deletion: outer, ..overwrite() },
        ] {
            assert!(apply_deletion(&mut row, DeletionTime::LIVE));
            assert_eq!((row.deletion, of_column(&row)), (outer, Some(expected)), "{inner:?}");
        }
    }
}

#[test]
fn the_deletion_of_a_column_stays_under_an_equal_enclosing_deletion() {
    for (inner, outer, expected) in CASES {
        for clustering in [Clustering::empty(), place()] {
            let mut row = overwritten("m", clustering, inner, 9);
            assert!(apply_deletion(&mut row, outer));
            assert_eq!(of_column(&row), Some(expected), "{inner:?} {outer:?}");
        }
    }
    // Cells, the liveness and the deletion of the row do not stay if they have the same time.
    let mut row = overwritten("m", place(), DeletionTime::LIVE, 5);
    row.deletion = deleted(5, 1);
    row.liveness = espalier_mutation::Liveness::live(5);
    assert!(!apply_deletion(&mut row, deleted(5, 1)), "{row:?}");
}

/// Merges sources, each with a partition deletion, a static row and a range deletion.
fn merged(
    sources: &[(DeletionTime, Option<Row>, DeletionTime)],
    direction: Direction,
) -> (PartitionHeader, Vec<Unfiltered>) {
    let table = table();
    let source = |(deletion, static_row, range): &(DeletionTime, Option<Row>, DeletionTime)| {
        let bound = |kind, value: &'static [u8]| ClusteringBound {
            kind,
            values: [Some(Bytes::from_static(value))].into(),
        };
        let mut list = RangeTombstoneList::default();
        if !range.is_live() {
            let start = bound(BoundKind::InclusiveStart, b"b");
            let end = bound(BoundKind::InclusiveEnd, b"d");
            list.add(table.comparator(), &RangeTombstone { start, end, deletion: *range });
        }
        let mut fragments: Vec<_> = list.markers().map(Unfiltered::Marker).collect();
        if direction == Direction::Reverse {
            fragments.reverse();
        }
        let key = DecoratedKey::new(Bytes::from_static(b"k"));
        let header = PartitionHeader { key, deletion: *deletion, static_row: static_row.clone() };
        Source { header, fragments: fragments.into_iter() }
    };
    let streams = sources.iter().map(source).collect();
    run(async {
        let merged = MergedPartition::new(table.clone(), direction, streams).await;
        let mut merged = merged.unwrap().unwrap();
        let mut fragments = Vec::new();
        while let Some(fragment) = merged.next().await.unwrap() {
            fragments.push(fragment);
        }
        (merged.header().clone(), fragments)
    })
}

#[test]
fn an_equal_partition_deletion_keeps_static_columns_and_no_range() {
    for (inner, outer, expected) in CASES {
        let static_row = || Some(overwritten("s", Clustering::empty(), inner, 9));
        let none = DeletionTime::LIVE;
        for direction in [Direction::Forward, Direction::Reverse] {
            for sources in [
                vec![(outer, static_row(), inner)],
                vec![(outer, None, none), (none, static_row(), inner)],
                vec![(none, static_row(), inner), (outer, None, none)],
            ] {
                let (header, fragments) = merged(&sources, direction);
                assert_eq!(of_column(&header.static_row.unwrap()), Some(expected));
                let opened: Vec<_> = fragments
                    .iter()
                    .map(|fragment| match fragment {
                        Unfiltered::Marker(marker) => marker.before.max(marker.after),
                        Unfiltered::Row(row) => panic!("{row:?}"),
                    })
                    .collect();
                let of_range = if inner.supersedes(&outer) { vec![inner; 2] } else { vec![] };
                assert_eq!(opened, of_range, "{inner:?} {outer:?} {direction:?}");
            }
        }
    }
}
