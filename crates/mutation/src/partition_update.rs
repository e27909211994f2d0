//! Defines a write: changes to one partition, and several such updates applied together.

use crate::{DecoratedKey, DeletionTime, RangeTombstone, Row, schema::TableId};

/// Changes to one partition of one table, which become visible together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionUpdate {
    /// The table.
    pub table: TableId,
    /// The partition.
    pub key: DecoratedKey,
    /// Deletion of the whole partition; live if there is none.
    pub deletion: DeletionTime,
    /// The change of the static row.
    pub static_row: Option<Row>,
    /// Changed rows in any order; a clustering may occur more than once.
    pub rows: Vec<Row>,
    /// Deleted ranges in any order; they may overlap.
    pub range_tombstones: Vec<RangeTombstone>,
}

impl PartitionUpdate {
    /// Makes an update that changes nothing yet.
    pub fn new(table: TableId, key: DecoratedKey) -> Self {
        Self {
            table,
            key,
            deletion: DeletionTime::LIVE,
            static_row: None,
            rows: Vec::new(),
            range_tombstones: Vec::new(),
        }
    }

    /// Returns whether the update changes nothing.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_live()
            && self.static_row.is_none()
            && self.rows.is_empty()
            && self.range_tombstones.is_empty()
    }
}

/// Partition updates that are logged and acknowledged together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutation {
    /// The updates, one for each partition.
    pub updates: Vec<PartitionUpdate>,
}
