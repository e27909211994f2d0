//! This module copies raw rows from other SSTables without decoding them.

use espalier_mutation::RowContent;

use super::sstable_writer::SSTableWriter;
use crate::{
    error::Result, index::big::promoted_index::BlockPosition, reader::RawRow,
    versions::ClusteringStatistics,
};

impl SSTableWriter {
    /// Adds a raw row to the partition after the previous row or marker, as
    /// [`add`](SSTableWriter::add) adds a decoded row.
    ///
    /// # Errors
    /// Returns [`SSTableError::Rejected`](crate::error::SSTableError::Rejected) in the same cases
    /// as [`add`](SSTableWriter::add), and an I/O error if a write fails.
    pub async fn add_raw(&mut self, row: &RawRow<'_>) -> Result<()> {
        if row.is_empty() {
            return Ok(());
        }
        self.check_plain(row)?;
        self.write_head()?;
        self.write_row(row.clustering(), row.content(), |last| row.place(last))?;
        self.make_room().await
    }

    /// Writes a row that may follow the previous row or marker of the partition, whose head is
    /// written. `place` sets the position to that of the row.
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

    fn check_plain(&self, row: &RawRow<'_>) -> Result<()> {
        let Some(current) = &self.current else {
            return Err(self.rejected("a row without a partition"));
        };
        let (found, most) = (row.clustering().len(), self.encoder.types().len());
        if found != most {
            let reason = format!("a row with {found} clustering values; the table has {most}");
            return Err(self.rejected(reason));
        }
        if let Some(last) = &current.last {
            let comparator = self.options.table.comparator();
            let order = comparator.compare_values(row.clustering(), 0, last.position());
            if order.is_le() {
                let values: Vec<_> = row.clustering().collect();
                return Err(self.rejected(format!("{values:x?} does not come after {last:?}")));
            }
        }
        if self.features.clustering_statistics == ClusteringStatistics::MinMaxValues {
            self.check_clustering_lengths(row.clustering())?;
        }
        Ok(())
    }
}
