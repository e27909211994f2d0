//! Defines a write: changes to one partition, and several such updates applied together.

use crate::{ColumnData, DecoratedKey, DeletionTime, RangeTombstone, Row, schema::TableId};

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

    /// Sets the cells (tombstones too) and livenesses of an update to one timestamp in µs, and all
    /// other deletions to a timestamp 1 µs earlier, as Cassandra does for a lightweight
    /// transaction. So the update deletes older data, but not its own writes. Each row must occur
    /// once, because the deletion of one occurrence would no longer delete the writes of another.
    pub fn set_timestamp(&mut self, timestamp: i64) {
        let delete = |deletion: &mut DeletionTime| {
            if !deletion.is_live() {
                deletion.marked_for_delete_at = timestamp.saturating_sub(1);
            }
        };
        delete(&mut self.deletion);
        self.range_tombstones.iter_mut().for_each(|range| delete(&mut range.deletion));
        for row in self.static_row.iter_mut().chain(&mut self.rows) {
            delete(&mut row.deletion);
            if !row.liveness.is_none() {
                row.liveness.timestamp = timestamp;
            }
            for (_, data) in &mut row.columns {
                match data {
                    ColumnData::Simple(cell) => cell.timestamp = timestamp,
                    ColumnData::Complex(column) => {
                        delete(&mut column.deletion);
                        column.cells.iter_mut().for_each(|(_, cell)| cell.timestamp = timestamp);
                    }
                }
            }
        }
    }
}

/// Partition updates that are logged and acknowledged together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutation {
    /// The updates, one for each partition.
    pub updates: Vec<PartitionUpdate>,
}
