//! Counts the tombstones of a read as Cassandra does, and compares them with the limits
//! (`tombstone_warn_threshold`, `tombstone_failure_threshold`).

use espalier_mutation::{ColumnData, Row};

/// The limits of tombstones in one read; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TombstoneLimits {
    /// The count above which the read causes a warning.
    pub warn: Option<u64>,
    /// The count above which the read fails.
    pub fail: Option<u64>,
}

/// The tombstones so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tombstones {
    now_s: u32,
    limits: TombstoneLimits,
    count: u64,
}

impl Tombstones {
    pub fn new(now_s: u32, limits: TombstoneLimits) -> Self {
        Self { now_s, limits, count: 0 }
    }

    /// Counts the dead cells of a row. A row without dead and without live cells counts as one
    /// tombstone if the row or one of its columns is deleted, or if the row has expired.
    pub fn add_row(&mut self, row: &Row) {
        let now_s = self.now_s;
        let mut dead = 0;
        let mut has_column_deletion = false;
        for (_, data) in &row.columns {
            match data {
                ColumnData::Simple(cell) => dead += u64::from(!cell.is_live(now_s)),
                ColumnData::Complex(column) => {
                    has_column_deletion |= !column.deletion.is_live();
                    let cells = column.cells.iter();
                    dead += cells.filter(|(_, cell)| !cell.is_live(now_s)).count() as u64;
                }
            }
        }
        let has_expired = row.liveness.is_expiring() && !row.liveness.is_live(now_s);
        let is_deleted = !row.deletion.is_live() || has_column_deletion || has_expired;
        self.count += if dead == 0 && is_deleted && !row.is_live(now_s) { 1 } else { dead };
    }

    pub fn add_marker(&mut self) {
        self.count += 1;
    }

    /// Returns the count if it is above the limit at which the read fails.
    pub fn too_many(&self) -> Option<u64> {
        self.limits.fail.is_some_and(|limit| self.count > limit).then_some(self.count)
    }

    /// Returns the count if it is above the limit at which the read causes a warning.
    pub fn many(&self) -> Option<u64> {
        self.limits.warn.is_some_and(|limit| self.count > limit).then_some(self.count)
    }
}
