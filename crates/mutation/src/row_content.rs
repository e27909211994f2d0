//! Abstracts over rows to be written, so that packing, counting and checking are written once for a
//! [`Row`] and for a row that borrows its values.

use crate::{CellRef, ColumnData, ComplexColumn, DeletionTime, Liveness, Row, schema::ColumnId};

/// A row without its clustering.
///
/// Columns are in ascending order of their ids, each once. One exception: the columns of a row that
/// is read in place in an SSTable are in ascending order of their names, as in the file.
pub trait RowContent {
    /// Returns the liveness of the primary key.
    fn liveness(&self) -> Liveness;

    /// Returns the deletion of the whole row.
    fn deletion(&self) -> DeletionTime;

    /// Returns the shadowable deletion, see [`Row::shadowable_deletion`]. Only rows of views have
    /// one.
    #[inline]
    fn shadowable_deletion(&self) -> DeletionTime {
        DeletionTime::LIVE
    }

    /// Returns the deletion that applies to the row's own data. A shadowable deletion is void if
    /// the liveness is newer.
    #[inline]
    fn strongest_deletion(&self) -> DeletionTime {
        let deletion = self.deletion();
        if self.has_valid_shadowable_deletion(&deletion) {
            self.shadowable_deletion()
        } else {
            deletion
        }
    }

    /// Returns whether the shadowable deletion is neither void nor covered by `other`.
    #[inline]
    fn has_valid_shadowable_deletion(&self, other: &DeletionTime) -> bool {
        is_valid_shadowable(self.shadowable_deletion(), &self.liveness(), other)
    }

    /// Returns the columns that have data, with the data.
    fn columns(&self) -> impl Iterator<Item = (ColumnId, ColumnRef<'_>)>;
}

/// Returns whether the shadowable deletion of a row with this liveness is neither void nor covered
/// by `other`.
#[inline]
pub(crate) fn is_valid_shadowable(
    shadowable: DeletionTime,
    liveness: &Liveness,
    other: &DeletionTime,
) -> bool {
    // A row without liveness has the least timestamp, and a live deletion supersedes nothing.
    shadowable.supersedes(other) && liveness.timestamp <= shadowable.marked_for_delete_at
}

/// The data of a column, see [`ColumnData`].
#[derive(Clone, Copy, Debug)]
pub enum ColumnRef<'a> {
    /// One cell.
    Simple(CellRef<'a>),
    /// A multi-cell collection or UDT.
    Complex(&'a ComplexColumn),
}

impl RowContent for Row {
    #[inline]
    fn liveness(&self) -> Liveness {
        self.liveness
    }

    #[inline]
    fn deletion(&self) -> DeletionTime {
        self.deletion
    }

    #[inline]
    fn shadowable_deletion(&self) -> DeletionTime {
        self.shadowable_deletion
    }

    #[inline]
    fn columns(&self) -> impl Iterator<Item = (ColumnId, ColumnRef<'_>)> {
        self.columns.iter().map(|(id, data)| match data {
            ColumnData::Simple(cell) => (*id, ColumnRef::Simple(cell.into())),
            ColumnData::Complex(column) => (*id, ColumnRef::Complex(column)),
        })
    }
}

/// A row of simple columns that borrows its cells, as a statement with bound values writes it.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    /// Liveness of the primary key.
    pub liveness: Liveness,
    /// Deletion of the whole row.
    pub deletion: DeletionTime,
    /// The cells in ascending order of their columns' ids, each id once.
    pub cells: &'a [(ColumnId, CellRef<'a>)],
}

impl RowContent for RowRef<'_> {
    #[inline]
    fn liveness(&self) -> Liveness {
        self.liveness
    }

    #[inline]
    fn deletion(&self) -> DeletionTime {
        self.deletion
    }

    #[inline]
    fn columns(&self) -> impl Iterator<Item = (ColumnId, ColumnRef<'_>)> {
        self.cells.iter().map(|(id, cell)| (*id, ColumnRef::Simple(*cell)))
    }
}
