//! `EncodingStats` holds the minimum timestamp, deletion time and TTL of the data to be written.
//! They are the baselines of the deltas in Data.db.
//!
//! A memtable or a compaction collects the minima of its data and passes them to the writer.
//! Values below the minima can be written too, because deltas wrap; they only take more bytes.
//! Format: docs/formats/statistics.md.

use crate::{Cell, ColumnData, DeletionTime, Liveness, NO_DELETION_TIME, PartitionUpdate, Row};

/// 2015-09-22T00:00Z in µs: the baseline of timestamps if there is no timestamp.
pub const TIMESTAMP_EPOCH_US: i64 = 1_442_880_000_000_000;
/// 2015-09-22T00:00Z in seconds: the baseline of deletion times if there is no deletion time.
pub const DELETION_TIME_EPOCH_S: u32 = 1_442_880_000;

/// The minima of all values seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodingStats {
    timestamp: Option<i64>,
    local_deletion_time: Option<u32>,
    ttl: Option<u32>,
}

impl EncodingStats {
    /// Returns the minimum write timestamp in µs, or [`TIMESTAMP_EPOCH_US`] if there is none.
    pub fn min_timestamp(&self) -> i64 {
        self.timestamp.unwrap_or(TIMESTAMP_EPOCH_US)
    }

    /// Returns the minimum second of deletion or expiry, or [`DELETION_TIME_EPOCH_S`] if there is
    /// none.
    pub fn min_local_deletion_time(&self) -> u32 {
        self.local_deletion_time.unwrap_or(DELETION_TIME_EPOCH_S)
    }

    /// Returns the minimum time to live in seconds, or 0 if there is none.
    pub fn min_ttl(&self) -> u32 {
        self.ttl.unwrap_or(0)
    }

    fn update(&mut self, timestamp: i64, local_deletion_time: u32, ttl: u32) {
        self.timestamp = Some(self.timestamp.map_or(timestamp, |least| least.min(timestamp)));
        if local_deletion_time != NO_DELETION_TIME {
            let least = self.local_deletion_time.unwrap_or(NO_DELETION_TIME);
            self.local_deletion_time = Some(least.min(local_deletion_time));
        }
        if ttl != 0 {
            self.ttl = Some(self.ttl.map_or(ttl, |least| least.min(ttl)));
        }
    }

    /// Includes a deletion; a live one changes nothing.
    pub fn add_deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.update(deletion.marked_for_delete_at, deletion.local_deletion_time, 0);
        }
    }

    /// Includes a cell.
    pub fn add_cell(&mut self, cell: &Cell) {
        self.update(cell.timestamp, cell.local_deletion_time, cell.ttl);
    }

    /// Includes a row's liveness.
    pub fn add_liveness(&mut self, liveness: &Liveness) {
        if !liveness.is_none() {
            self.update(liveness.timestamp, liveness.local_expiration, liveness.ttl);
        }
    }

    /// Includes a row with all its content.
    pub fn add_row(&mut self, row: &Row) {
        self.add_liveness(&row.liveness);
        self.add_deletion(row.deletion);
        self.add_deletion(row.shadowable_deletion);
        for (_, data) in &row.columns {
            match data {
                ColumnData::Simple(cell) => self.add_cell(cell),
                ColumnData::Complex(column) => {
                    self.add_deletion(column.deletion);
                    column.cells.iter().for_each(|(_, cell)| self.add_cell(cell));
                }
            }
        }
    }

    /// Includes a whole update.
    pub fn add_update(&mut self, update: &PartitionUpdate) {
        self.add_deletion(update.deletion);
        update.static_row.iter().chain(&update.rows).for_each(|row| self.add_row(row));
        update.range_tombstones.iter().for_each(|range| self.add_deletion(range.deletion));
    }

    /// Merges the minima of another SSTable, for a compaction.
    pub fn merge(&mut self, other: &EncodingStats) {
        fn least<T: Ord>(left: Option<T>, right: Option<T>) -> Option<T> {
            left.into_iter().chain(right).min()
        }
        self.timestamp = least(self.timestamp, other.timestamp);
        self.local_deletion_time = least(self.local_deletion_time, other.local_deletion_time);
        self.ttl = least(self.ttl, other.ttl);
    }

    /// Lowers the minimum deletion time for a compaction at second `now_s`. The compaction turns an
    /// expired cell into a tombstone of the second of its write, up to `max_ttl` before its expiry.
    /// A minimum that is too low costs a few bytes a value; a time below the minimum takes nine.
    pub fn cover_writes_of_expired(&mut self, max_ttl: u32, now_s: u32) {
        if let Some(least) = self.local_deletion_time.filter(|&least| least <= now_s) {
            let epoch = least.min(DELETION_TIME_EPOCH_S);
            self.local_deletion_time = Some(least.saturating_sub(max_ttl).max(epoch));
        }
    }

    /// Creates the minima from the baselines of a header. A header without values has the epochs,
    /// or, in files of ScyllaDB, the maximum numbers.
    pub fn from_baselines(timestamp: i64, local_deletion_time: u32, ttl: u32) -> Self {
        Self {
            timestamp: (timestamp != TIMESTAMP_EPOCH_US).then_some(timestamp),
            local_deletion_time: Some(local_deletion_time).filter(|&time| {
                ![DELETION_TIME_EPOCH_S, NO_DELETION_TIME, i32::MAX as u32].contains(&time)
            }),
            ttl: Some(ttl).filter(|ttl| (1..=i32::MAX as u32).contains(ttl)),
        }
    }
}
