//! The head of an item, which is a row or a marker: the part before the body. The head has the
//! item's position and length, so that a reader can step over the item. All readers of Data.db read
//! heads by [`walk_head`], and the heads of static rows by [`walk_static_head`].

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_mutation::{BoundKind, ClusteringComparator, PositionRef};

use super::super::{
    clustering_values::{ClusteringReader, TOO_MANY_VALUES, ValueSpans, to_values, values_in},
    column_map::FileLayout,
    input::{DataInput, Decoded, MAX_ROW_LENGTH, Malformed, Span},
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

/// The head of a row or marker, without the values of its position. Offsets count from the start of
/// the bytes from which the head was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) kind: HeadKind,
    pub(crate) flags: u8,
    /// The extended flags; 0 without [`EXTENSION`] and for a static row.
    pub(crate) extended: u8,
    /// The offset after the values.
    pub(crate) values_end: usize,
    /// The offset of the body.
    pub(crate) body: usize,
    /// The offset after the body. It may lie after the end of the bytes.
    pub(crate) end: usize,
}

impl Head {
    /// Returns an error unless the body ends at `offset`, at which its reader stopped.
    #[inline]
    pub(crate) fn check_end(&self, offset: usize) -> Decoded<()> {
        if offset == self.end {
            return Ok(());
        }
        Err(Malformed::Wrong(match self.kind {
            HeadKind::Row => "a row's body has another length than announced",
            HeadKind::Marker(_) => "a marker's body has another length than announced",
        }))
    }
}

/// Reads the head of a row or marker after the static row, up to its body; `None` is the end of the
/// partition. Passes the ranges of the position's values to `each`. If `is_exact`, refuses numbers
/// in these values that are longer than a writer makes them.
#[inline(always)]
pub(crate) fn walk_head(
    input: &mut DataInput<'_>,
    layout: &FileLayout,
    is_exact: bool,
    mut each: impl FnMut(Option<Span>),
) -> Decoded<Option<Head>> {
    let flags = input.u8()?;
    let (mut kind, mut extended) = (HeadKind::Row, 0);
    let mut forms = layout.clustering.as_slice();
    if flags & (END_OF_PARTITION | IS_MARKER | EXTENSION) != 0 {
        if flags & END_OF_PARTITION != 0 {
            return match flags {
                END_OF_PARTITION => Ok(None),
                _ => Err(Malformed::Wrong("other flags besides the end of the partition")),
            };
        }
        if flags & IS_MARKER != 0 {
            if flags != IS_MARKER {
                return Err(Malformed::Wrong("a marker with the flags of a row"));
            }
            let number = BoundKind::from_number(input.u8()?);
            kind = HeadKind::Marker(number.ok_or(Malformed::Wrong("a marker of unknown kind"))?);
            forms = forms.get(..usize::from(input.u16()?)).ok_or(TOO_MANY_VALUES)?;
        } else {
            extended = input.u8()?;
            check_extension(extended, false)?;
        }
    }
    if flags & (HAS_TTL | HAS_TIMESTAMP) == HAS_TTL {
        return Err(Malformed::Wrong("a row with a ttl and no timestamp"));
    }
    let mut values = ClusteringReader::new(forms);
    while values.left() > 0 {
        each(values.read(input, is_exact)?);
    }
    read_length(input, kind, flags, extended).map(Some)
}

/// Reads the head of a static row, which exists if the header has static columns.
pub(crate) fn walk_static_head(input: &mut DataInput<'_>) -> Decoded<Head> {
    let flags = input.u8()?;
    if flags & EXTENSION == 0 || flags & (END_OF_PARTITION | IS_MARKER) != 0 {
        return Err(Malformed::Wrong("the static row is missing"));
    }
    check_extension(input.u8()?, true)?;
    read_length(input, HeadKind::Row, flags, 0)
}

#[inline(always)]
fn read_length(
    input: &mut DataInput<'_>,
    kind: HeadKind,
    flags: u8,
    extended: u8,
) -> Decoded<Head> {
    let values_end = input.offset();
    let length = input.vint()?;
    if length > MAX_ROW_LENGTH {
        return Err(Malformed::Wrong("a row is longer than 2 GiB"));
    }
    let body = input.offset();
    Ok(Head { kind, flags, extended, values_end, body, end: body + length as usize })
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

/// The head of a row or marker with the values of its position.
#[derive(Clone, Debug)]
pub(crate) struct UnfilteredHead {
    pub(crate) head: Head,
    pub(crate) spans: ValueSpans,
    /// The offset of the first flag.
    start: usize,
    /// Distance in bytes from the start of the preceding item. It is the first number of the body.
    pub(crate) previous: u64,
}

impl UnfilteredHead {
    /// Returns the length of the item in bytes.
    pub(crate) fn length(&self) -> usize {
        self.head.end - self.start
    }

    /// Returns a copy of the position. The position of a row is its clustering.
    pub(crate) fn to_position(&self, bytes: &Bytes) -> HeadPosition {
        HeadPosition { values: to_values(bytes, &self.spans), weight: self.weight() }
    }

    /// Returns −1 if the item lies before rows with equal values, +1 if behind them, 0 for a row.
    pub(crate) fn weight(&self) -> i8 {
        match self.head.kind {
            HeadKind::Row => 0,
            HeadKind::Marker(kind) => kind.weight(),
        }
    }

    /// Compares the item's position with another one, without copying values. `bytes` are the bytes
    /// of the head.
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

/// Reads a head after the static row, with the values of its position; `None` is the end of the
/// partition.
pub(crate) fn read_head(
    input: &mut DataInput<'_>,
    layout: &FileLayout,
) -> Decoded<Option<UnfilteredHead>> {
    let (start, mut spans) = (input.offset(), ValueSpans::new());
    let Some(head) = walk_head(input, layout, false, |span| spans.push(span))? else {
        return Ok(None);
    };
    Ok(Some(UnfilteredHead { head, spans, start, previous: input.vint()? }))
}
