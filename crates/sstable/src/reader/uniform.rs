//! A view of a partition for a writer that copies its uniform rows; see [`UniformRow`].

use bytes::Bytes;

use super::forward::ForwardRows;
use crate::data::decode::{UniformRow, UniformStep};

/// Walks uniform rows of a partition in which no range deletion is open, up to the first item that
/// is not a uniform row or not in memory. The scan itself stays where it was until
/// [`UniformRows::settle`].
pub(crate) struct UniformRows<'scan> {
    rows: &'scan mut ForwardRows,
    /// Offset in the window of the first byte that was not stepped over.
    at: usize,
    /// The row that was looked at last, and the row that was taken before it.
    seen: [UniformRow; 2],
    /// Index in `seen` (its lowest bit) of the row that was looked at last.
    now: usize,
}

impl<'scan> UniformRows<'scan> {
    pub(super) fn new(rows: &'scan mut ForwardRows) -> Self {
        let at = rows.source.stream.offset();
        Self { rows, at, seen: [UniformRow::default(); 2], now: 0 }
    }

    /// Returns whether the next item is a uniform row or the end of the partition; `None` if it is
    /// neither, or not wholly in memory.
    #[inline]
    pub(crate) fn look(&mut self) -> Option<UniformStep> {
        self.rows.source.look_uniform(self.at, &mut self.seen[self.now & 1])
    }

    /// Returns the row that was looked at.
    #[inline]
    pub(crate) fn row(&self) -> &UniformRow {
        &self.seen[self.now & 1]
    }

    /// Returns the row that was taken last.
    #[inline]
    pub(crate) fn taken(&self) -> &UniformRow {
        &self.seen[(self.now & 1) ^ 1]
    }

    /// Returns the window of Data.db that holds these rows.
    #[inline]
    pub(crate) fn bytes(&self) -> &Bytes {
        self.rows.source.stream.window()
    }

    /// Steps over the row that was looked at.
    #[inline]
    pub(crate) fn pass(&mut self) {
        self.at = self.row().rest.1;
    }

    /// Steps over the row that was looked at, and keeps it as the row that was taken last.
    #[inline]
    pub(crate) fn take(&mut self) {
        self.pass();
        self.now ^= 1;
    }

    /// Moves the scan to where this view stands.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.rows.pass(self.at);
    }
}
