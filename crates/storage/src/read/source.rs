//! One partition from any of the places that hold it.

use espalier_mutation::{PartitionHeader, Unfiltered, UnfilteredStream};
use espalier_sstable::{PartitionStream, ScannedPartition};

use crate::{StorageError, memtable::MemtablePartition};

/// A stream that is merged with others.
pub(crate) enum Source<'scan> {
    /// A memtable's.
    Memtable(MemtablePartition),
    /// An SSTable's, looked up by key.
    SSTable(PartitionStream),
    /// An SSTable's, where a scan stands.
    Scanned(ScannedPartition<'scan>),
}

impl UnfilteredStream for Source<'_> {
    type Error = StorageError;

    fn header(&self) -> &PartitionHeader {
        match self {
            Self::Memtable(partition) => partition.header(),
            Self::SSTable(partition) => partition.header(),
            Self::Scanned(partition) => partition.header(),
        }
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, StorageError> {
        match self {
            Self::Memtable(partition) => partition.next().await,
            Self::SSTable(partition) => Ok(partition.next().await?),
            Self::Scanned(partition) => Ok(partition.next().await?),
        }
    }
}
