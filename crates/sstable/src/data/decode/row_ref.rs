//! A raw row is a row read in place. Its cells are ranges of the bytes, and the reader makes no
//! object for a cell.
//!
//! Raw rows serve readers that visit each row once and keep nothing of it, such as a dump. Most
//! rows can be read raw: those without extended flags, without complex columns and without
//! counters. For all other rows, and for damaged ones, [`RowRef::read`] returns `None`, and the
//! caller uses [`RowDecoder`](super::RowDecoder), which also returns the reason.
//!
//! Memory: 40 bytes for each column of the widest row, reused for the next row.

use espalier_mutation::{
    DeletionTime, Liveness,
    encoding::{
        cell::CellSpan,
        walk::{REFUSED, RowStart, RowVisitor},
    },
};

use super::{
    super::{
        column_map::{FileColumn, FileLayout},
        input::{DataInput, Decoded, Span},
        layout::{
            END_OF_PARTITION, EXTENSION, HAS_COMPLEX_DELETION, HAS_DELETION, HAS_TIMESTAMP,
            HAS_TTL, IS_MARKER,
        },
    },
    walk_head, walk_row,
};

/// The row that was read last.
#[derive(Clone, Debug)]
pub(crate) struct RowRef {
    pub(crate) liveness: Liveness,
    pub(crate) deletion: DeletionTime,
    /// Ranges of the clustering values; `None` is null.
    pub(crate) clustering: Vec<Option<Span>>,
    /// The cells in the file's order, without those of dropped columns.
    pub(crate) cells: Vec<CellSpan>,
    /// True if all cells were written together with the row.
    pub(crate) is_plain: bool,
}

impl RowRef {
    pub(crate) fn new() -> Self {
        Self {
            liveness: Liveness::NONE,
            deletion: DeletionTime::LIVE,
            clustering: Vec::new(),
            cells: Vec::new(),
            is_plain: true,
        }
    }

    /// Returns whether the row is empty, because its cells belong to dropped columns.
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.liveness.is_none() && self.deletion.is_live()
    }

    /// Reads the row that begins at `start`, and returns the offset after it. Returns `None` if
    /// the caller must use the decoder.
    #[inline]
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        start: usize,
        layout: &FileLayout,
    ) -> Option<usize> {
        self.read_columns(bytes, start, layout, usize::MAX)
    }

    /// Reads a row as [`Self::read`] does. If the row exists whatever its cells are (it has a
    /// liveness that does not expire, and no deletion), leaves out the cells behind the first
    /// `wanted` columns of the file.
    #[inline]
    pub(crate) fn read_columns(
        &mut self,
        bytes: &[u8],
        start: usize,
        layout: &FileLayout,
        wanted: usize,
    ) -> Option<usize> {
        const OTHERS: u8 = END_OF_PARTITION | IS_MARKER | EXTENSION | HAS_COMPLEX_DELETION;
        if bytes.get(start)? & OTHERS != 0 {
            return None;
        }
        let mut input = DataInput::new(bytes, start);
        self.clustering.clear();
        let push = |span| self.clustering.push(span);
        let head = walk_head(&mut input, layout, false, push).ok()??;
        self.cells.clear();
        self.is_plain = true;
        walk_row(&mut input, &head, layout, &mut Collector { row: self, wanted }).ok()?;
        Some(head.end)
    }
}

impl Default for RowRef {
    fn default() -> Self {
        Self::new()
    }
}

/// The visitor that fills a [`RowRef`].
struct Collector<'a> {
    row: &'a mut RowRef,
    wanted: usize,
}

impl RowVisitor for Collector<'_> {
    #[inline]
    fn begin(&mut self, start: &RowStart) -> Decoded<usize> {
        self.row.liveness = start.liveness;
        self.row.deletion = start.deletion;
        let exists = start.flags & (HAS_TIMESTAMP | HAS_TTL | HAS_DELETION) == HAS_TIMESTAMP;
        Ok(if exists { self.wanted } else { usize::MAX })
    }

    #[inline]
    fn cell(&mut self, column: &FileColumn, cell: CellSpan) -> Decoded<()> {
        if column.is_counter {
            return Err(REFUSED);
        }
        if column.target.is_some() && !column.has_dropped(cell.timestamp) {
            self.row.is_plain &= cell.is_like(&self.row.liveness);
            self.row.cells.push(cell);
        }
        Ok(())
    }
}
