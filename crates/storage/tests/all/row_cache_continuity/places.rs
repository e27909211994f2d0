//! Places of a partition, and sets of places.

use espalier_mutation::{ClusteringBound, ClusteringSlices, Direction};

/// The lowest clustering value that a [`Writer`] writes.
pub(super) const MIN_ROW: i32 = -2;

/// A set of places of a partition: bit 2 n + 1 is row n, in clustering order; bit 2 n is the gap
/// before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places(pub(super) u128);

impl Places {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn between(first: u32, end: u32) -> Self {
        let below = |bit: u32| 1u128.checked_shl(bit).map_or(u128::MAX, |above| above - 1);
        Self(below(end.max(first)) & !below(first))
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

/// Maps bounds and slices to places.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub(super) rows: u32,
    pub(super) is_reversed: bool,
}

impl Line {
    /// Returns the number of a row by its value, an `int` or a `varint`.
    pub(super) fn row(self, value: &[u8]) -> u32 {
        let sign = if value[0] < 0x80 { 0 } else { -1 };
        let value = value.iter().fold(sign, |value, byte| value << 8 | i32::from(*byte));
        let at = u32::try_from(value - MIN_ROW).unwrap();
        assert!(at < self.rows);
        if self.is_reversed { self.rows - 1 - at } else { at }
    }

    /// Returns the first place behind a bound.
    pub(super) fn behind(self, bound: &ClusteringBound) -> u32 {
        let is_before = bound.kind.weight() < 0;
        match bound.values.first() {
            Some(value) => 2 * self.row(value.as_ref().unwrap()) + if is_before { 1 } else { 2 },
            None if is_before => 0,
            None => 2 * self.rows + 1,
        }
    }

    pub(super) fn slice(self, start: &ClusteringBound, end: &ClusteringBound) -> Places {
        Places::between(self.behind(start), self.behind(end))
    }

    pub(super) fn slices(self, slices: &ClusteringSlices) -> Places {
        let each = slices.slices.iter().map(|slice| self.slice(&slice.start, &slice.end));
        each.fold(Places::NONE, Places::with)
    }

    pub(super) fn all(self) -> Places {
        Places::between(0, 2 * self.rows + 1)
    }

    /// Returns the places of a read that ends with a row.
    pub(super) fn up_to(self, row: u32, direction: Direction) -> Places {
        match direction {
            Direction::Forward => Places::between(0, 2 * row + 2),
            Direction::Reverse => Places::between(2 * row + 1, 2 * self.rows + 1),
        }
    }
}
