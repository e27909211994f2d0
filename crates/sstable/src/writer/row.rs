//! This module writes rows from any source, without decoding them, and partitions of one row for
//! tables without clustering columns.

use espalier_mutation::{DecoratedKey, DeletionTime, PartitionHeader, RowContent};

use super::sstable_writer::SSTableWriter;
use crate::{error::Result, index::big::promoted_index::BlockPosition};

impl SSTableWriter {
    /// Writes a whole partition without a deletion. Its only row has no clustering, must not be
    /// empty, and must not belong to a counter table.
    /// [`write_partition`](SSTableWriter::write_partition) does the same for decoded partitions.
    ///
    /// # Errors
    /// Returns [`SSTableError::Rejected`](crate::error::SSTableError::Rejected) if a partition is
    /// open, if the table has clustering columns or counters, if the key is out of order or too
    /// long, or if the version cannot hold the row; and an I/O error if a write fails.
    pub async fn write_only_row(&mut self, key: DecoratedKey, row: &impl RowContent) -> Result<()> {
        if !self.encoder.types().is_empty() || self.options.table.is_counter() {
            return Err(
                self.rejected("a one-row partition of a table with clustering columns or counters")
            );
        }
        let header = PartitionHeader { key, deletion: DeletionTime::LIVE, static_row: None };
        self.start_partition(header)?;
        self.write_head()?;
        let place = |last: &mut Option<_>| BlockPosition::set_row(last, std::iter::empty());
        self.write_row(std::iter::empty(), row, place)?;
        self.end_partition().await
    }

    /// Writes a row behind the previous row or marker. The caller has written the head of the
    /// partition and checked the order. `place` sets the position to that of the row.
    #[inline]
    pub(super) fn write_row<'a>(
        &mut self,
        clustering: impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone,
        row: &impl RowContent,
        place: impl FnOnce(&mut Option<BlockPosition>),
    ) -> Result<()> {
        let position = self.data.position();
        let Some(current) = &mut self.current else { return Ok(()) };
        let offset = position - current.start;
        let previous = offset - current.previous_start;
        let out = self.data.buffer();
        let before = out.len();
        if let Err(reason) = self.encoder.write_row(clustering, row, previous, out) {
            out.truncate(before);
            return Err(self.rejected(reason));
        }
        let is_first = current.last.is_none();
        place(&mut current.last);
        current.previous_start = offset;
        let (types, open) = (self.encoder.types(), current.open_deletion);
        let Some(place) = current.last.as_ref().map(BlockPosition::as_ref) else { return Ok(()) };
        self.index.begin(types, place, offset, open)?;
        if is_first {
            self.collector.cover_first_row(place.values);
        }
        self.collector.add_row_data(row);
        let end = self.data.position() - current.start;
        self.index.end(types, place, end, open)
    }
}
