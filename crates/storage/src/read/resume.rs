//! Computes the rest of a read that stopped.

use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, ClusteringComparator, ClusteringSlice,
    ClusteringSlices, Direction,
};

/// Returns the bound behind a row in the direction of the read.
pub(crate) fn bound_behind(row: &Clustering, direction: Direction) -> ClusteringBound {
    let kind = direction.order(BoundKind::ExclusiveStart, BoundKind::ExclusiveEnd).0;
    ClusteringBound { kind, values: row.values.clone() }
}

/// Returns the part of `slices` behind a bound in the direction of the read.
pub(crate) fn slices_behind(
    slices: &ClusteringSlices,
    comparator: &ClusteringComparator,
    reached: ClusteringBound,
    direction: Direction,
) -> ClusteringSlices {
    let rest = match direction {
        Direction::Forward => ClusteringSlice { start: reached, end: ClusteringBound::top() },
        Direction::Reverse => ClusteringSlice { start: ClusteringBound::bottom(), end: reached },
    };
    let cut = |slice: &ClusteringSlice| {
        let starts_later =
            comparator.compare(slice.start.position(), rest.start.position()).is_ge();
        let ends_earlier = comparator.compare(slice.end.position(), rest.end.position()).is_le();
        let start = if starts_later { slice.start.clone() } else { rest.start.clone() };
        let end = if ends_earlier { slice.end.clone() } else { rest.end.clone() };
        ClusteringSlice { start, end }
    };
    let cut = slices.slices.iter().map(cut).filter(|slice| !slice.is_empty(comparator));
    ClusteringSlices { slices: cut.collect() }
}
