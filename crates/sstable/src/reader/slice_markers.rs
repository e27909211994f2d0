//! Markers at the bounds of slices, where a range deletion reaches beyond them.

use espalier_mutation::{
    BoundKind, ClusteringBound, DeletionTime, RangeTombstoneMarker, Unfiltered,
};

/// A marker at a slice's bound: `before` is in force in front of it, `after` behind, in clustering order.
pub(super) fn marker_at(
    bound: &ClusteringBound,
    before: DeletionTime,
    after: DeletionTime,
) -> Unfiltered {
    let kind = BoundKind::for_marker(bound.kind.weight(), !before.is_live(), !after.is_live());
    let position = ClusteringBound { kind, values: bound.values.clone() };
    Unfiltered::Marker(RangeTombstoneMarker { position, before, after })
}
