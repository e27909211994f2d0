//! One partition from any of the places that hold it.

use espalier_mutation::{
    ClusteringBound, DecoratedKey, DeletionTime, PartitionHeader, Row, Unfiltered, UnfilteredStream,
};
use espalier_sstable::{PartitionStream, ScannedPartition};

use super::trace::{note_fragment, note_skip};
use crate::{
    StorageError,
    cache::{CachedPartition, FilledPartition},
    memtable::MemtablePartition,
};
use espalier_runtime::{maybe_yield, trace};

/// A stream that is merged with others.
#[allow(clippy::large_enum_variant)] // One for each source of a read; they are few and do not move.
pub(crate) enum Source<'scan> {
    /// A memtable's.
    Memtable(Box<MemtablePartition>),
    /// All files', as the row cache has them or reads them.
    Cached(Box<CachedPartition>),
    /// An SSTable's, looked up by key.
    SSTable(Box<PartitionStream>),
    /// An SSTable's, where a scan stands.
    Scanned(ScannedPartition<'scan>),
    /// Those of all scans, merged, which the row cache adds.
    Filled(Box<FilledPartition<'scan>>),
    /// A row that was collected from several.
    Row(PartitionHeader, Option<Row>),
}

impl Source<'_> {
    /// A partition that is no more than a row, under which its deletion is kept.
    pub(crate) fn only_row(key: DecoratedKey, row: Option<Row>) -> Self {
        Self::Row(PartitionHeader { key, deletion: DeletionTime::LIVE, static_row: None }, row)
    }
}

impl UnfilteredStream for Source<'_> {
    type Error = StorageError;

    fn header(&self) -> &PartitionHeader {
        match self {
            Self::Memtable(partition) => partition.header(),
            Self::SSTable(partition) => partition.header(),
            Self::Cached(partition) => partition.header(),
            Self::Scanned(partition) => partition.header(),
            Self::Filled(partition) => partition.header(),
            Self::Row(header, _) => header,
        }
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, StorageError> {
        // Here and not where rows come out of the merge, for it may drop many before it gives one.
        maybe_yield().await;
        let next = match self {
            Self::Memtable(partition) => partition.next().await?,
            Self::SSTable(partition) => partition.next().await?,
            // What it reads from files is met there.
            Self::Cached(partition) => return partition.next().await,
            Self::Scanned(partition) => partition.next().await?,
            // What it merges is met there.
            Self::Filled(partition) => return partition.next().await,
            // It was met before, where it was collected from.
            Self::Row(_, row) => return Ok(row.take().map(Unfiltered::Row)),
        };
        if trace::is_on()
            && let Some(fragment) = &next
        {
            note_fragment(fragment);
        }
        Ok(next)
    }

    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), StorageError> {
        if trace::is_on() {
            note_skip();
        }
        match self {
            Self::Memtable(partition) => partition.skip_to(position).await,
            Self::SSTable(partition) => Ok(partition.skip_to(position).await?),
            Self::Cached(partition) => partition.skip_to(position).await,
            Self::Scanned(partition) => Ok(partition.skip_to(position).await?),
            Self::Filled(partition) => partition.skip_to(position).await,
            Self::Row(..) => Ok(()),
        }
    }

    fn dead_until(&self) -> Option<ClusteringBound> {
        match self {
            Self::Memtable(partition) => partition.dead_until(),
            Self::SSTable(partition) => partition.dead_until(),
            Self::Cached(_) | Self::Filled(_) => None,
            Self::Scanned(partition) => partition.dead_until(),
            Self::Row(..) => None,
        }
    }

    fn maximum_timestamp(&self) -> i64 {
        match self {
            Self::Memtable(partition) => partition.maximum_timestamp(),
            Self::SSTable(partition) => partition.maximum_timestamp(),
            Self::Cached(partition) => partition.maximum_timestamp(),
            Self::Scanned(partition) => partition.maximum_timestamp(),
            Self::Filled(partition) => partition.maximum_timestamp(),
            Self::Row(..) => i64::MAX,
        }
    }
}
