//! Decodes the body of a range tombstone marker, and steps over rows and markers. Format:
//! docs/formats/data.md.

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, ClusteringBound, DeletionTime, RangeTombstoneMarker,
    encoding::marker::read_marker_deletions,
};

use super::{
    super::{
        clustering_values::to_values,
        column_map::FileLayout,
        input::{DataInput, Decoded, Malformed, Span},
    },
    Head, HeadKind, UnfilteredHead, walk_head,
};

/// Reads the marker of `head`, which the caller has read from `bytes`.
pub(crate) fn read_marker(
    bytes: &Bytes,
    head: &UnfilteredHead,
    kind: BoundKind,
    layout: &FileLayout,
) -> Decoded<RangeTombstoneMarker> {
    let (before, after) = read_body(bytes, &head.head, kind, layout)?;
    let position = ClusteringBound { kind, values: to_values(bytes, &head.spans) };
    Ok(RangeTombstoneMarker { position, before, after })
}

/// Reads the deletions before and after the marker of `head`.
#[inline]
fn read_body(
    bytes: &[u8],
    head: &Head,
    kind: BoundKind,
    layout: &FileLayout,
) -> Decoded<(DeletionTime, DeletionTime)> {
    let mut input = DataInput::new(bytes, head.body);
    input.vint()?; // the length of the preceding item
    let deletions = read_marker_deletions(&mut input, &layout.baselines, kind)?;
    head.check_end(input.offset())?;
    Ok(deletions)
}

/// The parts of a row or marker that a reader needs to step over it.
pub(crate) enum Step {
    /// A row that ends at this offset.
    Row(usize),
    /// A marker that ends at this offset, the deletion that is open after it, and its kind.
    Marker(usize, DeletionTime, BoundKind),
    /// The byte that ends the partition.
    End,
}

/// Reads the parts that a reader needs to step over the item at `start`, and passes the ranges of
/// the position's values to `each`. A row may end after the end of `bytes`; a marker must lie
/// wholly in `bytes`.
#[inline]
pub(crate) fn step(
    bytes: &[u8],
    start: usize,
    layout: &FileLayout,
    each: impl FnMut(Option<Span>),
) -> Decoded<Step> {
    let head = walk_head(&mut DataInput::new(bytes, start), layout, false, each)?;
    let Some(head) = head else { return Ok(Step::End) };
    let HeadKind::Marker(kind) = head.kind else { return Ok(Step::Row(head.end)) };
    if head.end > bytes.len() {
        return Err(Malformed::Ended);
    }
    match read_body(bytes, &head, kind, layout) {
        Ok((_, open)) => Ok(Step::Marker(head.end, open, kind)),
        // All bytes of the marker are here, so a longer window would not help.
        Err(malformed) => Err(Malformed::Wrong(malformed.reason())),
    }
}
