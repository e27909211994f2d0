//! A raw row as the content of a row, for callers that pack, count or write rows.

use espalier_mutation::{CellRef, ColumnRef, DeletionTime, Liveness, RowContent, schema::ColumnId};

use super::{CellSpan, RowRef};
use crate::data::column_map::FileLayout;

/// The row that `view` has read from `bytes`. Its columns have the order of the view's cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRowContent<'a> {
    pub(crate) view: &'a RowRef,
    pub(crate) bytes: &'a [u8],
    pub(crate) layout: &'a FileLayout,
}

impl<'a> RawRowContent<'a> {
    #[inline]
    pub(crate) fn cell(&self, cell: &CellSpan) -> CellRef<'a> {
        let &CellSpan { timestamp, ttl, local_deletion_time, value: (start, end), .. } = cell;
        let value = self.bytes.get(start..end).unwrap_or_default();
        CellRef { timestamp, ttl, local_deletion_time, value }
    }
}

/// Returns the table's column of a cell.
#[inline]
pub(crate) fn target_of(cell: &CellSpan, layout: &FileLayout) -> Option<ColumnId> {
    layout.regulars.get(cell.column).and_then(|column| column.target)
}

impl RowContent for RawRowContent<'_> {
    #[inline]
    fn liveness(&self) -> Liveness {
        self.view.liveness
    }

    #[inline]
    fn deletion(&self) -> DeletionTime {
        self.view.deletion
    }

    #[inline]
    fn columns(&self) -> impl Iterator<Item = (ColumnId, ColumnRef<'_>)> {
        let cells = self.view.cells.iter();
        cells.filter_map(|cell| {
            Some((target_of(cell, self.layout)?, ColumnRef::Simple(self.cell(cell))))
        })
    }
}
