//! Keeps the range deletions of one partition sorted and disjoint, with only the strongest one at
//! each position.

use crate::{
    BoundKind, ClusteringBound, ClusteringComparator, DeletionTime, PositionRef,
    RangeTombstoneMarker,
};

/// A deletion of a range of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The first bound, of a start kind.
    pub start: ClusteringBound,
    /// The last bound, of an end kind.
    pub end: ClusteringBound,
    /// The time of the deletion.
    pub deletion: DeletionTime,
}

/// The boundaries of a set of range deletions: `boundaries[i]` is a position and the deletion in
/// force behind it.
///
/// Invariants: positions strictly ascend; neighbours differ in their deletion; no deletion is in
/// force before the first and behind the last boundary. Memory: at most two boundaries for each
/// range added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstoneList {
    boundaries: Vec<(ClusteringBound, DeletionTime)>,
}

impl RangeTombstoneList {
    /// Adds a range. Where the range overlaps others, the deletion with the latest timestamp stays,
    /// and among equal timestamps the first that was added. An empty range changes nothing.
    pub fn add(&mut self, comparator: &ClusteringComparator, tombstone: &RangeTombstone) {
        let (start, end) = (&tombstone.start, &tombstone.end);
        if comparator.compare(start.position(), end.position()).is_ge() {
            return;
        }
        let first = self.split_at(comparator, start);
        let last = self.split_at(comparator, end);
        for (_, deletion) in &mut self.boundaries[first..last] {
            *deletion = deletion.followed_by(tombstone.deletion);
        }
        self.join_equal(first.saturating_sub(1), last + 1);
    }

    /// Ensures that there is a boundary at `bound`, and returns its index.
    fn split_at(&mut self, comparator: &ClusteringComparator, bound: &ClusteringBound) -> usize {
        let position = bound.position();
        let index = self
            .boundaries
            .partition_point(|(other, _)| comparator.compare(other.position(), position).is_lt());
        let present = self
            .boundaries
            .get(index)
            .is_some_and(|(other, _)| comparator.compare(other.position(), position).is_eq());
        if !present {
            let deletion = self.deletion_before(index);
            self.boundaries.insert(index, (bound.clone(), deletion));
        }
        index
    }

    fn deletion_before(&self, index: usize) -> DeletionTime {
        match index.checked_sub(1).and_then(|previous| self.boundaries.get(previous)) {
            Some((_, deletion)) => *deletion,
            None => DeletionTime::LIVE,
        }
    }

    fn join_equal(&mut self, from: usize, to: usize) {
        let to = to.min(self.boundaries.len());
        let mut kept = from;
        for index in from..to {
            if self.deletion_before(kept) != self.boundaries[index].1 {
                self.boundaries.swap(kept, index);
                kept += 1;
            }
        }
        self.boundaries.drain(kept..to);
    }

    /// Returns the deletion in force at a position.
    pub fn deletion_at(
        &self,
        comparator: &ClusteringComparator,
        position: PositionRef<'_>,
    ) -> DeletionTime {
        let index = self
            .boundaries
            .partition_point(|(bound, _)| comparator.compare(bound.position(), position).is_le());
        self.deletion_before(index)
    }

    /// Returns the boundaries: each a position and the deletion in force behind it.
    pub fn boundaries(&self) -> &[(ClusteringBound, DeletionTime)] {
        &self.boundaries
    }

    /// Returns whether there is no range.
    pub fn is_empty(&self) -> bool {
        self.boundaries.is_empty()
    }

    /// Returns the ranges, each with one deletion.
    pub fn ranges(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.boundaries.windows(2).filter(|pair| !pair[0].1.is_live()).map(|pair| RangeTombstone {
            start: with_role(&pair[0].0, true),
            end: with_role(&pair[1].0, false),
            deletion: pair[0].1,
        })
    }

    /// Returns the ranges as markers in clustering order.
    pub fn markers(&self) -> impl Iterator<Item = RangeTombstoneMarker> + '_ {
        self.boundaries.iter().enumerate().map(|(index, (bound, after))| {
            RangeTombstoneMarker::new(bound.position(), self.deletion_before(index), *after)
        })
    }
}

fn with_role(bound: &ClusteringBound, start: bool) -> ClusteringBound {
    let kind = BoundKind::for_marker(bound.kind.weight(), !start, start);
    ClusteringBound { kind, values: bound.values.clone() }
}
