//! Markers at the bounds of slices, for range deletions that reach beyond the slices.

use espalier_mutation::{ClusteringBound, DeletionTime, RangeTombstoneMarker, Unfiltered};

/// Makes a marker at a slice's bound. In clustering order, `before` is in force before the bound
/// and `after` is in force after the bound.
pub(super) fn marker_at(
    bound: &ClusteringBound,
    before: DeletionTime,
    after: DeletionTime,
) -> Unfiltered {
    Unfiltered::Marker(RangeTombstoneMarker::new(bound.position(), before, after))
}
