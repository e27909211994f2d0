//! Tests shadowable deletions of rows: data that they cover stays deleted until the row has a newer
//! liveness, in whatever order the rows come.

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ColumnData, DeletionTime, Liveness, Row,
    reconcile::{apply_deletion, merge_rows},
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_types::CqlType;
use proptest::prelude::*;

fn table() -> TableMetadata {
    TableBuilder::new("ks", "view", TableId(uuid::Uuid::nil()))
        .partition_key("k", CqlType::Int)
        .regular("v", CqlType::Int)
        .build()
}

fn row(liveness: i64, deletion: i64, shadowable: i64, cell: i64) -> Row {
    let mut row = Row::empty(Clustering::empty());
    row.liveness = Liveness::live(liveness);
    row.deletion = deleted(deletion);
    row.shadowable_deletion = deleted(shadowable);
    if cell != NONE {
        let column = table().regular_columns()[0].id;
        row.columns.push((column, ColumnData::Simple(Cell::live(cell, Bytes::from_static(b"v")))));
    }
    row
}

const NONE: i64 = i64::MIN;

fn deleted(timestamp: i64) -> DeletionTime {
    match timestamp {
        NONE => DeletionTime::LIVE,
        timestamp => DeletionTime::new(timestamp, 1),
    }
}

fn merged(rows: &[Row], active: DeletionTime) -> Option<Row> {
    let table = table();
    let mut merged = rows.iter().cloned().reduce(|left, right| merge_rows(&table, left, right))?;
    apply_deletion(&mut merged, active).then_some(merged)
}

const NO_DELETION: DeletionTime = DeletionTime::LIVE;

#[test]
fn a_shadowable_deletion_holds_until_a_newer_liveness() {
    let deletion = row(NONE, NONE, 10, NONE);
    for (rows, expected) in [
        (vec![deletion.clone(), row(10, NONE, NONE, 8)], deletion.clone()),
        (vec![deletion.clone(), row(5, NONE, NONE, 11)], row(NONE, NONE, 10, 11)),
        (vec![deletion.clone(), row(11, NONE, NONE, 8)], row(11, NONE, NONE, 8)),
        // The deletion with the greater timestamp counts.
        (vec![deletion.clone(), row(NONE, NONE, 12, 11)], row(NONE, NONE, 12, NONE)),
    ] {
        assert_eq!(merged(&rows, NO_DELETION).unwrap(), expected, "{rows:?}");
    }
}

#[test]
fn a_newer_liveness_revives_cells_under_a_shadowable_deletion() {
    let rows = [row(NONE, NONE, 10, NONE), row(5, NONE, NONE, 8), row(11, NONE, NONE, NONE)];
    assert_eq!(merged(&rows, NO_DELETION).unwrap(), row(11, NONE, NONE, 8));
}

#[test]
fn an_ordinary_deletion_covers_or_outlives_a_shadowable_one() {
    let rows = [row(NONE, 10, NONE, NONE), row(NONE, NONE, 10, NONE)];
    assert_eq!(merged(&rows, NO_DELETION).unwrap(), row(NONE, 10, NONE, NONE));
    let rows = [row(NONE, 4, 10, NONE), row(11, NONE, NONE, NONE), row(NONE, NONE, NONE, 4)];
    assert_eq!(merged(&rows, NO_DELETION).unwrap(), row(11, 4, NONE, NONE));
    // A deletion of the whole partition.
    let rows = [row(NONE, NONE, 10, NONE)];
    assert_eq!(merged(&rows, deleted(10)), None);
    assert_eq!(merged(&rows, deleted(9)).unwrap(), row(NONE, NONE, 10, NONE));
}

fn times() -> impl Strategy<Value = i64> {
    prop_oneof![2 => Just(NONE), 3 => 0..8i64]
}

proptest! {
    /// Compares the merge with the definition, which looks at all rows at once.
    #[test]
    fn shadowable_merges_match_the_definition_in_both_orders(
        parts in prop::collection::vec((times(), times(), times(), times()), 1..5),
        active in times(),
    ) {
        let rows: Vec<_> = parts.iter().map(|&(l, d, s, c)| row(l, d, s, c)).collect();
        let latest = |of: fn(&(i64, i64, i64, i64)) -> i64| parts.iter().map(of).max().unwrap();
        let (liveness, deletion, shadowable) = (latest(|p| p.0), latest(|p| p.1), latest(|p| p.2));
        let deletion = deletion.max(active);
        let is_valid = shadowable > deletion && liveness <= shadowable;
        let strongest = if is_valid { shadowable } else { deletion };
        let survives = |time: i64| if time > strongest { time } else { NONE };
        let expected = row(
            survives(liveness),
            // The row's own deletion is not repeated if the partition's deletion covers it.
            if deletion > active { deletion } else { NONE },
            if is_valid { shadowable } else { NONE },
            survives(latest(|p| p.3)),
        );
        let mut reversed = rows.clone();
        reversed.reverse();
        for rows in [rows, reversed] {
            let found = merged(&rows, deleted(active));
            prop_assert_eq!(found.unwrap_or(Row::empty(Clustering::empty())), expected.clone());
        }
    }
}
