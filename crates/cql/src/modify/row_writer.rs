//! Collects the writes of a statement to one row.
//!
//! Some operations depend on the row as it is stored, with the writes of the statement's earlier
//! operations. The writer keeps that row and applies each write to it, too, because merging the
//! stored row with all writes anew for each operation would take quadratic time.

use bytes::Bytes;
use espalier_mutation::{
    Cell, ColumnData, ComplexColumn, DeletionTime, Row,
    reconcile::reconcile_cells,
    schema::{ColumnDefinition, TableMetadata},
};

/// The writes of a statement to one row.
pub struct RowWriter<'t> {
    table: &'t TableMetadata,
    /// The writes.
    row: Row,
    /// The stored row with the writes; `None` if no row is stored, or if no operation reads it.
    stored: Option<Row>,
    /// The time, in seconds since 1970, at which a cell must be live to stay in `stored`.
    now_s: u32,
}

impl<'t> RowWriter<'t> {
    /// Starts with the writes in `row`. `stored` is the stored row, required if an operation
    /// [needs](super::Operation::needs_read) it.
    pub fn new(table: &'t TableMetadata, row: Row, stored: Option<Row>, now_s: u32) -> Self {
        Self { table, row, stored, now_s }
    }

    /// Returns the writes.
    pub fn into_row(self) -> Row {
        self.row
    }

    /// Returns the writes to a column.
    pub fn written(&self, column: &ColumnDefinition) -> Option<&ColumnData> {
        self.row.column(column.id)
    }

    /// Returns the column as the next operation sees it: its stored data and the writes. A row that
    /// is not stored yet keeps its tombstones, which count as elements of a list, as in Cassandra.
    pub fn present(&self, column: &ColumnDefinition) -> Option<&ColumnData> {
        self.stored.as_ref().unwrap_or(&self.row).column(column.id)
    }

    /// Returns the cells of a multi-cell column as [`Self::present`] does.
    pub fn elements(&self, column: &ColumnDefinition) -> &[(Bytes, Cell)] {
        match self.present(column) {
            Some(ColumnData::Complex(complex)) => &complex.cells,
            _ => &[],
        }
    }

    /// Sets the cell of a single-cell column.
    pub fn set(&mut self, column: &ColumnDefinition, cell: Cell) {
        if let Some(stored) = &mut self.stored
            && !stored.deletion.deletes(cell.timestamp)
        {
            let present = match stored.column(column.id) {
                Some(ColumnData::Simple(former)) => {
                    reconcile_cells(former.clone(), cell.clone(), self.table.is_counter())
                }
                _ => cell.clone(),
            };
            if present.is_live(self.now_s) {
                stored.set_cell(column.id, present);
            } else {
                stored.columns.retain(|(id, _)| *id != column.id);
            }
        }
        self.row.set_cell(column.id, cell);
    }

    /// Deletes the elements of a multi-cell column that `deletion` covers.
    pub fn delete_elements(&mut self, column: &ColumnDefinition, deletion: DeletionTime) {
        let stored = self.stored.as_mut().map(|stored| complex(stored, column));
        for complex in stored.into_iter().chain([complex(&mut self.row, column)]) {
            complex.deletion = complex.deletion.max(deletion);
            let deletion = complex.deletion;
            complex.cells.retain(|(_, cell)| !deletion.deletes(cell.timestamp));
        }
    }

    /// Inserts a cell in the order of paths, unless the column's deletion deletes the cell. If the
    /// column has a cell with the same path, reconciliation keeps one of the two. The later of two
    /// writes has no precedence, because all writes of a statement share one timestamp.
    pub fn put(&mut self, column: &ColumnDefinition, path: Bytes, cell: Cell) {
        let (table, now_s) = (self.table, self.now_s);
        if let Some(stored) = &mut self.stored
            && !stored.deletion.deletes(cell.timestamp)
        {
            let complex = complex(stored, column);
            let at = put(table, column, complex, path.clone(), cell.clone());
            let is_dead =
                |at: &usize| complex.cells.get(*at).is_some_and(|(_, cell)| !cell.is_live(now_s));
            if let Some(at) = at.filter(is_dead) {
                complex.cells.remove(at);
            }
        }
        put(table, column, complex(&mut self.row, column), path, cell);
    }

    /// Inserts many cells in any order. The result equals that of [`Self::put`] for each of them,
    /// but the time is O(n log n).
    pub fn put_all(&mut self, column: &ColumnDefinition, cells: Vec<(Bytes, Cell)>) {
        if cells.len() == 1 {
            cells.into_iter().for_each(|(path, cell)| self.put(column, path, cell));
            return;
        }
        let now_s = self.now_s;
        if let Some(stored) = &mut self.stored {
            let deletion = stored.deletion;
            let visible = cells.iter().filter(|(_, cell)| !deletion.deletes(cell.timestamp));
            let visible = visible.cloned().collect();
            let complex = complex(stored, column);
            put_all(self.table, column, complex, visible);
            complex.cells.retain(|(_, cell)| cell.is_live(now_s));
        }
        put_all(self.table, column, complex(&mut self.row, column), cells);
    }
}

/// Returns the cells of a multi-cell column, and adds the column if the row does not have it.
#[inline]
fn complex<'r>(row: &'r mut Row, column: &ColumnDefinition) -> &'r mut ComplexColumn {
    let data = row.column_or_insert(column.id, || ColumnData::Complex(ComplexColumn::default()));
    if let ColumnData::Simple(_) = data {
        *data = ColumnData::Complex(ComplexColumn::default());
    }
    match data {
        ColumnData::Complex(complex) => complex,
        ColumnData::Simple(_) => unreachable!("made complex just above"),
    }
}

/// Inserts a cell as [`RowWriter::put`] does. Returns its index, unless it is deleted.
fn put(
    table: &TableMetadata,
    column: &ColumnDefinition,
    complex: &mut ComplexColumn,
    path: Bytes,
    cell: Cell,
) -> Option<usize> {
    if complex.deletion.deletes(cell.timestamp) {
        return None;
    }
    match complex.cells.binary_search_by(|(other, _)| table.compare_paths(column.id, other, &path))
    {
        Ok(index) => {
            let former = complex.cells[index].1.clone();
            complex.cells[index].1 = reconcile_cells(former, cell, false);
            Some(index)
        }
        Err(index) => {
            complex.cells.insert(index, (path, cell));
            Some(index)
        }
    }
}

fn put_all(
    table: &TableMetadata,
    column: &ColumnDefinition,
    complex: &mut ComplexColumn,
    cells: Vec<(Bytes, Cell)>,
) {
    let deletion = complex.deletion;
    complex.cells.extend(cells.into_iter().filter(|(_, cell)| !deletion.deletes(cell.timestamp)));
    complex.cells.sort_by(|(left, _), (right, _)| table.compare_paths(column.id, left, right));
    complex.cells.dedup_by(|later, earlier| {
        let same = table.compare_paths(column.id, &later.0, &earlier.0).is_eq();
        if same {
            earlier.1 = reconcile_cells(earlier.1.clone(), later.1.clone(), false);
        }
        same
    });
}
