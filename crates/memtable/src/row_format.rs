//! The stored form of a table's rows in the memtable.

use bytes::Bytes;
use espalier_mutation::{
    Clustering, ClusteringBound, DecoratedKey, DeletionTime, PartitionHeader, Row,
    encoding::body::{BodyReader, put_values},
    pack_row, path,
    reconcile::remove_dropped,
    schema::TableMetadata,
    unpack_row,
};

use super::{content::Content, store::PartitionView};
use crate::MemtableError;

/// The properties of the stored form that follow from a table's columns.
#[derive(Clone, Copy)]
pub struct RowFormat {
    /// True if paths preserve clusterings byte for byte.
    pub is_exact: bool,
    /// True if a partition is a single row, and so needs no content of its own: the table has no
    /// clustering and no static columns.
    pub is_single_row: bool,
}

impl RowFormat {
    /// Determines the form of a table's rows.
    pub fn of(table: &TableMetadata) -> Self {
        Self {
            is_exact: path::is_exact(table.comparator()),
            is_single_row: table.clustering_columns().is_empty() && !table.has_static_columns(),
        }
    }

    /// Returns the deletion and the static row of a partition as stored, if the partition exists.
    pub(super) fn header(
        self,
        table: &TableMetadata,
        key: &DecoratedKey,
        partition: PartitionView<'_>,
    ) -> Result<Option<PartitionHeader>, MemtableError> {
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

    /// Decodes a stored row, without the cells of dropped columns. `row_path` is empty for a static
    /// row.
    pub(super) fn row(
        self,
        table: &TableMetadata,
        row_path: &[u8],
        content: &Content,
    ) -> Result<Row, MemtableError> {
        self.row_of(table, row_path, content.row_bytes().unwrap_or_default())
    }

    /// Decodes the bytes of a stored row, without the cells of dropped columns. `row_path` is empty
    /// for a static row.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are damaged.
    pub fn row_of(
        self,
        table: &TableMetadata,
        row_path: &[u8],
        stored: &[u8],
    ) -> Result<Row, MemtableError> {
        let (kept, packed) = split_stored(self.is_exact, stored);
        let clustering = if row_path.is_empty() || self.is_single_row {
            Clustering::empty()
        } else if self.is_exact {
            path::clustering(table.comparator(), row_path)
                .map_err(|error| MemtableError::corrupt(table, &error))?
        } else {
            let mut reader = BodyReader::new(Bytes::copy_from_slice(kept));
            reader.clustering().map_err(|error| MemtableError::corrupt(table, &error))?
        };
        let mut row = unpack_row(clustering, &Bytes::copy_from_slice(packed))
            .map_err(|source| MemtableError::packed_row(table, source))?;
        remove_dropped(table, &mut row);
        Ok(row)
    }

    /// Appends the bytes that are stored for a row or static row: the values that its path does not
    /// preserve, and its packed form.
    pub fn store_row(self, row: &Row, out: &mut Vec<u8>) {
        self.keep(&row.clustering.values, out);
        pack_row(row, out);
    }

    /// Appends the clustering values that the path of a row does not preserve, as they precede the
    /// packed row.
    #[inline]
    pub(super) fn keep<V: AsRef<[u8]>>(self, values: &[Option<V>], out: &mut Vec<u8>) {
        if self.is_exact {
            return;
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        put_values(values, out);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Returns the values of a bound as written, if its path does not preserve them.
    pub(super) fn kept_values(self, bound: &ClusteringBound) -> Option<Box<Bytes>> {
        if self.is_exact || bound.values.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        put_values(&bound.values, &mut bytes);
        Some(Box::new(bytes.into()))
    }
}

/// Splits the bytes of a stored row into the kept clustering values and the packed row.
#[inline]
pub fn split_stored(is_exact: bool, bytes: &[u8]) -> (&[u8], &[u8]) {
    if is_exact {
        return (&[], bytes);
    }
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return (&[], bytes) };
    rest.split_at_checked(u32::from_le_bytes(*length) as usize).unwrap_or((&[], rest))
}
