//! Encodes rows. Format: docs/formats/data.md.

use espalier_mutation::{
    ClusteringComparator, ColumnRef, ComplexColumn, DeletionTime, Liveness, Row, RowContent,
    schema::ColumnId,
};
use espalier_types::{CqlType, vint};
use smallvec::SmallVec;

use super::{
    super::{
        clustering_values::write_values,
        column_map::{FileColumn, FileLayout},
        column_subset,
        decode::{UniformOrder, UniformRow},
        layout::{
            Baselines, EXTENDED_SHADOWABLE, EXTENDED_SHADOWABLE_FOLLOWS, EXTENDED_STATIC,
            EXTENSION, HAS_ALL_COLUMNS, HAS_COMPLEX_DELETION, HAS_DELETION, HAS_TIMESTAMP, HAS_TTL,
        },
        ranking::Ranking,
        values::ValueForm,
    },
    cell::write_cell,
    check_row_length, write_lengths,
};
use crate::versions::Family;

/// Encodes rows of a table for the columns of one file's header.
#[derive(Debug)]
pub(crate) struct RowEncoder {
    baselines: Baselines,
    types: Vec<(CqlType, bool)>,
    forms: Vec<ValueForm>,
    ranking: Ranking,
    statics: Columns,
    regulars: Columns,
    family: Family,
    body: Vec<u8>,
}

/// The header's columns of one kind, and the index of each by its column id.
#[derive(Debug)]
struct Columns {
    columns: Vec<FileColumn>,
    index_by_id: Vec<Option<u32>>,
}

impl Columns {
    fn new(columns: Vec<FileColumn>) -> Self {
        let ids = || columns.iter().filter_map(|column| column.target);
        let mut index_by_id = vec![None; ids().map(|id| id.0 as usize + 1).max().unwrap_or(0)];
        for (index, id) in ids().enumerate() {
            if let Some(slot) = index_by_id.get_mut(id.0 as usize) {
                *slot = Some(index as u32);
            }
        }
        Self { columns, index_by_id }
    }

    fn index(&self, id: ColumnId) -> Option<u32> {
        self.index_by_id.get(id.0 as usize).copied().flatten()
    }
}

impl RowEncoder {
    /// Makes an encoder for a layout whose columns all belong to the table, since the header was
    /// made from it.
    pub(crate) fn new(layout: FileLayout, family: Family) -> Self {
        let types = &layout.table.comparator().types;
        let forms = types.iter().map(|(column_type, _)| ValueForm::of(column_type));
        Self {
            baselines: layout.baselines,
            forms: forms.collect(),
            ranking: layout.ranking,
            types: types.to_vec(),
            statics: Columns::new(layout.statics),
            regulars: Columns::new(layout.regulars),
            family,
            body: Vec::new(),
        }
    }

    pub(crate) fn baselines(&self) -> &Baselines {
        &self.baselines
    }

    pub(crate) fn types(&self) -> &[(CqlType, bool)] {
        &self.types
    }

    pub(crate) fn has_static_columns(&self) -> bool {
        !self.statics.columns.is_empty()
    }

    /// Appends a row with a value for each clustering column; `previous` is the length of the
    /// preceding item in bytes.
    pub(crate) fn write_row<'a>(
        &mut self,
        clustering: impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone,
        row: &impl RowContent,
        previous: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let deletions = RowDeletions::of(row, self.family);
        let flags = write_body(&self.regulars, &self.baselines, row, &deletions, &mut self.body)?;
        check_row_length(self.body.len())?;
        match deletions.extended {
            0 => out.push(flags),
            extended => out.extend_from_slice(&[flags | EXTENSION, extended]),
        }
        write_values(&self.types, clustering, out)?;
        write_lengths(self.body.len(), previous, out);
        out.extend_from_slice(&self.body);
        Ok(())
    }

    /// Returns whether [`RowEncoder::write_uniform`] copies uniform rows of a file with this layout
    /// as this encoder would write them: values have the same form, and columns are the same.
    pub(crate) fn has_form_of(&self, layout: &FileLayout) -> bool {
        let columns = &self.regulars.columns;
        let is_same = |(mine, theirs): (&FileColumn, &FileColumn)| {
            mine.target == theirs.target
                && mine.form == theirs.form
                && mine.is_complex == theirs.is_complex
        };
        *self.forms == *layout.clustering
            && columns.len() == layout.regulars.len()
            && columns.iter().zip(&layout.regulars).all(is_same)
    }

    /// The forms of the clustering's values.
    #[inline]
    pub(crate) fn forms(&self) -> &[ValueForm] {
        &self.forms
    }

    /// Returns the data by which the uniform rows that this encoder copies are compared.
    #[inline]
    pub(crate) fn uniform_order<'a>(
        &'a self,
        comparator: &'a ClusteringComparator,
    ) -> UniformOrder<'a> {
        UniformOrder { forms: &self.forms, ranking: self.ranking, comparator }
    }

    /// Appends a uniform row that lies in `bytes`, and returns its new length in bytes.
    #[inline]
    pub(crate) fn write_uniform(
        &self,
        row: &UniformRow,
        bytes: &[u8],
        previous: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let before = out.len();
        let delta = self.baselines.timestamp_delta(row.timestamp);
        let numbers = vint::unsigned_length(previous) + vint::unsigned_length(delta);
        let body = (numbers + row.rest.1 - row.rest.0) as u64;
        let numbers = [body, previous, delta];
        if !append_short(bytes, row, numbers, out) {
            out.extend_from_slice(bytes.get(row.start.0..row.start.1).unwrap_or_default());
            numbers.into_iter().for_each(|number| vint::write_unsigned(number, out));
            out.extend_from_slice(bytes.get(row.rest.0..row.rest.1).unwrap_or_default());
        }
        (out.len() - before) as u64
    }

    /// Appends the static row, which every partition has if the header has static columns.
    pub(crate) fn write_static_row(&mut self, row: &Row, out: &mut Vec<u8>) -> Result<(), String> {
        let deletions = RowDeletions { ordinary: row.deletion, ..RowDeletions::default() };
        let flags = write_body(&self.statics, &self.baselines, row, &deletions, &mut self.body)?;
        check_row_length(self.body.len())?;
        out.extend_from_slice(&[flags | EXTENSION, EXTENDED_STATIC]);
        write_lengths(self.body.len(), 0, out);
        out.extend_from_slice(&self.body);
        Ok(())
    }
}

