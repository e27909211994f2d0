//! Positions inside a partition: clusterings of rows, bounds of ranges, and their order.
//!
//! A position is a list of values, possibly a prefix of the clustering columns, and a kind. The
//! kind says on which side of everything with that prefix the position lies. Sources:
//! docs/formats/data.md for markers on disk, docs/formats/byte-comparable.md for the order.

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_types::{CqlType, collection::write_value};

use crate::Direction;

/// Values of clustering columns. `None` is null (only in prefixes of compact tables); empty bytes
/// are an empty value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clustering {
    /// One value for each clustering column of the table; none for a static row or a table without
    /// clustering columns.
    pub values: Box<[Option<Bytes>]>,
}

/// The kind of a bound, with Cassandra's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BoundKind {
    /// A range ends before the prefix.
    ExclusiveEnd = 0,
    /// A range starts before the prefix.
    InclusiveStart = 1,
    /// One range ends and another starts before the prefix.
    ExclusiveEndInclusiveStart = 2,
    /// One range ends and another starts after the prefix.
    InclusiveEndExclusiveStart = 5,
    /// A range ends after the prefix.
    InclusiveEnd = 6,
    /// A range starts after the prefix.
    ExclusiveStart = 7,
}

impl BoundKind {
    /// Returns the kind that has this number on disk, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::ExclusiveEnd,
            1 => Self::InclusiveStart,
            2 => Self::ExclusiveEndInclusiveStart,
            5 => Self::InclusiveEndExclusiveStart,
            6 => Self::InclusiveEnd,
            7 => Self::ExclusiveStart,
            _ => return None,
        })
    }

    /// Returns −1 if the bound lies before everything with the prefix, and +1 if the bound lies
    /// after it.
    pub fn weight(self) -> i8 {
        match self {
            Self::ExclusiveEnd | Self::InclusiveStart | Self::ExclusiveEndInclusiveStart => -1,
            Self::InclusiveEndExclusiveStart | Self::InclusiveEnd | Self::ExclusiveStart => 1,
        }
    }

    /// Returns whether one range ends and another starts here.
    pub fn is_boundary(self) -> bool {
        matches!(self, Self::ExclusiveEndInclusiveStart | Self::InclusiveEndExclusiveStart)
    }

    /// Returns whether a range starts here (also at a boundary).
    pub fn is_start(self) -> bool {
        !matches!(self, Self::ExclusiveEnd | Self::InclusiveEnd)
    }

    /// Returns the kind of a marker at a position of this weight, given whether a range ends and
    /// whether one starts there.
    pub fn for_marker(weight: i8, ends: bool, starts: bool) -> Self {
        match (weight < 0, ends, starts) {
            (true, true, true) => Self::ExclusiveEndInclusiveStart,
            (true, false, _) => Self::InclusiveStart,
            (true, true, false) => Self::ExclusiveEnd,
            (false, true, true) => Self::InclusiveEndExclusiveStart,
            (false, false, _) => Self::ExclusiveStart,
            (false, true, false) => Self::InclusiveEnd,
        }
    }
}

/// A position between rows: a prefix of clustering values and the side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusteringBound {
    /// The side and the role (start, end or both).
    pub kind: BoundKind,
    /// A prefix of the clustering values; empty for the partition's start or end.
    pub values: Box<[Option<Bytes>]>,
}

impl ClusteringBound {
    /// Makes the bound before all rows.
    pub fn bottom() -> Self {
        Self { kind: BoundKind::InclusiveStart, values: Box::default() }
    }

    /// Makes the bound after all rows.
    pub fn top() -> Self {
        Self { kind: BoundKind::InclusiveEnd, values: Box::default() }
    }

    /// Returns whether the bound is the start or the end of the partition.
    pub fn is_unbounded(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the position to compare by.
    pub fn position(&self) -> PositionRef<'_> {
        PositionRef { values: &self.values, weight: self.kind.weight() }
    }
}

impl Clustering {
    /// Makes a clustering from values, none of which is null.
    pub fn new(values: impl IntoIterator<Item = Bytes>) -> Self {
        Self { values: values.into_iter().map(Some).collect() }
    }

    /// Makes the clustering of a static row, or of the one row of a table without clustering
    /// columns.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns the position to compare by.
    pub fn position(&self) -> PositionRef<'_> {
        PositionRef { values: &self.values, weight: 0 }
    }

    /// Appends as many values as there are `columns`, each behind its length as a be32 (-1: null).
    /// A missing value is written as null.
    pub fn append_to(&self, columns: usize, out: &mut Vec<u8>) {
        for index in 0..columns {
            write_value(self.values.get(index).and_then(Option::as_deref), out);
        }
    }

    /// Returns the bound just before this row.
    pub fn before(&self, kind: BoundKind) -> ClusteringBound {
        debug_assert_eq!(kind.weight(), -1);
        ClusteringBound { kind, values: self.values.clone() }
    }
}

