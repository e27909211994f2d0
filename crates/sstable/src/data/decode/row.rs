//! Reads rows: as objects, or for a visitor. Format: docs/formats/data.md.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    Clustering, Row,
    encoding::{
        row::read_row_body,
        walk::{RowVisitor, walk_row_body},
    },
    schema::ColumnId,
};

use super::{
    super::{
        clustering_values::to_values,
        column_map::{ColumnSelection, FileColumn, FileLayout},
        input::{DataInput, Decoded},
    },
    Head, UnfilteredHead,
};

/// Decodes rows of a file as rows of a table, for one read.
#[derive(Clone, Debug)]
pub(crate) struct RowDecoder {
    pub(crate) layout: Arc<FileLayout>,
    wanted_statics: Wanted,
    wanted_regulars: Wanted,
}

/// A flag for each column of the file, in the file's order: true if the reader wants the column's
/// values. `None` if the reader wants the values of all columns.
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

    /// Reads the row of `head`, which was read from `bytes`. The row may be empty, because cells of
    /// dropped columns are left out.
    pub(crate) fn read_row(&self, bytes: &Bytes, head: &UnfilteredHead) -> Decoded<Row> {
        let clustering = Clustering { values: to_values(bytes, &head.spans) };
        let columns = (self.layout.regulars.as_slice(), &self.wanted_regulars);
        self.read_body(bytes, &head.head, clustering, columns)
    }

    /// Reads a static row, as [`Self::read_row`] reads a row.
    pub(crate) fn read_static_row(&self, bytes: &Bytes, head: &Head) -> Decoded<Row> {
        let columns = (self.layout.statics.as_slice(), &self.wanted_statics);
        self.read_body(bytes, head, Clustering::empty(), columns)
    }

    fn read_body(
        &self,
        bytes: &Bytes,
        head: &Head,
        clustering: Clustering,
        (columns, wanted): (&[FileColumn], &Wanted),
    ) -> Decoded<Row> {
        let mut input = DataInput::new(bytes, head.body);
        input.vint()?; // the length of the preceding item
        let (baselines, flags) = (&self.layout.baselines, (head.flags, head.extended));
        let wanted = wanted.as_deref();
        let row =
            read_row_body((bytes, &mut input), baselines, flags, clustering, columns, wanted)?;
        head.check_end(input.offset())?;
        Ok(row)
    }
}

/// Walks over the regular columns of the row of `head`, with `input` at the row's body. Succeeds
/// only if `input` has all of the row.
#[inline(always)]
pub(crate) fn walk_row(
    input: &mut DataInput<'_>,
    head: &Head,
    layout: &FileLayout,
    visitor: &mut impl RowVisitor,
) -> Decoded<()> {
    input.vint()?; // the length of the preceding item
    let flags = (head.flags, head.extended);
    if !walk_row_body(input, &layout.baselines, flags, &layout.regulars, visitor)? {
        // The visitor leaves out the rest.
        input.span(head.end.saturating_sub(input.offset()))?;
    }
    head.check_end(input.offset())
}
