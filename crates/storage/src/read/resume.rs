//! Going on behind a row.

use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, ClusteringComparator, ClusteringSlice,
    ClusteringSlices, Direction,
};

/// The part of `slices` that lies behind a row in the direction of the read.
pub(crate) fn slices_behind(
    slices: &ClusteringSlices,
    comparator: &ClusteringComparator,
    last: &Clustering,
    direction: Direction,
) -> ClusteringSlices {
    let rest = match direction {
        Direction::Forward => ClusteringSlice {
            start: bound(BoundKind::ExclusiveStart, last),
            end: ClusteringBound::top(),
        },
        Direction::Reverse => ClusteringSlice {
            start: ClusteringBound::bottom(),
            end: bound(BoundKind::ExclusiveEnd, last),
        },
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

fn bound(kind: BoundKind, clustering: &Clustering) -> ClusteringBound {
    ClusteringBound { kind, values: clustering.values.clone() }
}
