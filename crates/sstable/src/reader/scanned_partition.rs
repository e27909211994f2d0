//! The partition in which a scan stands: a stream of fragments, or a walk over rows in place.

use std::ops::ControlFlow;

use espalier_mutation::{ClusteringBound, PartitionHeader, Unfiltered, UnfilteredStream};

use super::{
    forward::ForwardRows,
    only_row::OnlyRow,
    raw_row::{Ahead, RawRow},
    scan::skip_bytes,
    sstable_reader::SSTableReader,
};
use crate::{
    data::decode::RowRef,
    error::{Result, SSTableError},
    page_cache::Caching,
};

/// The partition in which a scan stands.
#[derive(Debug)]
pub struct ScannedPartition<'scan> {
    pub(super) header: &'scan PartitionHeader,
    pub(super) only_row: &'scan mut OnlyRow,
    pub(super) rows: &'scan mut ForwardRows,
    pub(super) start: u64,
    pub(super) reader: &'scan SSTableReader,
    pub(super) caching: Caching,
    /// Memory for a row in place; `None` if the scan does not read all columns of all rows, or of
    /// all rows from a bound on.
    pub(super) view: Option<&'scan mut RowRef>,
    pub(super) wanted_columns: usize,
}

impl ScannedPartition<'_> {
    /// Calls `take` with the next rows in place, at most `most` of them, without waiting. Returns
    /// `Break` if `take` broke (the row at which it broke is stepped over), and `Continue` after
    /// `most` rows. Returns `None` if another item comes next or bytes are missing: see
    /// [`Self::look`].
    ///
    /// If `reads_all_cells` is not set, rows that exist whatever their cells are may lack the cells
    /// of columns that [`Scan::expect_columns`] did not name.
    #[inline]
    pub fn walk_rows(
        &mut self,
        most: usize,
        reads_all_cells: bool,
        take: &mut impl FnMut(&RawRow<'_>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let view = self.view.as_deref_mut()?;
        if !self.only_row.is_none() || !self.rows.is_free() || self.rows.start_ahead().is_some() {
            return None;
        }
        let wanted = if reads_all_cells { usize::MAX } else { self.wanted_columns };
        for _ in 0..most {
            let end = self.rows.source.view_columns(view, wanted)?;
            let flow = take(&self.rows.source.plain(view));
            self.rows.pass(end);
            if flow.is_break() {
                return Some(flow);
            }
        }
        Some(ControlFlow::Continue(()))
    }

    /// Looks at the next item, and reads more bytes if it has to. After [`Ahead::Raw`],
    /// [`Self::walk_rows`] takes at least one row.
    ///
    /// # Errors
    ///
    /// Returns an error if the data is damaged or cannot be read.
    pub async fn look(&mut self) -> Result<Ahead> {
        if self.view.is_some()
            && let Some(start) = self.rows.start_ahead().cloned()
        {
            self.skip_to(&start).await?;
            self.rows.enter_slice().await?;
        }
        let Some(view) = self.view.as_deref_mut().filter(|_| self.only_row.is_none()) else {
            return Ok(Ahead::Other);
        };
        Ok(self.rows.look(view).await?.0)
    }

    /// Returns the position of the partition in Data.db, before compression.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the position of the next byte of Data.db, before compression.
    pub fn position(&self) -> u64 {
        self.rows.position()
    }
}

impl UnfilteredStream for ScannedPartition<'_> {
    type Error = SSTableError;

    fn header(&self) -> &PartitionHeader {
        self.header
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>> {
        match self.only_row.take() {
            Some(row) => Ok(Some(row)),
            None => self.rows.next().await,
        }
    }

    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<()> {
        self.rows.skip_to(position).await?;
        if self.rows.wants_index(skip_bytes(self.caching)).await? {
            let key = &self.header.key;
            if let Some(found) =
                self.reader.find_partition(key, Some(self.start), self.caching).await?
                && found.position == self.start
                && let Some(index) = found.index
            {
                self.rows.use_index(self.start, index).await?;
            }
        }
        Ok(())
    }

    fn maximum_timestamp(&self) -> i64 {
        self.reader.maximum_timestamp()
    }
}
