//! Decides which parts of a reconciled row a reader sees.

use espalier_mutation::{Row, purge::purge_row, schema::TableMetadata};

use crate::ColumnSelection;

/// Removes everything dead from a row, for a reader. Returns whether the row exists; if it does,
/// only the selected columns are left.
pub(crate) fn keep_live(
    row: &mut Row,
    table: &TableMetadata,
    selection: &ColumnSelection,
    now_s: u32,
) -> bool {
    purge_row(row, now_s, &mut |_, _| true);
    row.columns.retain(|(id, _)| table.column_by_id(*id).is_some());
    let exists = !row.liveness.is_none() || !row.columns.is_empty();
    if exists && let ColumnSelection::Only(_) = selection {
        row.columns.retain(|(id, _)| selection.contains(*id));
    }
    exists
}
