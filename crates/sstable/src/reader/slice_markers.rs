//! Markers at the bounds of slices, where a range deletion reaches beyond them.

use espalier_mutation::{ClusteringBound, DeletionTime, RangeTombstoneMarker, Unfiltered};

/// A marker at a slice's bound: `before` is in force in front of it, `after` behind, in clustering order.
pub(super) fn marker_at(
    bound: &ClusteringBound,
    before: DeletionTime,
    after: DeletionTime,
) -> Unfiltered {
    Unfiltered::Marker(RangeTombstoneMarker::new(bound.position(), before, after))
}
