//! Defines a row: clustering, liveness, row deletion, and the data of its columns.

use bytes::Bytes;

use crate::{Cell, Clustering, DeletionTime, Liveness, schema::ColumnId};

/// A row. The clustering of a static row is empty.
///
/// Invariants: `columns` is in ascending order of [`ColumnId`], each once. The cells of a complex
/// column are in the order of their paths. A row holds the data of one write or of one row that was
/// read, which bounds its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Values of the clustering columns.
    pub clustering: Clustering,
    /// Liveness of the primary key.
    pub liveness: Liveness,
    /// Deletion of the whole row.
    pub deletion: DeletionTime,
    /// Deletion of the whole row as files of materialized views hold it (docs/formats/data.md). It
    /// is void once the row has a liveness with a greater timestamp; until then it deletes as
    /// `deletion` does. In reconciled rows it is live unless it supersedes `deletion`.
    pub shadowable_deletion: DeletionTime,
    /// Data of the columns that hold any.
    pub columns: Vec<(ColumnId, ColumnData)>,
}

/// The data of one column of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnData {
    /// One cell.
    Simple(Cell),
    /// A multi-cell collection or UDT.
    Complex(ComplexColumn),
}

/// A non-frozen collection or UDT: its deletion, and its cells by path. Source:
/// docs/formats/data.md.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComplexColumn {
    /// Deletion of all elements up to its timestamp. Overwriting the whole column leaves a deletion
    /// at the write's timestamp − 1.
    pub deletion: DeletionTime,
    /// (path, cell) in the order of the paths. The path is a list's timeuuid, a set's element, a
    /// map's key, or a UDT's field index (be16).
    pub cells: Vec<(Bytes, Cell)>,
}

impl Row {
    /// Returns the number of bytes of the row's values, plus an estimate for each cell. Readers
    /// limit their pages by this number.
    pub fn page_bytes(&self) -> usize {
        /// Overhead of a cell besides its value, in bytes; an estimate.
        const CELL_BYTES: usize = 16;
        let clustering: usize = self.clustering.values.iter().flatten().map(Bytes::len).sum();
        let cells: usize = self
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

    /// Makes a row without liveness, deletion or columns.
    pub fn empty(clustering: Clustering) -> Self {
        Self {
            clustering,
            liveness: Liveness::NONE,
            deletion: DeletionTime::LIVE,
            shadowable_deletion: DeletionTime::LIVE,
            columns: Vec::new(),
        }
    }

    /// Returns whether the row holds no liveness, deletion or column.
    pub fn is_empty(&self) -> bool {
        self.liveness.is_none()
            && self.deletion.is_live()
            && self.columns.is_empty()
            && self.shadowable_deletion.is_live()
    }

    /// Returns the data of a column.
    pub fn column(&self, id: ColumnId) -> Option<&ColumnData> {
        let index = self.columns.binary_search_by_key(&id, |(column, _)| *column).ok()?;
        self.columns.get(index).map(|(_, data)| data)
    }

    /// Returns the data of a column, made by `make` if there is none yet.
    pub fn column_or_insert(
        &mut self,
        id: ColumnId,
        make: impl FnOnce() -> ColumnData,
    ) -> &mut ColumnData {
        let index = match self.columns.binary_search_by_key(&id, |(column, _)| *column) {
            Ok(index) => index,
            Err(index) => {
                self.columns.insert(index, (id, make()));
                index
            }
        };
        &mut self.columns[index].1
    }

    /// Sets a simple cell, and replaces the column's former data.
    pub fn set_cell(&mut self, id: ColumnId, cell: Cell) {
        match self.columns.last() {
            Some((last, _)) if *last >= id => {
                let data = self.column_or_insert(id, || ColumnData::Simple(cell.clone()));
                *data = ColumnData::Simple(cell);
            }
            _ => self.columns.push((id, ColumnData::Simple(cell))),
        }
    }

    /// Returns whether a reader at second `now_s` sees the row: it has a live liveness or any live
    /// cell.
    pub fn is_live(&self, now_s: u32) -> bool {
        self.liveness.is_live(now_s) || self.has_live_cell(now_s)
    }

    /// Returns whether no reader at any time sees the row, because it holds nothing but tombstones.
    pub fn is_dead_for_ever(&self) -> bool {
        self.liveness.is_none()
            && self.columns.iter().all(|(_, data)| match data {
                ColumnData::Simple(cell) => cell.is_tombstone(),
                ColumnData::Complex(column) => {
                    column.cells.iter().all(|(_, cell)| cell.is_tombstone())
                }
            })
    }

    /// Returns whether any cell is live at second `now_s`.
    pub fn has_live_cell(&self, now_s: u32) -> bool {
        self.columns.iter().any(|(_, data)| match data {
            ColumnData::Simple(cell) => cell.is_live(now_s),
            ColumnData::Complex(column) => column.cells.iter().any(|(_, cell)| cell.is_live(now_s)),
        })
    }
}
