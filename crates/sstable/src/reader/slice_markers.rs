//! Markers at the bounds of slices, for range deletions that reach beyond the slices.

use espalier_mutation::{ClusteringBound, DeletionTime, RangeTombstoneMarker, Unfiltered};

/// Makes a marker at a slice's bound: `before` is in force in front of it and `after` after it, in
/// clustering order.
pub(super) fn marker_at(
    bound: &ClusteringBound,
    before: DeletionTime,
    after: DeletionTime,
) -> Unfiltered {
    Unfiltered::Marker(RangeTombstoneMarker::new(bound.position(), before, after))
}
