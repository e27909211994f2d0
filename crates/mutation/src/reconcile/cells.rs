//! Reconciles two cells of one column (and path).

use bytes::Bytes;

use crate::{Cell, NO_DELETION_TIME, counter};

/// Returns whether `left` stays in place of `right`, for regular cells. If both are equal, `left`
/// stays.
///
/// An expiring cell is treated as the tombstone that it will become, so that the outcome does not
/// depend on the clock (CASSANDRA-14592). A real tombstone still wins over an expiring cell.
pub fn cell_wins(left: &Cell, right: &Cell) -> bool {
    if left.timestamp != right.timestamp {
        return left.timestamp > right.timestamp;
    }
    let left_ends = left.local_deletion_time != NO_DELETION_TIME;
    let right_ends = right.local_deletion_time != NO_DELETION_TIME;
    if left_ends != right_ends {
        return left_ends;
    }
    if left_ends {
        if left.is_expiring() != right.is_expiring() {
            return !left.is_expiring();
        }
        if left.local_deletion_time != right.local_deletion_time {
            return left.local_deletion_time > right.local_deletion_time;
        }
    }
    left.value >= right.value
}

/// Returns the cell that stays; for counters without a tombstone, the merge of both.
pub fn reconcile_cells(left: Cell, right: Cell, is_counter: bool) -> Cell {
    if is_counter && !left.is_tombstone() && !right.is_tombstone() {
        return merge_counters(&left, &right);
    }
    if is_counter && left.is_tombstone() != right.is_tombstone() {
        // A counter tombstone wins whatever the timestamps are: deleted counters stay deleted
        // (CASSANDRA-7346).
        return if left.is_tombstone() { left } else { right };
    }
    if cell_wins(&left, &right) { left } else { right }
}

fn merge_counters(left: &Cell, right: &Cell) -> Cell {
    let timestamp = left.timestamp.max(right.timestamp);
    let value: Bytes = match (left.value.is_empty(), right.value.is_empty()) {
        (true, true) => Bytes::new(),
        (true, false) => right.value.clone(),
        (false, true) => left.value.clone(),
        (false, false) => counter::merge(&left.value, &right.value),
    };
    Cell::live(timestamp, value)
}
