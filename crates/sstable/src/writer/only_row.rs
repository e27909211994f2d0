//! Partitions that are one row, of tables without clustering columns, from a row that may lie anywhere.

use espalier_mutation::{DecoratedKey, DeletionTime, PartitionHeader, RowContent};

use super::sstable_writer::SSTableWriter;
use crate::{
    error::Result,
    index::big::promoted_index::{BlockPosition, BlockPositionRef, PositionKind},
};

impl SSTableWriter {
    /// Writes a whole partition without a deletion, whose only row has no clustering: what
    /// [`write_partition`](SSTableWriter::write_partition) does of objects. It must not be a row of a counter table, and have something.
    pub async fn write_only_row(&mut self, key: DecoratedKey, row: &impl RowContent) -> Result<()> {
        if !self.encoder.types().is_empty() || self.options.table.is_counter() {
            return Err(
                self.rejected("a partition with clustering columns, or of counters, as one row")
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