/// Maximum lengths of the start and the rest of a uniform row for a copy of fixed length. The copy
/// cuts off excess bytes. A copy of variable length would be a call.
const SHORT_START: usize = 16;
const SHORT_REST: usize = 128;
/// Length of the longest start, three numbers of the longest form, and the longest rest.
const SHORT_ROW: usize = SHORT_START + 3 * vint::MAX_BYTES + SHORT_REST;

/// Appends a uniform row with these numbers, if it is short and does not lie at the end of `bytes`.
/// Otherwise it does nothing and returns false.
///
/// The row is assembled in `out`. If it were assembled elsewhere and then copied, the copy would
/// load bytes that were just stored in other widths, and the core would wait until those stores are
/// done.
#[inline]
fn append_short(bytes: &[u8], row: &UniformRow, numbers: [u64; 3], out: &mut Vec<u8>) -> bool {
    let (start_length, rest_length) = (row.start.1 - row.start.0, row.rest.1 - row.rest.0);
    let chunks = || {
        let start = bytes.get(row.start.0..)?.first_chunk::<SHORT_START>()?;
        let rest = bytes.get(row.rest.0..)?.first_chunk::<SHORT_REST>()?;
        Some((start, rest))
    };
    let Some((start, rest)) = chunks() else { return false };
    if start_length > SHORT_START || rest_length > SHORT_REST {
        return false;
    }
    let before = out.len();
    out.extend_from_slice(&[0; SHORT_ROW]);
    let Some(room) = out[before..].first_chunk_mut::<SHORT_ROW>() else { return false };
    room[..SHORT_START].copy_from_slice(start);
    let mut end = start_length;
    for number in numbers {
        if number < 0x80 {
            // Usually two of the numbers take one byte each. The next store then does not wait
            // for their lengths.
            room[end] = number as u8;
            end += 1;
            continue;
        }
        let (encoded, length) = vint::encoded_unsigned(number);
        room[end..end + vint::MAX_BYTES].copy_from_slice(&encoded);
        end += length;
    }
    room[end..end + SHORT_REST].copy_from_slice(rest);
    out.truncate(before + end + rest_length);
    true
}

/// The forms in which the row deletion and the shadowable deletion are written.
#[derive(Debug, Default)]
struct RowDeletions {
    ordinary: DeletionTime,
    following: DeletionTime,
    extended: u8,
}

impl RowDeletions {
    /// Chooses the forms. ScyllaDB's files hold both deletions. Cassandra's files hold one. Of two
    /// deletions, the writer keeps the later one as an ordinary deletion, so that no deleted data
    /// returns. Data that a newer liveness would have brought back stays deleted.
    #[inline]
    fn of(row: &impl RowContent, family: Family) -> Self {
        let (ordinary, shadowable) = (row.deletion(), row.shadowable_deletion());
        if shadowable.is_live() {
            return Self { ordinary, ..Self::default() };
        }
        match family {
            Family::Scylla => {
                Self { ordinary, following: shadowable, extended: EXTENDED_SHADOWABLE_FOLLOWS }
            }
            Family::Cassandra if ordinary.is_live() => {
                Self { ordinary: shadowable, extended: EXTENDED_SHADOWABLE, ..Self::default() }
            }
            Family::Cassandra => Self { ordinary: row.strongest_deletion(), ..Self::default() },
        }
    }
}

/// Writes the body without the two lengths into `body` and returns the flags.
fn write_body(
    columns: &Columns,
    baselines: &Baselines,
    row: &impl RowContent,
    deletions: &RowDeletions,
    body: &mut Vec<u8>,
) -> Result<u8, String> {
    body.clear();
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
    if present.len() == columns.columns.len() {
        flags |= HAS_ALL_COLUMNS;
    } else {
        let indices: SmallVec<[u32; 16]> = present.iter().map(|(index, _)| *index).collect();
        column_subset::write(columns.columns.len(), &indices, body);
    }
    let has_complex_deletion = present.iter().any(
        |(_, data)| matches!(data, ColumnRef::Complex(complex) if !complex.deletion.is_live()),
    );
    if has_complex_deletion {
        flags |= HAS_COMPLEX_DELETION;
    }
    for (index, data) in present {
        let Some(column) = columns.columns.get(index as usize) else { continue };
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
