//! Reads and writes the bodies of rows: liveness, deletion, subset of columns, cells. Format:
//! docs/formats/data.md.

use bytes::Bytes;
use espalier_types::vint;
use smallvec::SmallVec;

use super::{
    baselines::Baselines,
    cell::{CellSpan, write_cell},
    column::{EncodedColumn, EncodedColumns},
    column_subset,
    flags::{
        EXTENDED_SHADOWABLE, HAS_ALL_COLUMNS, HAS_COMPLEX_DELETION, HAS_DELETION, HAS_TIMESTAMP,
        HAS_TTL,
    },
    input::{DataInput, Decoded, Span},
    value::ValueForm,
    walk::{RowStart, RowVisitor, walk_row_body},
};
use crate::{
    Cell, Clustering, ColumnData, ColumnRef, ComplexColumn, DeletionTime, Liveness, Row,
    RowContent, counter,
};

/// Reads the body of a row, after its clustering and the lengths of an SSTable. `flags` are the
/// flags and the extended flags of its head. Values share the memory of `bytes`, from which `input`
/// reads. The row has no cells if all of them belong to dropped columns.
///
/// `wanted` says for each column whether the reader wants the values; `None` wants all. The values
/// of other columns are left empty.
///
/// # Errors
///
/// Fails if the bytes end inside the body or do not follow the format.
#[inline]
pub fn read_row_body(
    (bytes, input): (&Bytes, &mut DataInput<'_>),
    baselines: &Baselines,
    flags: (u8, u8),
    clustering: Clustering,
    columns: &[EncodedColumn],
    wanted: Option<&[bool]>,
) -> Decoded<Row> {
    let mut row = Row::empty(clustering);
    let count = columns.len();
    let mut builder = RowBuilder { bytes, wanted, count, row: &mut row, cells: Vec::new() };
    walk_row_body(input, baselines, flags, columns, &mut builder)?;
    // A header orders columns by name, a row by id.
    if !row.columns.is_sorted_by_key(|(id, _)| *id) {
        row.columns.sort_unstable_by_key(|(id, _)| *id);
    }
    Ok(row)
}

/// The visitor that makes a [`Row`].
struct RowBuilder<'a> {
    bytes: &'a Bytes,
    wanted: Option<&'a [bool]>,
    /// The number of the header's columns.
    count: usize,
    row: &'a mut Row,
    /// The cells of the complex column so far. The vector grows as cells are read, so that a forged
    /// count cannot allocate memory.
    cells: Vec<(Bytes, Cell)>,
}

impl RowBuilder<'_> {
    #[inline]
    fn cell_of(&self, column: &EncodedColumn, cell: &CellSpan) -> Cell {
        let is_wanted = match self.wanted {
            None => column.target.is_some(),
            Some(wanted) => wanted.get(cell.column).copied().unwrap_or_default(),
        };
        let value = if is_wanted { self.slice(cell.value) } else { Bytes::new() };
        let &CellSpan { timestamp, ttl, local_deletion_time, .. } = cell;
        Cell { timestamp, ttl, local_deletion_time, value }
    }

    #[inline]
    fn slice(&self, (start, end): Span) -> Bytes {
        self.bytes.slice(start..end)
    }
}

impl RowVisitor for RowBuilder<'_> {
    #[inline]
    fn begin(&mut self, start: &RowStart) -> Decoded<usize> {
        self.row.liveness = start.liveness;
        self.row.deletion = start.deletion;
        self.row.shadowable_deletion = start.shadowable_deletion;
        if start.flags & HAS_ALL_COLUMNS != 0 {
            self.row.columns.reserve_exact(self.count);
        }
        Ok(usize::MAX)
    }

    #[inline]
    fn cell(&mut self, column: &EncodedColumn, cell: CellSpan) -> Decoded<()> {
        let Some(id) = column.target.filter(|_| !column.has_dropped(cell.timestamp)) else {
            return Ok(());
        };
        let mut cell = self.cell_of(column, &cell);
        if column.is_counter {
            cell.value = counter::sorted(cell.value);
        }
        self.row.columns.push((id, ColumnData::Simple(cell)));
        Ok(())
    }

    #[inline]
    fn begin_complex(&mut self) -> Decoded<()> {
        Ok(())
    }

    #[inline]
    fn element(&mut self, column: &EncodedColumn, path: Span, cell: CellSpan) {
        if column.target.is_some() && !column.has_dropped(cell.timestamp) {
            self.cells.push((self.slice(path), self.cell_of(column, &cell)));
        }
    }

    #[inline]
    fn end_complex(&mut self, column: &EncodedColumn, mut deletion: DeletionTime) {
        if column.has_dropped(deletion.marked_for_delete_at) {
            deletion = DeletionTime::LIVE;
        }
        let cells = std::mem::take(&mut self.cells);
        let is_empty = deletion.is_live() && cells.is_empty();
        if let Some(id) = column.target.filter(|_| !is_empty || column.keeps_empty) {
            let data = ColumnData::Complex(ComplexColumn { deletion, cells });
            self.row.columns.push((id, data));
        }
    }
}

