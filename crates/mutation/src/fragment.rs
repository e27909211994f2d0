//! What a partition is read and written as: a header, then rows and range tombstone markers in clustering order.

use crate::{Clustering, ClusteringBound, DecoratedKey, DeletionTime, PositionRef, Row};

/// Which way a stream walks the clustering order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// In clustering order.
    Forward,
    /// Against it.
    Reverse,
}

/// What precedes the rows of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionHeader {
    /// The partition's key.
    pub key: DecoratedKey,
    /// Deletion of the whole partition.
    pub deletion: DeletionTime,
    /// The static row, if it holds anything.
    pub static_row: Option<Row>,
}

/// A row or a range tombstone marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfiltered {
    /// A row.
    Row(Row),
    /// A bound of range deletions.
    Marker(RangeTombstoneMarker),
}

/// The place where a range deletion ends, begins, or both (a boundary).
///
/// `before` is the deletion in force just before the position **in clustering order**, `after` the one just behind it,
/// whichever way the stream walks. At least one of them is not live. In a stream walked forward each marker's `before`
/// equals the preceding marker's `after`; in one walked in reverse its `after` equals the preceding marker's `before`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstoneMarker {
    /// Where: the kind says which side of equal prefixes.
    pub position: ClusteringBound,
    /// The deletion that ends here.
    pub before: DeletionTime,
    /// The deletion that begins here.
    pub after: DeletionTime,
}

impl Unfiltered {
    /// The position to compare by.
    pub fn position(&self) -> PositionRef<'_> {
        match self {
            Self::Row(row) => row.clustering.position(),
            Self::Marker(marker) => marker.position.position(),
        }
    }

    /// The clustering of a row.
    pub fn clustering(&self) -> Option<&Clustering> {
        match self {
            Self::Row(row) => Some(&row.clustering),
            Self::Marker(_) => None,
        }
    }
}

/// A partition being read: the header is known, the rest follows one by one.
///
/// Implementations: memtable, SSTable, merge of several. Rows and markers come in clustering order, or against it if the
/// stream was opened in reverse. Range tombstones that reach into a slice are opened and closed at the slice's bounds.
#[allow(async_fn_in_trait)]
pub trait UnfilteredStream {
    /// What can go wrong: an error that names file, offset and reason.
    type Error;

    /// Key, deletion and static row.
    fn header(&self) -> &PartitionHeader;

    /// The next row or marker; `None` at the end.
    async fn next(&mut self) -> Result<Option<Unfiltered>, Self::Error>;
}
