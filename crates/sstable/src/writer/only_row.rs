//! This module writes partitions of one row for tables without clustering columns, from any source
//! of the row.

use espalier_mutation::{DecoratedKey, DeletionTime, PartitionHeader, RowContent};

use super::sstable_writer::SSTableWriter;
use crate::{
    error::Result,
    index::big::promoted_index::{BlockPosition, BlockPositionRef, PositionKind},
};

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
        let position = self.data.position();
        let Some(current) = &mut self.current else { return Ok(()) };
        let offset = position - current.start;
        let out = self.data.buffer();
        let before = out.len();
        if let Err(reason) = self.encoder.write_row(std::iter::empty(), row, offset, out) {
            out.truncate(before);
            return Err(self.rejected(reason));
        }
        current.previous_start = offset;
        let place = BlockPositionRef { kind: PositionKind::Row, values: &[] };
        self.index.begin(&[], place, offset, DeletionTime::LIVE)?;
        self.collector.cover_first_row(&[]);
        self.collector.add_row_data(row);
        let end = self.data.position() - current.start;
        self.index.end(&[], place, end, DeletionTime::LIVE)?;
        BlockPosition::set_row(&mut current.last, std::iter::empty());
        self.end_partition().await
    }
}
