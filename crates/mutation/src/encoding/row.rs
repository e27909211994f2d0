//! Bodies of rows: liveness, deletion, subset of columns, cells. Format: docs/formats/data.md.

use espalier_types::vint;
use smallvec::SmallVec;

use super::{
    baselines::Baselines,
    cell::{read_cell, read_positive_ttl, write_cell},
    column::{EncodedColumn, EncodedColumns},
    column_subset::{self, ColumnSubset, SubsetIterator},
    flags::{
        EXTENDED_SHADOWABLE, EXTENDED_SHADOWABLE_FOLLOWS, HAS_ALL_COLUMNS, HAS_COMPLEX_DELETION,
        HAS_DELETION, HAS_TIMESTAMP, HAS_TTL,
    },
    input::{DataInput, Decoded, Malformed},
    value::ValueForm,
};
use crate::{
    Clustering, ColumnData, ColumnRef, ComplexColumn, DeletionTime, Liveness, NO_DELETION_TIME,
    Row, RowContent, counter,
};

/// Reads the body of a row, after its clustering and the lengths of an SSTable. `flags` and
/// `extended` are the flags of its head. The row is empty if all its cells belong to dropped
/// columns.
///
/// `wanted` says for each column whether the reader wants the values; `None` wants all.
///
/// # Errors
///
/// Fails if the bytes end inside the body or do not follow the format.
#[inline]
pub fn read_row_body(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    (flags, extended): (u8, u8),
    clustering: Clustering,
    columns: &[EncodedColumn],
    wanted: Option<&[bool]>,
) -> Decoded<Row> {
    let mut row = Row::empty(clustering);
    if flags & HAS_TIMESTAMP != 0 {
        row.liveness = Liveness::live(baselines.read_timestamp(input)?);
        if flags & HAS_TTL != 0 {
            row.liveness.ttl = read_positive_ttl(input, baselines)?;
            row.liveness.local_expiration = baselines.read_local_deletion_time(input)?;
        }
    }
    if flags & HAS_DELETION != 0 {
        row.deletion = baselines.read_deletion(input)?;
    }
    if extended != 0 {
        read_shadowable_deletion(input, baselines, extended, &mut row)?;
    }
    let subset;
    let indices = if flags & HAS_ALL_COLUMNS != 0 {
        row.columns.reserve_exact(columns.len());
        SubsetIterator::Range(0, columns.len())
    } else {
        subset = ColumnSubset::read(input, columns.len())?;
        subset.iter()
    };
    let has_complex_deletion = flags & HAS_COMPLEX_DELETION != 0;
    for index in indices {
        let Some(column) = columns.get(index) else { break };
        let is_wanted = match wanted {
            None => column.target.is_some(),
            Some(wanted) => wanted.get(index).copied().unwrap_or_default(),
        };
        let live = &row.liveness;
        let data = if column.is_complex {
            read_complex(input, baselines, column, live, has_complex_deletion, is_wanted)?
        } else {
            read_simple(input, baselines, column, live, is_wanted)?
        };
        if let (Some(id), Some(data)) = (column.target, data) {
            row.columns.push((id, data));
        }
    }
    // A header orders columns by name, a row by id.
    if !row.columns.is_sorted_by_key(|(id, _)| *id) {
        row.columns.sort_unstable_by_key(|(id, _)| *id);
    }
    Ok(row)
}

#[inline]
fn read_simple(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    column: &EncodedColumn,
    row: &Liveness,
    is_wanted: bool,
) -> Decoded<Option<ColumnData>> {
    let (_, mut cell) = read_cell(input, baselines, row, column.form, false, is_wanted)?;
    if column.is_counter {
        cell.value = counter::sorted(cell.value);
    }
    Ok((!column.has_dropped(cell.timestamp)).then_some(ColumnData::Simple(cell)))
}

#[inline]
fn read_complex(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    column: &EncodedColumn,
    row: &Liveness,
    has_deletion: bool,
    is_wanted: bool,
) -> Decoded<Option<ColumnData>> {
    let mut deletion = DeletionTime::LIVE;
    if has_deletion {
        deletion = baselines.read_deletion(input)?;
        if !deletion.is_live() && deletion.local_deletion_time == NO_DELETION_TIME {
            return Err(Malformed::Wrong("a collection's deletion without a time"));
        }
        if column.has_dropped(deletion.marked_for_delete_at) {
            deletion = DeletionTime::LIVE;
        }
    }
    let count = input.vint()?;
    // The vector grows as cells are read: the count alone allocates nothing.
    let mut cells = Vec::new();
    for _ in 0..count {
        let (path, cell) = read_cell(input, baselines, row, ValueForm::Prefixed, true, is_wanted)?;
        if column.target.is_some() && !column.has_dropped(cell.timestamp) {
            cells.push((path, cell));
        }
    }
    let is_empty = deletion.is_live() && cells.is_empty();
    let data = ColumnData::Complex(ComplexColumn { deletion, cells });
    Ok((!is_empty || column.keeps_empty).then_some(data))
}

/// Reads a shadowable deletion, which a newer liveness of the row cancels. Cassandra's flag says
/// that the row deletion, which was read before, is the shadowable one. ScyllaDB's flag says that a
/// shadowable deletion follows.
#[cold]
fn read_shadowable_deletion(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    extended: u8,
    row: &mut Row,
) -> Decoded<()> {
    if extended & EXTENDED_SHADOWABLE != 0 {
        row.shadowable_deletion = std::mem::take(&mut row.deletion);
    }
    if extended & EXTENDED_SHADOWABLE_FOLLOWS != 0 {
        let deletion = baselines.read_deletion(input)?;
        row.shadowable_deletion = row.shadowable_deletion.max(deletion);
    }
    Ok(())
}

/// The forms in which the row deletion and the shadowable deletion are written.
#[derive(Debug, Default)]
pub struct RowDeletions {
    /// The deletion that [`HAS_DELETION`] announces.
    pub ordinary: DeletionTime,
    /// The shadowable deletion of ScyllaDB, which follows.
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
/// Fails if a column is not among the header's, or if a cell does not have the form of its column.
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
