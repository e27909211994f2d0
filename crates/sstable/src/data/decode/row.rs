//! Decodes the body of a row. Format: docs/formats/data.md.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{Clustering, Row, encoding::row::read_row_body, schema::ColumnId};

use super::{
    super::{
        clustering_values::to_values,
        column_map::{ColumnSelection, FileColumn, FileLayout},
        input::{DataInput, Decoded, Malformed},
    },
    UnfilteredHead,
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
        let mut input = DataInput::new(bytes, start + head.content);
        let row = read_row_body(
            &mut input,
            &self.layout.baselines,
            (head.flags, head.extended),
            clustering,
            columns,
            wanted.as_deref(),
        )?;
        if input.offset() as u64 != (start + head.length) as u64 + head.body_length {
            return Err(Malformed::Wrong("a row's body has another length than announced"));
        }
        Ok(row)
    }
}
