//! The only row of a partition of a compact table, if the file stores this row as the static row.
//!
//! Only Thrift clients could write other rows into such a partition. The table cannot represent
//! them, so the reader rejects a file with such rows (in
//! [`RowSource`](super::row_source::RowSource)).

use espalier_mutation::{PartitionHeader, Unfiltered};

/// The partition's only row, if there is one and the stream has not returned it yet.
#[derive(Debug, Default)]
pub(super) struct OnlyRow(Option<Box<Unfiltered>>);

impl OnlyRow {
    /// Takes the static row out of a header, if it is the partition's only row.
    pub(super) fn of(header: &mut PartitionHeader, is_static_compact: bool) -> Self {
        if is_static_compact {
            Self(header.static_row.take().map(|row| Box::new(Unfiltered::Row(row))))
        } else {
            Self(None)
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
