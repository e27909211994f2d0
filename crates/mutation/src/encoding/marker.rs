//! Reads and writes the bodies of range tombstone markers. Format: docs/formats/data.md.

use super::{
    baselines::Baselines,
    input::{DataInput, Decoded, Malformed},
};
use crate::{BoundKind, ClusteringBound, DeletionTime, RangeTombstoneMarker};

/// Reads the body of a marker, after its position and the lengths of an SSTable.
///
/// # Errors
///
/// Fails if the bytes end inside the body, or if the marker begins or ends no deletion.
#[inline]
pub fn read_marker_body(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    position: ClusteringBound,
) -> Decoded<RangeTombstoneMarker> {
    let (before, after) = read_marker_deletions(input, baselines, position.kind)?;
    Ok(RangeTombstoneMarker { position, before, after })
}

/// Reads the body of a marker, and returns the deletions before and after it.
///
/// # Errors
///
/// Fails if the bytes end inside the body, or if the marker begins or ends no deletion.
#[inline]
pub fn read_marker_deletions(
    input: &mut DataInput<'_>,
    baselines: &Baselines,
    kind: BoundKind,
) -> Decoded<(DeletionTime, DeletionTime)> {
    let first = baselines.read_deletion(input)?;
    let (before, after) = if kind.is_boundary() {
        // A boundary stores the deletion that ends here before the one that begins here.
        (first, baselines.read_deletion(input)?)
    } else if kind.is_start() {
        (DeletionTime::LIVE, first)
    } else {
        (first, DeletionTime::LIVE)
    };
    if first.is_live() || (kind.is_boundary() && after.is_live()) {
        return Err(Malformed::Wrong("a marker without a deletion"));
    }
    Ok((before, after))
}

/// Appends the body of a marker.
pub fn write_marker_body(marker: &RangeTombstoneMarker, baselines: &Baselines, body: &mut Vec<u8>) {
    for deletion in [marker.before, marker.after] {
        if !deletion.is_live() {
            baselines.write_deletion(deletion, body);
        }
    }
}
