//! This module copies raw rows from other SSTables without decoding them.

use super::sstable_writer::SSTableWriter;
use crate::{error::Result, reader::RawRow, versions::ClusteringStatistics};

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
