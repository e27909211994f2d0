//! The row of a partition of a compact table whose columns the file keeps in the static row.
//!
//! Other rows of such a partition can only come from clients that spoke Thrift; the table has no place for them, so that a file
//! with some is refused ([`RowSource`](super::row_source::RowSource) says so).

use espalier_mutation::{PartitionHeader, Unfiltered};

/// A row that comes before all others, if there is one.
#[derive(Debug, Default)]
pub(super) struct OnlyRow(Option<Box<Unfiltered>>);

impl OnlyRow {
    /// Takes the static row out of a header, if it stands for the row.
    pub(super) fn of(header: &mut PartitionHeader, is_static_compact: bool) -> Self {
        match is_static_compact {
            true => Self(header.static_row.take().map(|row| Box::new(Unfiltered::Row(row)))),
            false => Self(None),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<Unfiltered> {
        self.0.take().map(|row| *row)
    }
}
