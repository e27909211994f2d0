//! Decides what a reader sees of a row that is read in place or in parts, without changing the row.
//!
//! For a row object, [`apply_deletion`](crate::reconcile::apply_deletion) and
//! [`purge_row`](crate::purge::purge_row) make the same decision by removing the dead data.

use crate::{
    CellRef, ColumnRef, DeletionTime, Liveness, PackError, PackedColumn, PackedRow, RowContent,
    row_content::is_valid_shadowable, schema::ColumnId,
};

/// The view of a reader at one moment, under the strongest deletion over a row.
#[derive(Clone, Copy, Debug)]
pub struct Visibility {
    deletion: DeletionTime,
    now_s: u32,
}

impl Visibility {
    /// Returns the visibility at second `now_s`. `above` is the deletion of the partition or range
    /// that covers the row.
    #[inline]
    pub fn new(row: &impl RowContent, above: DeletionTime, now_s: u32) -> Self {
        let strongest = above.max(row.deletion());
        let shadowable = row.shadowable_deletion();
        let is_shadowed = is_valid_shadowable(shadowable, &row.liveness(), &strongest);
        Self { deletion: if is_shadowed { shadowable } else { strongest }, now_s }
    }

    /// Returns the visibility over a packed row, as [`Self::new`] does.
    #[inline]
    pub fn of_packed(row: &PackedRow<'_>, above: DeletionTime, now_s: u32) -> Self {
        Self { deletion: row.strongest_deletion(above), now_s }
    }

    /// Returns whether the liveness makes the row exist, whatever its cells.
    #[inline]
    pub fn shows_liveness(&self, liveness: &Liveness) -> bool {
        liveness.is_live(self.now_s) && !self.deletion.deletes(liveness.timestamp)
    }

    /// Returns whether the reader sees the cell of a simple column.
    #[inline]
    pub fn shows_cell(&self, cell: &CellRef<'_>) -> bool {
        cell.is_live(self.now_s) && !self.deletion.deletes(cell.timestamp)
    }

    /// Passes the visible cells of simple columns to `take`. Returns whether the row exists: its
    /// liveness is visible, or a column that `is_known` accepts has a visible cell. Callers let
    /// `is_known` refuse dropped columns, because memory may still have cells of them.
    #[inline]
    pub fn visible_cells<'r>(
        &self,
        row: &'r impl RowContent,
        is_known: impl Fn(ColumnId) -> bool,
        mut take: impl FnMut(ColumnId, CellRef<'r>),
    ) -> bool {
        let mut exists = self.shows_liveness(&row.liveness());
        for (id, column) in row.columns() {
            match column {
                ColumnRef::Simple(cell) if self.shows_cell(&cell) => {
                    exists = exists || is_known(id);
                    take(id, cell);
                }
                ColumnRef::Simple(_) => {}
                ColumnRef::Complex(column) => {
                    let inner = self.inside(column.deletion);
                    let mut cells = column.cells.iter();
                    exists = exists
                        || is_known(id) && cells.any(|(_, cell)| inner.shows_cell(&cell.into()));
                }
            }
        }
        exists
    }

    /// Passes the visible cells of a packed row's simple columns to `take`, as
    /// [`Self::visible_cells`] does.
    ///
    /// # Errors
    ///
    /// Returns an error if the row is malformed.
    #[inline]
    pub fn visible_packed_cells<'r>(
        &self,
        row: &PackedRow<'r>,
        is_known: impl Fn(ColumnId) -> bool,
        mut take: impl FnMut(ColumnId, CellRef<'r>),
    ) -> Result<bool, PackError> {
        let mut exists = self.shows_liveness(&row.liveness);
        for column in row.columns() {
            match column? {
                PackedColumn::Simple(id, cell) => {
                    if self.shows_cell(&cell) {
                        exists = exists || is_known(id);
                        take(id, cell);
                    }
                }
                PackedColumn::Complex(id, deletion, cells) if !exists && is_known(id) => {
                    let inner = self.inside(deletion);
                    for cell in cells {
                        exists |= inner.shows_cell(&cell?.1);
                    }
                }
                PackedColumn::Complex(..) => {}
            }
        }
        Ok(exists)
    }

    /// Returns the view of the cells of a complex column with this deletion.
    #[inline]
    fn inside(&self, deletion: DeletionTime) -> Self {
        Self { deletion: self.deletion.max(deletion), ..*self }
    }
}
