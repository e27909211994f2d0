//! What there is to know of a row that is to be written, whoever owns its cells: so that packing, counting and checking are
//! written once for a [`Row`] and for one that only borrows its values.

use crate::{CellRef, ColumnData, ComplexColumn, DeletionTime, Liveness, Row, schema::ColumnId};

/// A row without its clustering. Columns are in ascending order of their ids, each once; of a row that lies in an SSTable in
/// the order of the file, which is that of their names.
pub trait RowContent {
    /// Liveness of the primary key.
    fn liveness(&self) -> Liveness;

    /// Deletion of the whole row.
    fn deletion(&self) -> DeletionTime;

    /// See [`Row::shadowable_deletion`]; only rows of files have one.
    #[inline]
    fn shadowable_deletion(&self) -> DeletionTime {
        DeletionTime::LIVE
    }

    /// The deletion that counts among the row's own data: a shadowable one is void where a newer liveness is.
    #[inline]
    fn strongest_deletion(&self) -> DeletionTime {
        let deletion = self.deletion();
        match self.has_valid_shadowable_deletion(&deletion) {
            true => self.shadowable_deletion(),
            false => deletion,
        }
    }

    /// Whether the shadowable deletion is not void and not covered by `other`.
    #[inline]
    fn has_valid_shadowable_deletion(&self, other: &DeletionTime) -> bool {
        is_valid_shadowable(self.shadowable_deletion(), &self.liveness(), other)
    }

    /// Data of the columns that have some.
    fn columns(&self) -> impl Iterator<Item = (ColumnId, ColumnRef<'_>)>;
}

/// Whether the shadowable deletion of a row with this liveness is not void and not covered by `other`.
#[inline]
pub(crate) fn is_valid_shadowable(
    shadowable: DeletionTime,
    liveness: &Liveness,
    other: &DeletionTime,
) -> bool {
    // A row without liveness has the least timestamp; a live deletion supersedes nothing.
    shadowable.supersedes(other) && liveness.timestamp <= shadowable.marked_for_delete_at
}

/// What a column holds, see [`ColumnData`].
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

/// A row of simple columns that owns nothing: what a statement with bound values writes.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    /// Liveness of the primary key.
    pub liveness: Liveness,
    /// Deletion of the whole row.
    pub deletion: DeletionTime,
    /// In ascending order of the ids, each once.
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
