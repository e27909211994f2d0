//! Columns.

use espalier_types::CqlType;

/// Names a column of a table as long as the process lives. Ids are never reused, also not after DROP and ADD of the
/// same name, so that rows in memory stay readable across ALTER TABLE. Files and commit log segments name columns by
/// name and translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

/// The part that a column plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum ColumnKind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

impl ColumnKind {
    /// The name in `system_schema.columns`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PartitionKey => "partition_key",
            Self::Clustering => "clustering",
            Self::Static => "static",
            Self::Regular => "regular",
        }
    }

    /// The kind with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::PartitionKey, Self::Clustering, Self::Static, Self::Regular]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// Stable id within the table.
    pub id: ColumnId,
    /// Name in its stored case.
    pub name: String,
    /// Its part.
    pub kind: ColumnKind,
    /// Position among the columns of its kind (partition key and clustering); 0 otherwise.
    pub position: usize,
    /// Type of its values.
    pub column_type: CqlType,
    /// Whether a clustering column is in descending order.
    pub reversed: bool,
}

impl ColumnDefinition {
    /// Partition key or clustering.
    pub fn is_primary_key(&self) -> bool {
        matches!(self.kind, ColumnKind::PartitionKey | ColumnKind::Clustering)
    }

    /// Non-frozen collection or UDT.
    pub fn is_complex(&self) -> bool {
        self.column_type.is_multi_cell()
    }
}

/// Record of a dropped column. Reads ignore its cells at or before `dropped_time_us`, also after a
/// column of that name is added again; they show later cells then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    /// Name.
    pub name: String,
    /// Type it had.
    pub column_type: CqlType,
    /// Static or regular.
    pub kind: ColumnKind,
    /// Write timestamp in µs of the drop.
    pub dropped_time_us: i64,
}

impl DroppedColumn {
    /// Whether the drop removes a cell with this write timestamp in µs.
    pub const fn deletes(&self, timestamp: i64) -> bool {
        is_before_drop(self.dropped_time_us, timestamp)
    }
}

/// Whether a drop at `dropped_time_us` removes a cell written at `timestamp`; both in µs.
/// `i64::MIN` means that there was no drop.
#[inline]
pub const fn is_before_drop(dropped_time_us: i64, timestamp: i64) -> bool {
    dropped_time_us != i64::MIN && timestamp <= dropped_time_us
}
