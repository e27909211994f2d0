//! Places: positions in a partition, encoded as paths. A row's values end with the byte 38
//! (hexadecimal), a bound's with 20 (before the row) or 60 (behind it).

use espalier_mutation::{
    Direction,
    path::{BOTTOM, TOP},
};
use espalier_types::byte_comparable::{GT_NEXT, LT_NEXT, TERMINATOR};

/// The positions before and behind all rows.
pub(super) const FIRST: &[u8] = &[BOTTOM];
pub(super) const LAST: &[u8] = &[TOP];

/// Returns whether the position is a row's, not one between rows.
pub(super) fn is_row(place: &[u8]) -> bool {
    place.last() == Some(&TERMINATOR)
}

/// Returns the position directly behind a row's; other positions are returned unchanged.
pub(super) fn behind(place: &[u8]) -> Vec<u8> {
    with_end(place, GT_NEXT)
}

/// Returns the position directly before a row's; other positions are returned unchanged.
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

/// Returns whether one position is a row's and the other lies directly before or behind this row,
/// so that nothing can lie between the two.
pub(super) fn are_adjacent(low: &[u8], high: &[u8]) -> bool {
    let (Some((low_end, low)), Some((high_end, high))) = (low.split_last(), high.split_last())
    else {
        return false;
    };
    low == high && (*low_end == TERMINATOR || *high_end == TERMINATOR)
}

/// Returns whether `place` lies behind `other` in the given direction.
pub(super) fn is_behind(direction: Direction, place: &[u8], other: &[u8]) -> bool {
    match direction {
        Direction::Forward => place > other,
        Direction::Reverse => place < other,
    }
}