/// The forms in which the row deletion and the shadowable deletion are written.
#[derive(Debug, Default)]
pub struct RowDeletions {
    /// The deletion that [`HAS_DELETION`] announces.
    pub ordinary: DeletionTime,
    /// The shadowable deletion of ScyllaDB, which follows the ordinary deletion.
    pub following: DeletionTime,
    /// The extended flags of the deletions.
    pub extended: u8,
}

impl RowDeletions {
    /// Chooses Cassandra's form, which holds one deletion.
    ///
    /// The writer keeps the later of two deletions as an ordinary deletion, so that no deleted data
    /// returns. Data that a newer liveness would have brought back stays deleted.
    #[inline]
    pub fn of(row: &impl RowContent) -> Self {
        let (ordinary, shadowable) = (row.deletion(), row.shadowable_deletion());
        if shadowable.is_live() {
            Self { ordinary, ..Self::default() }
        } else if ordinary.is_live() {
            Self { ordinary: shadowable, extended: EXTENDED_SHADOWABLE, ..Self::default() }
        } else {
            Self { ordinary: row.strongest_deletion(), ..Self::default() }
        }
    }
}

/// Appends the body of a row, without the lengths of an SSTable, to `body`. Returns the flags of
/// the row.
///
/// # Errors
///
/// Fails if a column is not among the header's, or if a cell does not have the form of its column
/// or is larger than a reader accepts.
#[inline]
pub fn write_row_body(
    columns: &EncodedColumns,
    baselines: &Baselines,
    row: &impl RowContent,
    deletions: &RowDeletions,
    body: &mut Vec<u8>,
) -> Result<u8, String> {
    let mut flags = 0;
    let liveness = &row.liveness();
    if !liveness.is_none() {
        flags |= HAS_TIMESTAMP;
        baselines.write_timestamp(liveness.timestamp, body);
        if liveness.is_expiring() {
            flags |= HAS_TTL;
            baselines.write_ttl(liveness.ttl, body);
            baselines.write_local_deletion_time(liveness.local_expiration, body);
        }
    }
    if !deletions.ordinary.is_live() {
        flags |= HAS_DELETION;
        baselines.write_deletion(deletions.ordinary, body);
    }
    if !deletions.following.is_live() {
        baselines.write_deletion(deletions.following, body);
    }
    // A row orders columns by id, a file by name.
    let mut present: SmallVec<[(u32, ColumnRef<'_>); 16]> = SmallVec::new();
    for (id, data) in row.columns() {
        let index = columns
            .index(id)
            .ok_or_else(|| format!("column {} of a row is not in the file's header", id.0))?;
        present.push((index, data));
    }
    if !present.is_sorted_by_key(|(index, _)| *index) {
        present.sort_unstable_by_key(|(index, _)| *index);
    }
    if present.len() == columns.columns().len() {
        flags |= HAS_ALL_COLUMNS;
    } else {
        let indices: SmallVec<[u32; 16]> = present.iter().map(|(index, _)| *index).collect();
        column_subset::write(columns.columns().len(), &indices, body);
    }
    let has_complex_deletion = present.iter().any(
        |(_, data)| matches!(data, ColumnRef::Complex(complex) if !complex.deletion.is_live()),
    );
    if has_complex_deletion {
        flags |= HAS_COMPLEX_DELETION;
    }
    for (index, data) in present {
        let Some(column) = columns.columns().get(index as usize) else { continue };
        match (data, column.is_complex) {
            (ColumnRef::Simple(cell), false) => {
                write_cell(cell, None, column.form, liveness, baselines, body)?;
            }
            (ColumnRef::Complex(complex), true) => {
                write_complex(complex, has_complex_deletion, liveness, baselines, body)?;
            }
            _ => return Err("a simple cell in a multi-cell column, or the reverse".into()),
        }
    }
    Ok(flags)
}

#[inline]
fn write_complex(
    column: &ComplexColumn,
    has_deletion: bool,
    liveness: &Liveness,
    baselines: &Baselines,
    body: &mut Vec<u8>,
) -> Result<(), String> {
    if has_deletion {
        baselines.write_deletion(column.deletion, body);
    }
    vint::write_unsigned(column.cells.len() as u64, body);
    for (path, cell) in &column.cells {
        write_cell(cell.into(), Some(path), ValueForm::Prefixed, liveness, baselines, body)?;
    }
    Ok(())
}
