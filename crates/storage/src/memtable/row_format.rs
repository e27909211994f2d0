//! How rows of a table lie in the memtable.

use bytes::Bytes;
use espalier_mutation::{
    Clustering, DecoratedKey, DeletionTime, PartitionHeader, Row, schema::TableMetadata, unpack_row,
};

use super::{content::Content, path, store::PartitionView, write::split_stored};
use crate::{StorageError, commitlog::BodyReader};

/// What follows from a table's columns.
#[derive(Clone, Copy)]
pub(super) struct RowFormat {
    /// Whether paths give clusterings back byte for byte.
    pub(super) is_exact: bool,
    /// Whether a partition is a single row, and so needs no content of its own: no clustering, no static columns.
    pub(super) is_single_row: bool,
}

impl RowFormat {
    pub(super) fn of(table: &TableMetadata) -> Self {
        Self {
            is_exact: path::is_exact(table.comparator()),
            is_single_row: table.clustering_columns().is_empty() && !table.has_static_columns(),
        }
    }

    /// Deletion and static row of a partition, as it is stored, if it exists.
    pub(super) fn header(
        self,
        table: &TableMetadata,
        key: &DecoratedKey,
        partition: PartitionView<'_>,
    ) -> Result<Option<PartitionHeader>, StorageError> {
        let deletion = match partition.get(&[]) {
            Some(Content::Partition(deletion)) => *deletion,
            _ if self.is_single_row && partition.get(&[path::FIRST_ROW]).is_some() => {
                DeletionTime::LIVE
            }
            _ => return Ok(None),
        };
        let mut static_row = None;
        if table.has_static_columns()
            && let Some(content) = partition.get(&[path::STATIC])
        {
            static_row = Some(self.row(table, &[], content)?);
        }
        Ok(Some(PartitionHeader { key: key.clone(), deletion, static_row }))
    }

    /// A stored row, taken apart. `row_path` is empty for a static row.
    pub(super) fn row(
        self,
        table: &TableMetadata,
        row_path: &[u8],
        content: &Content,
    ) -> Result<Row, StorageError> {
        let (kept, packed) = split_stored(self.is_exact, content.row_bytes().unwrap_or_default());
        let clustering = if row_path.is_empty() || self.is_single_row {
            Clustering::empty()
        } else if self.is_exact {
            path::clustering(table.comparator(), row_path)
                .map_err(|error| corrupt(table, &error))?
        } else {
            let mut reader = BodyReader::new(Bytes::copy_from_slice(kept));
            reader.clustering().map_err(|error| corrupt(table, &error))?
        };
        unpack_row(clustering, &Bytes::copy_from_slice(packed)).map_err(|source| {
            StorageError::PackedRow { table: format!("{}.{}", table.keyspace, table.name), source }
        })
    }
}

pub(super) fn corrupt(table: &TableMetadata, error: &dyn std::error::Error) -> StorageError {
    StorageError::Corrupt {
        what: format!("the memtable of {}.{}", table.keyspace, table.name),
        reason: error.to_string(),
    }
}
