//! Merges rows with the same clustering, and applies deletions to rows.

use std::cmp::Ordering;

use bytes::Bytes;

use super::reconcile_cells;
use crate::{
    Cell, ColumnData, ComplexColumn, DeletionTime, Liveness, Row, RowContent, schema::TableMetadata,
};

/// Merges `right` into `left`. Both have the same clustering.
pub fn merge_rows_into(table: &TableMetadata, left: &mut Row, right: Row) {
    let columns = std::mem::take(&mut left.columns);
    let clustering = std::mem::take(&mut left.clustering);
    let old = Row { clustering, columns, ..*left };
    *left = merge_rows(table, old, right);
}

/// Reconciles two rows with the same clustering. Removes only data that the row's own deletion
/// covers.
pub fn merge_rows(table: &TableMetadata, mut left: Row, mut right: Row) -> Row {
    let liveness =
        if right.liveness.supersedes(&left.liveness) { right.liveness } else { left.liveness };
    let deletion = left.deletion.max(right.deletion);
    remove_deleted_counters(table, &mut left, deletion);
    remove_deleted_counters(table, &mut right, deletion);
    let mut columns = Vec::with_capacity(left.columns.len().max(right.columns.len()));
    let (mut lefts, mut rights) =
        (left.columns.into_iter().peekable(), right.columns.into_iter().peekable());
    loop {
        let order = match (lefts.peek(), rights.peek()) {
            (Some((l, _)), Some((r, _))) => l.cmp(r),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let merged = match order {
            Ordering::Less => lefts.next(),
            Ordering::Greater => rights.next(),
            Ordering::Equal => lefts
                .next()
                .zip(rights.next())
                .map(|((id, l), (_, r))| (id, merge_columns(table, id, l, r))),
        };
        columns.extend(merged);
    }
    let shadowable_deletion = left.shadowable_deletion.max(right.shadowable_deletion);
    let clustering = left.clustering;
    let mut row = Row { clustering, liveness, deletion, shadowable_deletion, columns };
    // Data that the shadowable deletion covers stays until all rows are merged, because a row with
    // a newer liveness may follow and make it void.
    if !row.has_valid_shadowable_deletion(&deletion) {
        row.shadowable_deletion = DeletionTime::LIVE;
    }
    if !deletion.is_live() {
        remove_deleted(&mut row, deletion);
    }
    row
}

/// Removes the counter cells that `active` covers before a merge. The merged cell has the later
/// timestamp of both, so it would bring back the shares of a deleted cell.
pub(super) fn remove_deleted_counters(table: &TableMetadata, row: &mut Row, active: DeletionTime) {
    if table.is_counter() && !active.is_live() {
        remove_deleted(row, active);
    }
}

/// Merges counter rows with the same clustering. `active` and the rows' own deletions are applied
/// before the merge.
pub fn merge_counters(
    table: &TableMetadata,
    mut row: Row,
    others: Vec<Row>,
    active: DeletionTime,
) -> Row {
    let deletion = others.iter().fold(active.max(row.deletion), |all, row| all.max(row.deletion));
    remove_deleted_counters(table, &mut row, deletion);
    for mut other in others {
        remove_deleted_counters(table, &mut other, deletion);
        row = merge_rows(table, row, other);
    }
    row
}

fn merge_columns(
    table: &TableMetadata,
    id: crate::schema::ColumnId,
    left: ColumnData,
    right: ColumnData,
) -> ColumnData {
    let is_counter = table.is_counter();
    match (left, right) {
        (ColumnData::Simple(l), ColumnData::Simple(r)) => {
            ColumnData::Simple(reconcile_cells(l, r, is_counter))
        }
        (ColumnData::Complex(l), ColumnData::Complex(r)) => {
            let compare = |a: &Bytes, b: &Bytes| table.compare_paths(id, a, b);
            ColumnData::Complex(merge_complex(l, r, is_counter, compare))
        }
        // A column cannot be both simple and complex, and the reader refuses a file that says so.
        // The complex column stays.
        (complex @ ColumnData::Complex(_), _) | (_, complex @ ColumnData::Complex(_)) => complex,
    }
}

fn merge_complex(
    left: ComplexColumn,
    right: ComplexColumn,
    is_counter: bool,
    compare: impl Fn(&Bytes, &Bytes) -> Ordering,
) -> ComplexColumn {
    let deletion = left.deletion.max(right.deletion);
    let mut cells: Vec<(Bytes, Cell)> = Vec::with_capacity(left.cells.len() + right.cells.len());
    let (mut lefts, mut rights) =
        (left.cells.into_iter().peekable(), right.cells.into_iter().peekable());
    loop {
        let order = match (lefts.peek(), rights.peek()) {
            (Some((l, _)), Some((r, _))) => compare(l, r),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let merged = match order {
            Ordering::Less => lefts.next(),
            Ordering::Greater => rights.next(),
            Ordering::Equal => lefts
                .next()
                .zip(rights.next())
                .map(|(left, right)| reconcile_elements(left, right, is_counter)),
        };
        cells.extend(merged.filter(|(_, cell)| !deletion.deletes(cell.timestamp)));
    }
    ComplexColumn { deletion, cells }
}

/// Reconciles two cells of one element and keeps the winner's path, because the elements 1 and 1.0
/// are the same.
fn reconcile_elements(
    (left_path, left): (Bytes, Cell),
    (right_path, right): (Bytes, Cell),
    is_counter: bool,
) -> (Bytes, Cell) {
    if left_path == right_path {
        return (left_path, reconcile_cells(left, right, is_counter));
    }
    if left == right {
        return (left_path.min(right_path), left);
    }
    let right_cell = right.clone();
    let winner = reconcile_cells(left, right, is_counter);
    (if winner == right_cell { right_path } else { left_path }, winner)
}

/// Removes from a row the data that `active` (a partition or range deletion) covers; returns
/// whether anything is left.
///
/// A row deletion that does not supersede `active` is removed too. The strongest deletion then
/// applies to the columns: the deletion of a complex column is removed if the strongest one
/// supersedes it, and stays if both are equal. A shadowable deletion that is not void is applied as
/// well, so this call must come after all merging.
pub fn apply_deletion(row: &mut Row, active: DeletionTime) -> bool {
    let mut strongest = active;
    if row.deletion.supersedes(&active) {
        strongest = row.deletion;
    } else {
        row.deletion = DeletionTime::LIVE;
    }
    if row.has_valid_shadowable_deletion(&strongest) {
        strongest = row.shadowable_deletion
    } else {
        row.shadowable_deletion = DeletionTime::LIVE
    }
    if !strongest.is_live() {
        remove_deleted(row, strongest);
    }
    !row.is_empty()
}

fn remove_deleted(row: &mut Row, active: DeletionTime) {
    if active.deletes(row.liveness.timestamp) {
        row.liveness = Liveness::NONE;
    }
    row.columns.retain_mut(|(_, data)| match data {
        ColumnData::Simple(cell) => !active.deletes(cell.timestamp),
        ColumnData::Complex(column) => {
            // An equal deletion stays, as in a memtable of Cassandra: digests of reads count it.
            if active.supersedes(&column.deletion) {
                column.deletion = DeletionTime::LIVE;
            }
            column.cells.retain(|(_, cell)| !active.deletes(cell.timestamp));
            !column.deletion.is_live() || !column.cells.is_empty()
        }
    });
}
