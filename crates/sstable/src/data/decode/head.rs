//! The head of a row or marker: the part before the body, which suffices to place the item and to
//! step over it.

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_mutation::{BoundKind, ClusteringComparator, PositionRef};

use super::super::{
    clustering_values::{ValueSpans, read_spans, to_values, values_in},
    column_map::FileLayout,
    input::{DataInput, Decoded, Malformed},
    layout::{
        END_OF_PARTITION, EXTENDED_SHADOWABLE, EXTENDED_SHADOWABLE_FOLLOWS, EXTENDED_STATIC,
        EXTENSION, HAS_TIMESTAMP, HAS_TTL, IS_MARKER,
    },
};

/// The kind of an item of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadKind {
    Row,
    Marker(BoundKind),
}

/// The head of a row or marker. Spans are offsets into the bytes from which it was read.
#[derive(Clone, Debug)]
pub(crate) struct UnfilteredHead {
    pub(crate) kind: HeadKind,
    pub(crate) flags: u8,
    /// The extended flags; 0 without [`EXTENSION`].
    pub(crate) extended: u8,
    pub(crate) spans: ValueSpans,
    /// Bytes from the first flag to the body.
    pub(crate) length: usize,
    /// Bytes of the body.
    pub(crate) body_length: u64,
    /// Distance in bytes from the start of the preceding item. It is the first number of the body.
    pub(crate) previous: u64,
    /// Bytes from the first flag to the rest of the body.
    pub(crate) content: usize,
}

impl UnfilteredHead {
    /// Returns a copy of the position. The position of a row is its clustering.
    pub(crate) fn to_position(&self, bytes: &Bytes) -> HeadPosition {
        HeadPosition { values: to_values(bytes, &self.spans), weight: self.weight() }
    }

    /// Returns −1 if the item lies before rows with equal values, +1 if behind them, 0 for a row.
    pub(crate) fn weight(&self) -> i8 {
        match self.kind {
            HeadKind::Row => 0,
            HeadKind::Marker(kind) => kind.weight(),
        }
    }

    /// Compares its position with another one, without owned values. `bytes` are the bytes of the
    /// head.
    pub(crate) fn compare(
        &self,
        bytes: &Bytes,
        comparator: &ClusteringComparator,
        other: PositionRef<'_>,
    ) -> Ordering {
        comparator.compare_values(values_in(bytes, &self.spans), self.weight(), other)
    }
}

/// An owned position.
#[derive(Clone, Debug)]
pub(crate) struct HeadPosition {
    values: Box<[Option<Bytes>]>,
    weight: i8,
}

impl HeadPosition {
    pub(crate) fn position(&self) -> PositionRef<'_> {
        PositionRef { values: &self.values, weight: self.weight }
    }
}

/// Reads a head after the static row; `None` is the end of the partition.
pub(crate) fn read_head(
    input: &mut DataInput<'_>,
    layout: &FileLayout,
) -> Decoded<Option<UnfilteredHead>> {
    let start = input.offset();
    let flags = input.u8()?;
    if flags & END_OF_PARTITION != 0 {
        return match flags {
            END_OF_PARTITION => Ok(None),
            _ => Err(Malformed::Wrong("other flags besides the end of the partition")),
        };
    }
    let mut extended = 0;
    let (kind, count) = if flags & IS_MARKER != 0 {
        if flags != IS_MARKER {
            return Err(Malformed::Wrong("a marker with the flags of a row"));
        }
        let kind = BoundKind::from_number(input.u8()?)
            .ok_or(Malformed::Wrong("a marker of unknown kind"))?;
        (HeadKind::Marker(kind), usize::from(input.u16()?))
    } else {
        if flags & EXTENSION != 0 {
            extended = input.u8()?;
            check_extension(extended, false)?;
        }
        (HeadKind::Row, layout.clustering.len())
    };
    if flags & (HAS_TTL | HAS_TIMESTAMP) == HAS_TTL {
        return Err(Malformed::Wrong("a row with a ttl and no timestamp"));
    }
    let spans = read_spans(input, &layout.clustering, count)?;
    Ok(Some(UnfilteredHead { extended, ..read_lengths(input, start, kind, flags, spans)? }))
}

/// Reads the head of a static row, which exists if the header has static columns.
pub(crate) fn read_static_head(input: &mut DataInput<'_>) -> Decoded<UnfilteredHead> {
    let start = input.offset();
    let flags = input.u8()?;
    if flags & EXTENSION == 0 || flags & (END_OF_PARTITION | IS_MARKER) != 0 {
        return Err(Malformed::Wrong("the static row is missing"));
    }
    check_extension(input.u8()?, true)?;
    read_lengths(input, start, HeadKind::Row, flags, ValueSpans::new())
}

fn read_lengths(
    input: &mut DataInput<'_>,
    start: usize,
    kind: HeadKind,
    flags: u8,
    spans: ValueSpans,
) -> Decoded<UnfilteredHead> {
    let body_length = input.vint()?;
    let length = input.offset() - start;
    let previous = input.vint()?;
    let content = input.offset() - start;
    Ok(UnfilteredHead { kind, flags, extended: 0, spans, length, body_length, previous, content })
}

fn check_extension(extended: u8, is_static: bool) -> Decoded<()> {
    const SHADOWABLE: u8 = EXTENDED_SHADOWABLE | EXTENDED_SHADOWABLE_FOLLOWS;
    match (extended, is_static) {
        (EXTENDED_STATIC, true) => Ok(()),
        (_, false) if extended & !SHADOWABLE == 0 => Ok(()),
        (EXTENDED_STATIC, false) => Err(Malformed::Wrong("a static row after other rows")),
        _ => Err(Malformed::Wrong("unknown extended flags")),
    }
}