/// A borrowed position: values and weight (−1 before, 0 row, +1 after everything with this prefix).
#[derive(Clone, Copy, Debug)]
pub struct PositionRef<'a> {
    /// The values, possibly a prefix.
    pub values: &'a [Option<Bytes>],
    /// −1, 0 or +1.
    pub weight: i8,
}

impl PositionRef<'_> {
    /// Makes a bound with a copy of the values. A row's position becomes the bound before the row.
    pub fn to_bound(self, start: bool) -> ClusteringBound {
        let kind = BoundKind::for_marker(if self.weight > 0 { 1 } else { -1 }, !start, start);
        ClusteringBound { kind, values: self.values.into() }
    }
}

/// Compares positions by the types of the clustering columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusteringComparator {
    /// The type of each clustering column, and whether the column is in descending order.
    pub types: Box<[(CqlType, bool)]>,
}

impl ClusteringComparator {
    /// Compares two values of column `index`. Null sorts before empty and everything else, also in
    /// descending columns.
    pub fn compare_value(
        &self,
        index: usize,
        left: Option<&[u8]>,
        right: Option<&[u8]>,
    ) -> Ordering {
        match (left, right) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(left), Some(right)) => match self.types.get(index) {
                Some((column_type, true)) => column_type.compare(right, left),
                Some((column_type, false)) => column_type.compare(left, right),
                None => left.cmp(right),
            },
        }
    }

    /// Compares two positions in clustering order.
    pub fn compare(&self, left: PositionRef<'_>, right: PositionRef<'_>) -> Ordering {
        self.compare_values(left.values.iter().map(Option::as_deref), left.weight, right)
    }

    /// Compares a position that is given as values and weight with another one.
    #[inline]
    pub fn compare_values<'a>(
        &self,
        left: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
        left_weight: i8,
        right: PositionRef<'_>,
    ) -> Ordering {
        let left_length = left.len();
        for (index, (l, r)) in left.zip(right.values).enumerate() {
            let order = self.compare_value(index, l, r.as_deref());
            if order.is_ne() {
                return order;
            }
        }
        match left_length.cmp(&right.values.len()) {
            Ordering::Equal => left_weight.cmp(&right.weight),
            // `left` is a proper prefix, and its weight says on which side of the longer position
            // it lies. A prefix of weight 0 is a row of a compact table and sorts before longer
            // positions.
            Ordering::Less if left_weight > 0 => Ordering::Greater,
            Ordering::Less => Ordering::Less,
            Ordering::Greater if right.weight > 0 => Ordering::Less,
            Ordering::Greater => Ordering::Greater,
        }
    }
}

/// A range of positions inside a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringSlice {
    /// The first bound, of a start kind.
    pub start: ClusteringBound,
    /// The last bound, of an end kind.
    pub end: ClusteringBound,
}

impl ClusteringSlice {
    /// Makes the slice of the whole partition.
    pub fn all() -> Self {
        Self { start: ClusteringBound::bottom(), end: ClusteringBound::top() }
    }

    /// Makes the slice of the row with these values, or of all rows with this prefix.
    pub fn prefix(values: Box<[Option<Bytes>]>) -> Self {
        Self {
            start: ClusteringBound { kind: BoundKind::InclusiveStart, values: values.clone() },
            end: ClusteringBound { kind: BoundKind::InclusiveEnd, values },
        }
    }

    /// Returns the part of the slice behind a bound in the direction of a read; `None` if nothing
    /// can lie there.
    pub fn behind(
        &self,
        comparator: &ClusteringComparator,
        reached: &ClusteringBound,
        direction: Direction,
    ) -> Option<Self> {
        let is_before = |left: &ClusteringBound, right: &ClusteringBound| {
            comparator.compare(left.position(), right.position()).is_lt()
        };
        let (start, end) = match direction {
            Direction::Forward if is_before(&self.start, reached) => (reached, &self.end),
            Direction::Reverse if is_before(reached, &self.end) => (&self.start, reached),
            _ => (&self.start, &self.end),
        };
        is_before(start, end).then(|| Self { start: start.clone(), end: end.clone() })
    }

    /// Returns whether no position can lie inside.
    pub fn is_empty(&self, comparator: &ClusteringComparator) -> bool {
        comparator.compare(self.start.position(), self.end.position()).is_ge()
    }

