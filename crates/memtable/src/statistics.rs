//! Statistics that a flush needs before it writes the first row. Every write updates them. Source:
//! docs/formats/statistics.md.

use espalier_mutation::{
    CellRef, ColumnRef, DeletionTime, Liveness, NO_DELETION_TIME, NO_TIMESTAMP, PartitionUpdate,
    RowContent, encoding::baselines::LocalDeletionTimes, schema::ColumnId,
};

/// The minima, the maximum and the columns of all writes, including overwritten ones, and counts of
/// the contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemtableStatistics {
    /// The least write timestamp in µs; `i64::MAX` if there is none.
    pub minimum_timestamp: i64,
    /// The greatest write timestamp in µs; `i64::MIN` if there is none.
    pub maximum_timestamp: i64,
    /// The least local deletion time in seconds; `u32::MAX` if nothing expires or is deleted.
    pub minimum_local_deletion_time: u32,
    /// The least TTL in seconds; `u32::MAX` if nothing expires.
    pub minimum_ttl: u32,
    /// True if a partition or a range was deleted at a negative timestamp, which not every format
    /// version can store.
    pub has_negative_deletion: bool,
    /// True if a cell or a row expires after January 2038, which not every format version can
    /// store.
    pub has_late_expiry: bool,
    /// A bit set of the ids of the columns that have cells or deletions.
    columns: Vec<u64>,
    /// The number of partitions.
    pub partitions: u64,
    /// The number of rows, without static rows.
    pub rows: u64,
}

impl Default for MemtableStatistics {
    fn default() -> Self {
        Self {
            minimum_timestamp: i64::MAX,
            maximum_timestamp: i64::MIN,
            minimum_local_deletion_time: u32::MAX,
            minimum_ttl: u32::MAX,
            has_negative_deletion: false,
            has_late_expiry: false,
            columns: Vec::new(),
            partitions: 0,
            rows: 0,
        }
    }
}

impl MemtableStatistics {
    /// Returns whether some write had data in the column.
    pub fn has_column(&self, id: ColumnId) -> bool {
        let word = self.columns.get(id.0 as usize / 64).copied().unwrap_or(0);
        word & (1 << (id.0 % 64)) != 0
    }

    /// Returns whether a deletion is at least as new as all that was written.
    pub(crate) fn is_covered_by(&self, deletion: DeletionTime) -> bool {
        !deletion.is_live() && deletion.marked_for_delete_at >= self.maximum_timestamp
    }

    /// Adds the deletions and rows of an update, but does not count partitions and rows.
    #[inline]
    pub(crate) fn add_update(&mut self, update: &PartitionUpdate) {
        self.add_wide_deletion(update.deletion);
        update.static_row.iter().for_each(|row| self.add_row(row));
        update.rows.iter().for_each(|row| self.add_row(row));
        for tombstone in &update.range_tombstones {
            self.add_wide_deletion(tombstone.deletion);
        }
    }

    /// Adds the deletion of a partition or range.
    pub(crate) fn add_wide_deletion(&mut self, deletion: DeletionTime) {
        self.has_negative_deletion |= !deletion.is_live() && deletion.marked_for_delete_at < 0;
        self.add_deletion(deletion);
    }

    pub(crate) fn add_deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.add_timestamp(deletion.marked_for_delete_at);
            self.add_local_deletion_time(deletion.local_deletion_time);
        }
    }

    #[inline]
    pub(crate) fn add_row(&mut self, row: &impl RowContent) {
        self.add_liveness(&row.liveness());
        self.add_deletion(row.deletion());
        self.add_deletion(row.shadowable_deletion());
        for (id, column) in row.columns() {
            self.add_column(id);
            match column {
                ColumnRef::Simple(cell) => self.add_cell(cell),
                ColumnRef::Complex(column) => {
                    self.add_deletion(column.deletion);
                    column.cells.iter().for_each(|(_, cell)| self.add_cell(cell.into()));
                }
            }
        }
    }

    #[inline]
    fn add_column(&mut self, id: ColumnId) {
        let word = id.0 as usize / 64;
        if self.columns.len() <= word {
            self.columns.resize(word + 1, 0);
        }
        self.columns[word] |= 1 << (id.0 % 64);
    }

    #[inline]
    fn add_cell(&mut self, cell: CellRef<'_>) {
        self.add_timestamp(cell.timestamp);
        if cell.local_deletion_time != NO_DELETION_TIME {
            self.add_local_deletion_time(cell.local_deletion_time);
        }
        if cell.ttl != 0 {
            self.add_ttl(cell.ttl, cell.local_deletion_time);
        }
    }

    #[inline]
    fn add_liveness(&mut self, liveness: &Liveness) {
        if liveness.timestamp == NO_TIMESTAMP {
            return;
        }
        self.add_timestamp(liveness.timestamp);
        if liveness.is_expiring() {
            self.add_local_deletion_time(liveness.local_expiration);
            self.add_ttl(liveness.ttl, liveness.local_expiration);
        }
    }

    #[inline]
    fn add_ttl(&mut self, ttl: u32, expiry_s: u32) {
        self.minimum_ttl = self.minimum_ttl.min(ttl);
        self.has_late_expiry |= expiry_s > LocalDeletionTimes::Signed.maximum();
    }

    #[inline]
    fn add_timestamp(&mut self, timestamp: i64) {
        self.minimum_timestamp = self.minimum_timestamp.min(timestamp);
        self.maximum_timestamp = self.maximum_timestamp.max(timestamp);
    }

    #[inline]
    fn add_local_deletion_time(&mut self, seconds: u32) {
        self.minimum_local_deletion_time = self.minimum_local_deletion_time.min(seconds);
    }
}
