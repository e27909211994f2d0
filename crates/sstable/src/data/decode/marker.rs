//! Decodes the body of a range tombstone marker. Format: docs/formats/data.md.

use bytes::Bytes;
use espalier_mutation::{BoundKind, ClusteringBound, DeletionTime, RangeTombstoneMarker};

use super::{
    super::{
        clustering_values::to_values,
        column_map::FileLayout,
        input::{DataInput, Decoded, Malformed},
    },
    UnfilteredHead,
};

/// Reads the marker that begins at `start` of `bytes`. `head` is its head, which the caller has
/// read.
pub(crate) fn read_marker(
    bytes: &Bytes,
    start: usize,
    head: &UnfilteredHead,
    kind: BoundKind,
    layout: &FileLayout,
) -> Decoded<RangeTombstoneMarker> {
    let mut input = DataInput::new(bytes, start + head.content);
    let first = layout.baselines.read_deletion(&mut input)?;
    let (before, after) = if kind.is_boundary() {
        // A boundary stores the deletion that ends here before the one that begins here.
        (first, layout.baselines.read_deletion(&mut input)?)
    } else if kind.is_start() {
        (DeletionTime::LIVE, first)
    } else {
        (first, DeletionTime::LIVE)
    };
    if first.is_live() || (kind.is_boundary() && after.is_live()) {
        return Err(Malformed::Wrong("a marker without a deletion"));
    }
    if input.offset() as u64 != (start + head.length) as u64 + head.body_length {
        return Err(Malformed::Wrong("a marker's body has another length than announced"));
    }
    let position = ClusteringBound { kind, values: to_values(bytes, &head.spans) };
    Ok(RangeTombstoneMarker { position, before, after })
}
