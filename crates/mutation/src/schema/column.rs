//! Defines the columns of a table.

use espalier_types::CqlType;

/// The id of a column, valid as long as the process lives.
///
/// An id is not reused, so that rows in memory stay readable across ALTER TABLE. A column that is
/// dropped and added again gets its former id if its kind is the same and it is complex or simple
/// as before ([`TableBuilder`](super::TableBuilder)). Files and commit log segments identify
/// columns by name, and their readers translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

/// The role of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum ColumnKind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

impl ColumnKind {
    /// Returns the name in `system_schema.columns`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PartitionKey => "partition_key",
            Self::Clustering => "clustering",
            Self::Static => "static",
            Self::Regular => "regular",
        }
    }

    /// Returns the kind with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::PartitionKey, Self::Clustering, Self::Static, Self::Regular]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// The id, which is stable within the table.
    pub id: ColumnId,
    /// The name in its stored case.
    pub name: String,
    /// The role of the column.
    pub kind: ColumnKind,
    /// The position among the partition key columns or among the clustering columns. 0 for a column
    /// outside of the primary key.
    pub position: usize,
    /// The type of its values.
    pub column_type: CqlType,
    /// True if a clustering column is in descending order.
    pub reversed: bool,
}

impl ColumnDefinition {
    /// Returns whether the column is part of the partition key or of the clustering.
    pub fn is_primary_key(&self) -> bool {
        matches!(self.kind, ColumnKind::PartitionKey | ColumnKind::Clustering)
    }

    /// Returns whether the column is a non-frozen collection or UDT.
    pub fn is_complex(&self) -> bool {
        self.column_type.is_multi_cell()
    }
}

/// A record of a dropped column.
///
/// Reads ignore cells whose timestamp is at most `dropped_time_us`. If a column with this name is
/// added again, reads still ignore these cells, and show the later ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    /// The name of the column.
    pub name: String,
    /// The type that the column had.
    pub column_type: CqlType,
    /// The column's kind: static or regular.
    pub kind: ColumnKind,
    /// The write timestamp of the drop, in µs.
    pub dropped_time_us: i64,
}

impl DroppedColumn {
    /// Returns whether the drop removes a cell with this write timestamp, in µs.
    pub const fn deletes(&self, timestamp: i64) -> bool {
        is_before_drop(self.dropped_time_us, timestamp)
    }
}

/// Returns whether a drop at `dropped_time_us` removes a cell written at `timestamp`, both in µs.
///
/// `i64::MIN` means that there was no drop.
#[inline]
pub const fn is_before_drop(dropped_time_us: i64, timestamp: i64) -> bool {
    dropped_time_us != i64::MIN && timestamp <= dropped_time_us
}
