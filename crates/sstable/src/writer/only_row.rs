//! This module writes partitions of one row for tables without clustering columns, from any source
//! of the row.

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
}
