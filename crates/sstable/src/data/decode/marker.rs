//! Decodes the body of a range tombstone marker. Format: docs/formats/data.md.

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, ClusteringBound, RangeTombstoneMarker, encoding::marker::read_marker_body,
};

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
    let position = ClusteringBound { kind, values: to_values(bytes, &head.spans) };
    let marker = read_marker_body(&mut input, &layout.baselines, position)?;
    if input.offset() as u64 != (start + head.length) as u64 + head.body_length {
        return Err(Malformed::Wrong("a marker's body has another length than announced"));
    }
    Ok(marker)
}
