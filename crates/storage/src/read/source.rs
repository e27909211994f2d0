//! The stream of one partition from any source.

use espalier_cache::{CachedPartition, FilledPartition};
use espalier_memtable::MemtablePartition;
use espalier_mutation::{
    ClusteringBound, DecoratedKey, DeletionTime, PartitionHeader, Row, Unfiltered, UnfilteredStream,
};
use espalier_sstable::{PartitionStream, ScannedPartition};

use super::{
    cached_source::ReadView,
    trace::{record_fragment, record_skip},
};
use crate::StorageError;
use espalier_runtime::{maybe_yield, trace};

/// A partition in an SSTable.
pub(crate) enum FileSource<'scan> {
    /// Looked up by key.
    SSTable(Box<PartitionStream>),
    /// At the position of a scan.
    Scanned(ScannedPartition<'scan>),
}

/// A stream that is merged with other sources.
#[allow(clippy::large_enum_variant)] // A read has few of them, which do not move.
pub(crate) enum Source<'scan> {
    /// The partition in a memtable.
    Memtable(Box<MemtablePartition>),
    /// The partition in all SSTables, as the row cache holds or reads it.
    Cached(Box<CachedPartition<ReadView>>),
    /// The partition in an SSTable.
    File(FileSource<'scan>),
    /// A partition that is merged from the scans of the SSTables. Its fragments are added to the
    /// row cache as they are returned.
    Filled(Box<FilledPartition<FileSource<'scan>>>),
    /// A partition of at most one row, which was read or made before.
    Row(PartitionHeader, Option<Row>),
}

impl Source<'_> {
    /// Makes a source of a single row. The row has the deletion of its partition, so the header has
    /// none.
    pub(crate) fn only_row(key: DecoratedKey, row: Option<Row>) -> Self {
        Self::Row(PartitionHeader { key, deletion: DeletionTime::LIVE, static_row: None }, row)
    }
}

impl UnfilteredStream for Source<'_> {
    type Error = StorageError;

    fn header(&self) -> &PartitionHeader {
        match self {
            Self::Memtable(partition) => partition.header(),
            Self::File(partition) => partition.header(),
            Self::Cached(partition) => partition.header(),
            Self::Filled(partition) => partition.header(),
            Self::Row(header, _) => header,
        }
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, StorageError> {
        // The stream of a file yields by itself.
        if let Self::File(partition) = self {
            return partition.next().await;
        }
        // The yield is here, not behind the merge, because the merge may drop many fragments before
        // it returns one.
        maybe_yield().await;
        let next = match self {
            Self::Memtable(partition) => partition.next().await?,
            // Not reached, see above.
            Self::File(partition) => return partition.next().await,
            // Its fragments are counted where they are read from the cache or from files.
            Self::Cached(partition) => return partition.next().await,
            // Its fragments are counted where they are merged.
            Self::Filled(partition) => return partition.next().await,
            // Reads of files and of one cached partition have counted the row.
            Self::Row(_, row) => return Ok(row.take().map(Unfiltered::Row)),
        };
        if trace::is_on()
            && let Some(fragment) = &next
        {
            record_fragment(fragment);
        }
        Ok(next)
    }

    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), StorageError> {
        if trace::is_on() && !matches!(self, Self::File(_)) {
            record_skip();
        }
        match self {
            Self::Memtable(partition) => Ok(partition.skip_to(position).await?),
            Self::File(partition) => partition.skip_to(position).await,
            Self::Cached(partition) => partition.skip_to(position).await,
            Self::Filled(partition) => partition.skip_to(position).await,
            Self::Row(..) => Ok(()),
        }
    }

    fn empty_until(&self) -> Option<ClusteringBound> {
        match self {
            Self::Memtable(partition) => partition.empty_until(),
            Self::File(partition) => partition.empty_until(),
            Self::Cached(_) | Self::Filled(_) => None,
            Self::Row(..) => None,
        }
    }

    fn maximum_timestamp(&self) -> i64 {
        match self {
            Self::Memtable(partition) => partition.maximum_timestamp(),
            Self::File(partition) => partition.maximum_timestamp(),
            Self::Cached(partition) => partition.maximum_timestamp(),
            Self::Filled(partition) => partition.maximum_timestamp(),
            Self::Row(..) => i64::MAX,
        }
    }
}

impl UnfilteredStream for FileSource<'_> {
    type Error = StorageError;

    fn header(&self) -> &PartitionHeader {
        match self {
            Self::SSTable(partition) => partition.header(),
            Self::Scanned(partition) => partition.header(),
        }
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, StorageError> {
        maybe_yield().await;
        let next = match self {
            Self::SSTable(partition) => partition.next().await?,
            Self::Scanned(partition) => partition.next().await?,
        };
        if trace::is_on()
            && let Some(fragment) = &next
        {
            record_fragment(fragment);
        }
        Ok(next)
    }

    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), StorageError> {
        if trace::is_on() {
            record_skip();
        }
        match self {
            Self::SSTable(partition) => Ok(partition.skip_to(position).await?),
            Self::Scanned(partition) => Ok(partition.skip_to(position).await?),
        }
    }

    fn empty_until(&self) -> Option<ClusteringBound> {
        match self {
            Self::SSTable(partition) => partition.empty_until(),
            Self::Scanned(partition) => partition.empty_until(),
        }
    }

    fn maximum_timestamp(&self) -> i64 {
        match self {
            Self::SSTable(partition) => partition.maximum_timestamp(),
            Self::Scanned(partition) => partition.maximum_timestamp(),
        }
    }
}
