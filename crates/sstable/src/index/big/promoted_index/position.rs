//! This module defines the clustering positions in blocks: positions of rows and of range tombstone
//! markers.

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringComparator, PositionRef, Unfiltered,
};
use espalier_types::CqlType;

use super::super::error::BigIndexWriteError;
use crate::data::{
    clustering_values::{ValueSpans, borrowed, read_spans, to_values, values_in, write_values},
    input::{DataInput, Decoded, Malformed},
    values::ValueForm,
};

/// The number of a row's position. The numbers of markers are in [`BoundKind`].
const ROW: u8 = 4;

/// The kind of object at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionKind {
    /// A row, which has a value for each clustering column.
    Row,
    /// A marker. Its position may be a prefix.
    Bound(BoundKind),
}

impl PositionKind {
    fn from_number(number: u8) -> Option<Self> {
        match number {
            ROW => Some(Self::Row),
            _ => BoundKind::from_number(number).map(Self::Bound),
        }
    }

    fn weight(self) -> i8 {
        match self {
            Self::Row => 0,
            Self::Bound(kind) => kind.weight(),
        }
    }
}

/// A borrowed position, for writing.
#[derive(Clone, Copy, Debug)]
pub struct BlockPositionRef<'a> {
    /// The kind of object at the position.
    pub kind: PositionKind,
    /// The values of a row, or a prefix.
    pub values: &'a [Option<Bytes>],
}

impl<'a> From<&'a Unfiltered> for BlockPositionRef<'a> {
    fn from(unfiltered: &'a Unfiltered) -> Self {
        let kind = match unfiltered {
            Unfiltered::Row(_) => PositionKind::Row,
            Unfiltered::Marker(marker) => PositionKind::Bound(marker.position.kind),
        };
        Self { kind, values: unfiltered.position().values }
    }
}

impl<'a> BlockPositionRef<'a> {
    /// Returns the position in the form for comparisons.
    pub fn position(&self) -> PositionRef<'a> {
        PositionRef { values: self.values, weight: self.kind.weight() }
    }

    /// Appends the position. `types` are the types of the clustering columns.
    pub(super) fn write(
        &self,
        types: &[(CqlType, bool)],
        out: &mut Vec<u8>,
    ) -> Result<(), BigIndexWriteError> {
        match self.kind {
            PositionKind::Row => out.push(ROW),
            PositionKind::Bound(kind) => {
                out.push(kind as u8);
                out.extend_from_slice(&(self.values.len() as u16).to_be_bytes());
            }
        }
        write_values(types, borrowed(self.values), out).map_err(BigIndexWriteError::Position)
    }
}

/// An owned position. Its values share the memory that they were read into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPosition {
    /// The kind of object at the position.
    pub kind: PositionKind,
    /// The values of a row, or a prefix.
    pub values: Box<[Option<Bytes>]>,
}

impl BlockPosition {
    /// Returns the position in the form for comparisons.
    pub fn position(&self) -> PositionRef<'_> {
        PositionRef { values: &self.values, weight: self.kind.weight() }
    }

    /// Returns the position in the form for writing.
    pub fn as_ref(&self) -> BlockPositionRef<'_> {
        BlockPositionRef { kind: self.kind, values: &self.values }
    }
}

impl BlockPosition {
    /// Sets `position` to a row with these values. Reuses its memory if the number of values is
    /// equal.
    #[inline]
    pub(crate) fn set_row(
        position: &mut Option<Self>,
        values: impl ExactSizeIterator<Item = Option<Bytes>>,
    ) {
        match position {
            Some(position) if position.values.len() == values.len() => {
                position.kind = PositionKind::Row;
                position.values.iter_mut().zip(values).for_each(|(old, new)| *old = new);
            }
            _ => *position = Some(Self { kind: PositionKind::Row, values: values.collect() }),
        }
    }
}

impl From<Unfiltered> for BlockPosition {
    fn from(unfiltered: Unfiltered) -> Self {
        match unfiltered {
            Unfiltered::Row(row) => Self { kind: PositionKind::Row, values: row.clustering.values },
            Unfiltered::Marker(marker) => {
                let ClusteringBound { kind, values } = marker.position;
                Self { kind: PositionKind::Bound(kind), values }
            }
        }
    }
}

/// The format in which positions of a file are read and compared. It is made once for a file and
/// shared.
#[derive(Clone, Debug)]
pub struct PositionFormat {
    forms: Box<[ValueForm]>,
    comparator: ClusteringComparator,
}

impl PositionFormat {
    /// Creates the format for a file with these types of clustering columns in its header. The
    /// comparator is the table's.
    pub fn new(file_types: &[(CqlType, bool)], comparator: ClusteringComparator) -> Self {
        let forms = file_types.iter().map(|(column_type, _)| ValueForm::of(column_type)).collect();
        Self { forms, comparator }
    }

    /// Returns the comparator of positions.
    pub fn comparator(&self) -> &ClusteringComparator {
        &self.comparator
    }
}

/// A position, as spans of the bytes that it was read from.
#[derive(Clone, Debug)]
pub(super) struct PositionSpans {
    kind: PositionKind,
    spans: ValueSpans,
}

impl PositionSpans {
    pub(super) fn read(input: &mut DataInput<'_>, format: &PositionFormat) -> Decoded<Self> {
        let kind = PositionKind::from_number(input.u8()?)
            .ok_or(Malformed::Wrong("a block's first or last position is of unknown kind"))?;
        let count = match kind {
            PositionKind::Row => format.forms.len(),
            PositionKind::Bound(_) => usize::from(input.u16()?),
        };
        Ok(Self { kind, spans: read_spans(input, &format.forms, count)? })
    }

    pub(super) fn to_position(&self, bytes: &Bytes) -> BlockPosition {
        BlockPosition { kind: self.kind, values: to_values(bytes, &self.spans) }
    }

    /// Compares the position with another one without allocating values. `bytes` are the bytes that
    /// it was read from.
    pub(super) fn compare(
        &self,
        bytes: &Bytes,
        comparator: &ClusteringComparator,
        other: PositionRef<'_>,
    ) -> Ordering {
        comparator.compare_values(values_in(bytes, &self.spans), self.kind.weight(), other)
    }
}
