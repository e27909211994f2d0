//! The scan of a partition for those who copy its even rows; see [`EvenRow`].

use bytes::Bytes;

use super::forward::ForwardRows;
use crate::data::decode::{EvenRow, EvenStep};

/// A partition in which no range deletion is open, up to what is not an even row or not in memory.
pub(crate) struct EvenRows<'scan> {
    rows: &'scan mut ForwardRows,
    row: &'scan mut EvenRow,
    /// Where the row ends that was looked at.
    end: usize,
}

/// What is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvenAhead {
    Row,
    End,
    /// Something else, or more than is in memory.
    Other,
}

impl<'scan> EvenRows<'scan> {
    pub(super) fn new(rows: &'scan mut ForwardRows, row: &'scan mut EvenRow) -> Self {
        Self { rows, row, end: 0 }
    }

    /// Looks at what comes next.
    #[inline]
    pub(crate) fn look(&mut self) -> EvenAhead {
        match self.rows.source().look_even(self.row) {
            Some(EvenStep::Row(end)) => {
                self.end = end;
                EvenAhead::Row
            }
            Some(EvenStep::End) => EvenAhead::End,
            None => EvenAhead::Other,
        }
    }

    /// The row that was looked at, and the bytes in which it lies.
    #[inline]
    pub(crate) fn row(&self) -> (&EvenRow, &Bytes) {
        (self.row, self.rows.source().stream.window())
    }

    /// Steps over the row that was looked at.
    #[inline]
    pub(crate) fn pass(&mut self) {
        self.rows.pass(self.end);
    }

    /// Steps over the row that was looked at, and leaves what was seen of it in exchange for another one's.
    #[inline]
    pub(crate) fn pass_into(&mut self, passed: &mut EvenRow) {
        std::mem::swap(self.row, passed);
        self.pass();
    }
}
