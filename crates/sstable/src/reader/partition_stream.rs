//! A stream of one partition.

use espalier_mutation::{ClusteringBound, PartitionHeader, Unfiltered, UnfilteredStream};

use super::{forward::ForwardRows, only_row::OnlyRow, reverse::ReverseRows};
use crate::error::{Result, SSTableError};

#[derive(Debug)]
pub(super) enum Rows {
    Forward(ForwardRows),
    Reverse(ReverseRows),
}

/// A stream of a partition. It owns its files and buffers, so that it may outlive the reader that
/// opened it.
#[derive(Debug)]
pub struct PartitionStream {
    header: PartitionHeader,
    only_row: OnlyRow,
    rows: Rows,
    maximum_timestamp: i64,
}

impl PartitionStream {
    pub(super) fn new(
        header: PartitionHeader,
        only_row: OnlyRow,
        rows: Rows,
        maximum_timestamp: i64,
    ) -> Self {
        Self { header, only_row, rows, maximum_timestamp }
    }
}

impl PartitionStream {
    /// Returns the position of the next byte of Data.db, before compression.
    pub fn position(&self) -> u64 {
        match &self.rows {
            Rows::Forward(rows) => rows.position(),
            Rows::Reverse(rows) => rows.position(),
        }
    }
}

impl UnfilteredStream for PartitionStream {
    type Error = SSTableError;

    fn header(&self) -> &PartitionHeader {
        &self.header
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>> {
        if let Some(row) = self.only_row.take() {
            return Ok(Some(row));
        }
        match &mut self.rows {
            Rows::Forward(rows) => rows.next().await,
            Rows::Reverse(rows) => rows.next().await,
        }
    }

    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<()> {
        match &mut self.rows {
            Rows::Forward(rows) => rows.skip_to(position).await,
            Rows::Reverse(rows) => rows.skip_to(position).await,
        }
    }

    fn maximum_timestamp(&self) -> i64 {
        self.maximum_timestamp
    }
}