    /// Returns whether `position` lies inside.
    pub fn contains(&self, comparator: &ClusteringComparator, position: PositionRef<'_>) -> bool {
        comparator.compare(self.start.position(), position).is_le()
            && comparator.compare(position, self.end.position()).is_le()
    }
}

/// The part of a partition to read: slices that do not overlap, in clustering order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringSlices {
    /// The slices: sorted, disjoint, none of them empty.
    pub slices: Vec<ClusteringSlice>,
}

impl ClusteringSlices {
    /// Makes the slices of the whole partition.
    pub fn all() -> Self {
        Self { slices: vec![ClusteringSlice::all()] }
    }

    /// Returns the near and the far bound of the slice that is `index`-th on a walk in `direction`.
    ///
    /// # Panics
    /// Panics if there are no more than `index` slices.
    pub fn bounds(
        &self,
        direction: Direction,
        index: usize,
    ) -> (&ClusteringBound, &ClusteringBound) {
        let slice = match direction {
            Direction::Forward => &self.slices[index],
            Direction::Reverse => &self.slices[self.slices.len() - 1 - index],
        };
        direction.order(&slice.start, &slice.end)
    }

    /// Sorts the slices, drops empty ones and joins slices that overlap or touch.
    pub fn normalise(mut slices: Vec<ClusteringSlice>, comparator: &ClusteringComparator) -> Self {
        slices.retain(|slice| !slice.is_empty(comparator));
        slices.sort_by(|a, b| comparator.compare(a.start.position(), b.start.position()));
        let mut joined: Vec<ClusteringSlice> = Vec::with_capacity(slices.len());
        for slice in slices {
            match joined.last_mut() {
                Some(last)
                    if comparator.compare(slice.start.position(), last.end.position()).is_le() =>
                {
                    if comparator.compare(last.end.position(), slice.end.position()).is_lt() {
                        last.end = slice.end;
                    }
                }
                _ => joined.push(slice),
            }
        }
        Self { slices: joined }
    }

    /// Returns whether the slices cover the whole partition.
    pub fn is_all(&self) -> bool {
        matches!(self.slices.as_slice(), [one] if one.start.is_unbounded() && one.end.is_unbounded())
    }

    /// Returns whether `position` lies inside one of the slices.
    pub fn contains(&self, comparator: &ClusteringComparator, position: PositionRef<'_>) -> bool {
        let after = self
            .slices
            .partition_point(|slice| comparator.compare(slice.start.position(), position).is_le());
        after > 0
            && self.slices.get(after - 1).is_some_and(|slice| slice.contains(comparator, position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_cut_at_the_bound_that_a_read_has_reached() {
        let comparator = ClusteringComparator { types: [(CqlType::Blob, false)].into() };
        let bound = |kind, value: u8| {
            let values = [Some(Bytes::copy_from_slice(&[value]))].into();
            ClusteringBound { kind, values }
        };
        let slice = |start, end| ClusteringSlice {
            start: bound(BoundKind::InclusiveStart, start),
            end: bound(BoundKind::InclusiveEnd, end),
        };
        let slices = [slice(1, 3), slice(5, 7)];
        let behind = |kind, value| -> Vec<ClusteringSlice> {
            let is_start = [BoundKind::InclusiveStart, BoundKind::ExclusiveStart].contains(&kind);
            let direction = if is_start { Direction::Forward } else { Direction::Reverse };
            let reached = bound(kind, value);
            let behind = |slice: &ClusteringSlice| slice.behind(&comparator, &reached, direction);
            slices.iter().filter_map(behind).collect()
        };
        let cut = ClusteringSlice { start: bound(BoundKind::ExclusiveStart, 2), ..slice(1, 3) };
        assert_eq!(behind(BoundKind::ExclusiveStart, 2), [cut, slice(5, 7)]);
        assert_eq!(behind(BoundKind::ExclusiveStart, 3), [slice(5, 7)]);
        assert_eq!(behind(BoundKind::ExclusiveStart, 4), [slice(5, 7)]);
        assert_eq!(behind(BoundKind::InclusiveStart, 1), slices);
        assert!(behind(BoundKind::ExclusiveStart, 7).is_empty());
        let cut = ClusteringSlice { end: bound(BoundKind::ExclusiveEnd, 6), ..slice(5, 7) };
        assert_eq!(behind(BoundKind::ExclusiveEnd, 6), [slice(1, 3), cut]);
        assert_eq!(behind(BoundKind::ExclusiveEnd, 5), [slice(1, 3)]);
        assert_eq!(behind(BoundKind::InclusiveEnd, 7), slices);
        assert!(behind(BoundKind::ExclusiveEnd, 1).is_empty());
    }
}
