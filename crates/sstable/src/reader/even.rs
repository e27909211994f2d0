//! The scan of a partition for those who copy its even rows; see [`EvenRow`].

use bytes::Bytes;

use super::forward::ForwardRows;
use crate::data::decode::{EvenRow, EvenStep};

/// A partition in which no range deletion is open, up to what is not an even row or not in memory. The scan itself stays where it was
/// until [`EvenRows::settle`].
pub(crate) struct EvenRows<'scan> {
    rows: &'scan mut ForwardRows,
    /// Offset in the window of what was not stepped over yet.
    at: usize,
    /// The row that was looked at last, and the one that was taken before.
    seen: [EvenRow; 2],
    /// Which of them was looked at last.
    now: usize,
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
    pub(super) fn new(rows: &'scan mut ForwardRows) -> Self {
        let at = rows.source().stream.offset();
        Self { rows, at, seen: [EvenRow::default(); 2], now: 0 }
    }

    /// Looks at what comes next.
    #[inline]
    pub(crate) fn look(&mut self) -> EvenAhead {
        match self.rows.source().look_even(self.at, &mut self.seen[self.now & 1]) {
            Some(EvenStep::Row) => EvenAhead::Row,
            Some(EvenStep::End) => EvenAhead::End,
            None => EvenAhead::Other,
        }
    }

    /// The row that was looked at.
    #[inline]
    pub(crate) fn row(&self) -> &EvenRow {
        &self.seen[self.now & 1]
    }

    /// The row that was taken last.
    #[inline]
    pub(crate) fn taken(&self) -> &EvenRow {
        &self.seen[(self.now & 1) ^ 1]
    }

    /// The bytes in which these rows lie.
    #[inline]
    pub(crate) fn bytes(&self) -> &Bytes {
        self.rows.source().stream.window()
    }

    /// Steps over the row that was looked at.
    #[inline]
    pub(crate) fn pass(&mut self) {
        self.at = self.row().rest.1;
    }

    /// Steps over the row that was looked at, which is the one that was taken then.
    #[inline]
    pub(crate) fn take(&mut self) {
        self.pass();
        self.now ^= 1;
    }

    /// The scan goes where this is.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.rows.pass(self.at);
    }
}
