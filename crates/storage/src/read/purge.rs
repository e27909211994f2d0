//! From a reconciled row to what a reader sees at a second: no dead cells, no deletions, no dropped columns.

use espalier_mutation::{ColumnData, DeletionTime, Liveness, Row, schema::TableMetadata};

use super::ColumnSelection;

/// Removes what is dead. Returns whether the row exists for the reader; then only the selected columns are left.
pub(crate) fn keep_live(
    row: &mut Row,
    table: &TableMetadata,
    selection: &ColumnSelection,
    now_s: u32,
) -> bool {
    row.deletion = DeletionTime::LIVE;
    row.shadowable_deletion = DeletionTime::LIVE;
    if !row.liveness.is_live(now_s) {
        row.liveness = Liveness::NONE;
    }
    row.columns.retain_mut(|(id, data)| {
        let alive = match data {
            ColumnData::Simple(cell) => cell.is_live(now_s),
            ColumnData::Complex(column) => {
                column.deletion = DeletionTime::LIVE;
                column.cells.retain(|(_, cell)| cell.is_live(now_s));
                !column.cells.is_empty()
            }
        };
        alive && table.column_by_id(*id).is_some()
    });
    let exists = !row.liveness.is_none() || !row.columns.is_empty();
    if exists && let ColumnSelection::Only(_) = selection {
        row.columns.retain(|(id, _)| selection.contains(*id));
    }
    exists
}

/// Bytes of a row's values, to bound a page by.
pub(crate) fn row_bytes(row: &Row) -> usize {
    /// What a cell costs besides its value, roughly.
    const CELL_BYTES: usize = 16;
    let clustering: usize = row.clustering.values.iter().flatten().map(bytes::Bytes::len).sum();
    let cells: usize = row
        .columns
        .iter()
        .map(|(_, data)| match data {
            ColumnData::Simple(cell) => cell.value.len() + CELL_BYTES,
            ColumnData::Complex(column) => column
                .cells
                .iter()
                .map(|(path, cell)| path.len() + cell.value.len() + CELL_BYTES)
                .sum(),
        })
        .sum();
    clustering + cells
}
