//! Decides what a reader sees of a row that it reads in place.
//!
//! For a row object, [`apply_deletion`](crate::reconcile::apply_deletion) and
//! [`purge_row`](crate::purge::purge_row) make the same decision by removing what is dead.

use crate::{
    CellRef, DeletionTime, Liveness, PackError, PackedColumn, PackedRow, RowContent,
    row_content::is_valid_shadowable,
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

    /// Returns whether the reader sees anything of a packed column.
    ///
    /// # Errors
    ///
    /// Returns an error if the column is malformed.
    #[inline]
    pub fn shows_column(&self, column: &PackedColumn<'_>) -> Result<bool, PackError> {
        match column {
            PackedColumn::Simple(_, cell) => Ok(self.shows_cell(cell)),
            PackedColumn::Complex(_, own, elements) => {
                let inner = Self { deletion: self.deletion.max(*own), ..*self };
                for element in elements.clone() {
                    if inner.shows_cell(&element?.1) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}
