//! Removes rows that hold only purgeable tombstones, after a reader has met them (rule 17 of
//! docs/cache.md).
//!
//! The condition is the same as in a compaction (`purge`): the tombstones are old enough for
//! [`PurgeLimits`], and no memtable holds data of the partition that the tombstones could cover.
//! Older data in files needs no check: the files have the tombstones too, and the range stays
//! continuous, so reads do not go to the files.

use espalier_memtable::RowFormat;
use espalier_mutation::{
    ColumnData, DecoratedKey, Row,
    purge::{PurgeLimits, purge_row},
    schema::TableMetadata,
};

use espalier_runtime::time;

use crate::{CacheAccess, CacheError, CacheView, Inner};

/// Maximum rows that one fill removes without yielding: some ten microseconds.
const REMOVED_AT_ONCE: usize = 64;

/// Collects the purgeable rows that a reader meets in one partition.
pub(super) struct DeadRows {
    limits: PurgeLimits,
    /// The positions of the rows found, in the order of the walk.
    places: Vec<Vec<u8>>,
}

impl DeadRows {
    pub(super) fn new(table: &TableMetadata) -> Self {
        Self { limits: PurgeLimits::at(table, time::now_seconds()), places: Vec::new() }
    }

    /// Examines a row that the reader has met.
    pub(super) fn meet(&mut self, place: &[u8], row: &Row) {
        // A cheap check that rules out most rows.
        let now_s = self.limits.now_s;
        let may_be_dead = !row.liveness.is_live(now_s)
            && (row.deletion.is_live()
                || self.limits.are_old_enough(row.deletion.local_deletion_time))
            && !row.columns.iter().any(|(_, data)| match data {
                ColumnData::Simple(cell) => cell.is_live(now_s),
                ColumnData::Complex(_) => false,
            });
        if may_be_dead && self.places.len() < REMOVED_AT_ONCE && self.is_dead(row.clone(), i64::MAX)
        {
            self.places.push(place.to_vec());
        }
    }

    /// Returns whether a purge leaves nothing of a row. Deletions with a timestamp of
    /// `uncovered_below` or above must stay.
    fn is_dead(&self, mut row: Row, uncovered_below: i64) -> bool {
        let may_go = &mut |timestamp, second| {
            self.limits.are_old_enough(second) && timestamp < uncovered_below
        };
        purge_row(&mut row, self.limits.now_s, may_go);
        row.is_empty()
    }

    /// Removes the rows that were met and may be purged.
    pub(super) fn remove(
        &mut self,
        access: &CacheAccess,
        view: &impl CacheView,
        key: &DecoratedKey,
        prefix: &[u8],
    ) -> Result<(), CacheError> {
        if self.places.is_empty() {
            return Ok(());
        }
        let (places, table) = (std::mem::take(&mut self.places), view.table());
        // Counter tables are excluded, because a deleted counter stays dead whatever is written
        // later. If the view's memtable is frozen, this reader does not see the memtable that
        // replaced it. This reader then removes nothing; a later reader will.
        if !access.cache.is_valid(access.ticket) || table.is_counter() || !view.sees_all_writes() {
            return Ok(());
        }
        let uncovered_below = view.oldest_in_memory(key).unwrap_or(i64::MAX);
        let cache = &access.cache;
        let mut inner = cache.cache.0.borrow_mut();
        for place in places {
            let Some(row) = inner.removable_row(table, cache.format(), prefix, &place)? else {
                continue;
            };
            if self.is_dead(row, uncovered_below) && inner.remove(&[prefix, &place].concat()) {
                inner.metrics.row_removals += 1;
            }
        }
        Ok(())
    }
}

impl Inner {
    /// Returns a row that can be removed without changing continuity: the ranges on both sides are
    /// continuous and under the same deletion.
    fn removable_row(
        &self,
        table: &TableMetadata,
        format: RowFormat,
        prefix: &[u8],
        place: &[u8],
    ) -> Result<Option<Row>, CacheError> {
        let Some(entry) = self.get(prefix, place) else { return Ok(None) };
        let is_within = entry.is_row()
            && entry.is_continuous()
            && self.successor(prefix, place).is_some_and(|(_, is_continuous, deletion)| {
                is_continuous && deletion == entry.deletion()
            });
        if is_within { Ok(Some(format.row_of(table, place, entry.row_bytes())?)) } else { Ok(None) }
    }
}
