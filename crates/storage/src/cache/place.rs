//! Places in a partition, as paths: a row's values end with 38, a bound's with 20 (before) or 60 (behind).

use crate::memtable::path::{BOTTOM, TOP};
use espalier_types::byte_comparable::{GT_NEXT, LT_NEXT, TERMINATOR};

/// Before all rows, and behind them.
pub(super) const FIRST: &[u8] = &[BOTTOM];
pub(super) const LAST: &[u8] = &[TOP];

/// Whether the place is a row's, not one between rows.
pub(super) fn is_row(place: &[u8]) -> bool {
    place.last() == Some(&TERMINATOR)
}

/// The place just behind a row's; other places as they are.
pub(super) fn behind(place: &[u8]) -> Vec<u8> {
    with_end(place, GT_NEXT)
}

/// The place just before a row's; other places as they are.
pub(super) fn before(place: &[u8]) -> Vec<u8> {
    with_end(place, LT_NEXT)
}

fn with_end(place: &[u8], end: u8) -> Vec<u8> {
    let mut place = place.to_vec();
    if is_row(&place)
        && let Some(last) = place.last_mut()
    {
        *last = end;
    }
    place
}

/// Whether there can be nothing between two places: a row's, and the one before or behind it.
pub(super) fn are_adjacent(low: &[u8], high: &[u8]) -> bool {
    let (Some((low_end, low)), Some((high_end, high))) = (low.split_last(), high.split_last())
    else {
        return false;
    };
    low == high && (*low_end == TERMINATOR || *high_end == TERMINATOR)
}
