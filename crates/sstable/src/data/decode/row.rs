//! Decodes the body of a row. Format: docs/formats/data.md.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    Clustering, ColumnData, ComplexColumn, DeletionTime, Liveness, NO_DELETION_TIME, Row, counter,
    schema::{ColumnId, is_before_drop},
};

use super::{
    super::{
        clustering_values::to_values,
        column_map::{ColumnSelection, FileColumn, FileLayout},
        column_subset::{ColumnSubset, SubsetIterator},
        input::{DataInput, Decoded, Malformed},
        layout::{
            Baselines, EXTENDED_SHADOWABLE, EXTENDED_SHADOWABLE_FOLLOWS, HAS_ALL_COLUMNS,
            HAS_COMPLEX_DELETION, HAS_DELETION, HAS_TIMESTAMP, HAS_TTL,
        },
        values::ValueForm,
    },
    UnfilteredHead,
    cell::{read_cell, read_positive_ttl},
};

/// Decodes rows of a file as rows of a table, for one read.
#[derive(Clone, Debug)]
pub(crate) struct RowDecoder {
    pub(crate) layout: Arc<FileLayout>,
    wanted_statics: Wanted,
    wanted_regulars: Wanted,
}

/// For each column, by its index in the file, whether the reader wants the column's values. `None`
/// if the reader wants the values of all columns.
type Wanted = Option<Box<[bool]>>;

impl RowDecoder {
    pub(crate) fn new(layout: Arc<FileLayout>, selection: &ColumnSelection) -> Self {
        let sorted = match selection {
            ColumnSelection::All => None,
            ColumnSelection::Only(ids) => {
                let mut ids = ids.to_vec();
                ids.sort_unstable();
                Some(ids)
            }
        };
        let wanted = |columns: &[FileColumn]| {
            let ids = sorted.as_ref()?;
            let is_wanted = |id: ColumnId| ids.binary_search(&id).is_ok();
            Some(columns.iter().map(|column| column.target.is_some_and(is_wanted)).collect())
        };
        Self {
            wanted_statics: wanted(&layout.statics),
            wanted_regulars: wanted(&layout.regulars),
            layout,
        }
    }

    /// Returns whether the reader wants the values of all columns.
    pub(crate) fn wants_all(&self) -> bool {
        self.wanted_statics.is_none() && self.wanted_regulars.is_none()
    }

    /// Reads the row that begins at `start` of `bytes`, from which the head was read. The row is
    /// empty if all its cells belong to dropped columns.
    pub(crate) fn read_row(
        &self,
        bytes: &Bytes,
        start: usize,
        head: &UnfilteredHead,
    ) -> Decoded<Row> {
        let clustering = Clustering { values: to_values(bytes, &head.spans) };
        self.read_body(bytes, start, head, clustering, &self.layout.regulars, &self.wanted_regulars)
    }

    /// Reads a static row, as [`Self::read_row`] reads a row.
    pub(crate) fn read_static_row(
        &self,
        bytes: &Bytes,
        start: usize,
        head: &UnfilteredHead,
    ) -> Decoded<Row> {
        let clustering = Clustering::empty();
        self.read_body(bytes, start, head, clustering, &self.layout.statics, &self.wanted_statics)
    }

    fn read_body(
        &self,
        bytes: &Bytes,
        start: usize,
        head: &UnfilteredHead,
        clustering: Clustering,
        columns: &[FileColumn],
        wanted: &Wanted,
    ) -> Decoded<Row> {
        let baselines = &self.layout.baselines;
        let mut input = DataInput::new(bytes, start + head.content);
        let mut row = Row::empty(clustering);
        if head.flags & HAS_TIMESTAMP != 0 {
            row.liveness = Liveness::live(baselines.read_timestamp(&mut input)?);
            if head.flags & HAS_TTL != 0 {
                row.liveness.ttl = read_positive_ttl(&mut input, baselines)?;
                row.liveness.local_expiration = baselines.read_local_deletion_time(&mut input)?;
            }
        }
        if head.flags & HAS_DELETION != 0 {
            row.deletion = baselines.read_deletion(&mut input)?;
        }
        if head.extended != 0 {
            read_shadowable_deletion(&mut input, baselines, head.extended, &mut row)?;
        }
        let subset;
        let indices = if head.flags & HAS_ALL_COLUMNS != 0 {
            row.columns.reserve_exact(columns.len());
            SubsetIterator::Range(0, columns.len())
        } else {
            subset = ColumnSubset::read(&mut input, columns.len())?;
            subset.iter()
        };
        let has_complex_deletion = head.flags & HAS_COMPLEX_DELETION != 0;
        for index in indices {
            let Some(column) = columns.get(index) else { break };
            let is_wanted = match wanted {
                None => column.target.is_some(),
                Some(wanted) => wanted.get(index).copied().unwrap_or_default(),
            };
            let data = if !column.is_complex {
                self.read_simple(&mut input, column, &row.liveness, is_wanted)?
            } else {
                let live = &row.liveness;
                self.read_complex(&mut input, column, live, has_complex_deletion, is_wanted)?
            };
            if let (Some(id), Some(data)) = (column.target, data) {
                row.columns.push((id, data));
            }
        }
        if input.offset() as u64 != (start + head.length) as u64 + head.body_length {
            return Err(Malformed::Wrong("a row's body has another length than announced"));
        }
        // A file orders columns by name, a row by id.
        if !row.columns.is_sorted_by_key(|(id, _)| *id) {
            row.columns.sort_unstable_by_key(|(id, _)| *id);
        }
        Ok(row)
    }

    fn read_simple(
        &self,
        input: &mut DataInput<'_>,
        column: &FileColumn,
        row: &Liveness,
        is_wanted: bool,
    ) -> Decoded<Option<ColumnData>> {
        let baselines = &self.layout.baselines;
        let (_, mut cell) = read_cell(input, baselines, row, column.form, false, is_wanted)?;
        if column.is_counter {
            cell.value = counter::sorted(cell.value);
        }
        Ok((!column.has_dropped(cell.timestamp)).then_some(ColumnData::Simple(cell)))
    }

    fn read_complex(
        &self,
        input: &mut DataInput<'_>,
        column: &FileColumn,
        row: &Liveness,
        has_deletion: bool,
        is_wanted: bool,
    ) -> Decoded<Option<ColumnData>> {
        let baselines = &self.layout.baselines;
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
            let (path, cell) =
                read_cell(input, baselines, row, ValueForm::Prefixed, true, is_wanted)?;
            if column.target.is_some() && !column.has_dropped(cell.timestamp) {
                cells.push((path, cell));
            }
        }
        let column = ComplexColumn { deletion, cells };
        let is_empty = column.deletion.is_live() && column.cells.is_empty();
        Ok((!is_empty).then_some(ColumnData::Complex(column)))
    }
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

impl FileColumn {
    /// Returns whether data of this timestamp was dropped with an earlier column of the name.
    #[inline]
    pub(crate) fn has_dropped(&self, timestamp: i64) -> bool {
        is_before_drop(self.dropped_time_us, timestamp)
    }
}
