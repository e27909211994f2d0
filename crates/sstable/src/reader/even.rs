//! The scan of a partition for those who copy its even rows; see [`EvenRow`].

use bytes::Bytes;

use super::forward::ForwardRows;
use crate::data::decode::{EvenRow, EvenStep};

/// A partition in which no range deletion is open, up to what is not an even row or not in memory.
pub(crate) struct EvenRows<'scan> {
    rows: &'scan mut ForwardRows,
    /// The row that was looked at last, and the one before that was taken.
    seen: &'scan mut [EvenRow; 2],
    /// Which of them was looked at last.
    now: usize,
    /// Where that one ends.
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
    pub(super) fn new(rows: &'scan mut ForwardRows, seen: &'scan mut [EvenRow; 2]) -> Self {
        Self { rows, seen, now: 0, end: 0 }
    }

    /// Looks at what comes next.
    #[inline]
    pub(crate) fn look(&mut self) -> EvenAhead {
        match self.rows.source().look_even(&mut self.seen[self.now & 1]) {
            Some(EvenStep::Row(end)) => {
                self.end = end;
                EvenAhead::Row
            }
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
        self.rows.pass(self.end);
    }

    /// Steps over the row that was looked at, which is the one that was taken then.
    #[inline]
    pub(crate) fn take(&mut self) {
        self.now ^= 1;
        self.pass();
    }
}
