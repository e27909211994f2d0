//! Removes the tombstones whose grace period has passed at the command's time.

use espalier_mutation::{
    DeletionTime, RangeTombstoneMarker, Row,
    purge::{PurgeLimits, purge_deletion, purge_row},
    schema::TableMetadata,
};

/// The times by which a read purges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purge(PurgeLimits);

impl Purge {
    pub fn new(table: &TableMetadata, now_s: u32) -> Self {
        Self(PurgeLimits::at(table, now_s.into()))
    }

    /// Returns the part of a deletion that remains.
    pub fn deletion(&self, mut deletion: DeletionTime) -> DeletionTime {
        purge_deletion(&mut deletion, &mut |_, second| self.0.are_old_enough(second));
        deletion
    }

    /// Purges a row. Returns whether anything is left.
    pub fn row(&self, row: &mut Row) -> bool {
        purge_row(row, self.0.now_s, &mut |_, second| self.0.are_old_enough(second));
        !row.is_empty()
    }

    /// Returns the part of a marker that remains.
    pub fn marker(&self, marker: RangeTombstoneMarker) -> Option<RangeTombstoneMarker> {
        let (before, after) = (self.deletion(marker.before), self.deletion(marker.after));
        if before == marker.before && after == marker.after {
            return Some(marker);
        }
        let is_left = !before.is_live() || !after.is_live();
        is_left.then(|| marker.with_deletions(before, after))
    }
}
