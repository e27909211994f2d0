//! Clustering positions as blocks name them: of a row, or of a range tombstone marker.

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

/// The number of a row's position; those of markers are bounds' ([`BoundKind`]).
const ROW: u8 = 4;

/// Whose position it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionKind {
    /// A row's: it has a value for each clustering column.
    Row,
    /// A marker's: it may be a prefix.
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

/// A borrowed position, to be written.
#[derive(Clone, Copy, Debug)]
pub struct BlockPositionRef<'a> {
    /// Whose it is.
    pub kind: PositionKind,
    /// A row's values, or a prefix.
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
    /// The position, to be compared.
    pub fn position(&self) -> PositionRef<'a> {
        PositionRef { values: self.values, weight: self.kind.weight() }
    }

    /// Appends the position. `types` are those of the clustering columns.
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

/// An owned position; values share the memory that they were read into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPosition {
    /// Whose it is.
    pub kind: PositionKind,
    /// A row's values, or a prefix.
    pub values: Box<[Option<Bytes>]>,
}

impl BlockPosition {
    /// The position, to be compared.
    pub fn position(&self) -> PositionRef<'_> {
        PositionRef { values: &self.values, weight: self.kind.weight() }
    }

    /// The position, to be written.
    pub fn as_ref(&self) -> BlockPositionRef<'_> {
        BlockPositionRef { kind: self.kind, values: &self.values }
    }
}

impl BlockPosition {
    /// Makes `position` that of a row with these values, in the same memory if it has as many.
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

/// How positions of a file are read and compared. To be made once for a file and shared.
#[derive(Clone, Debug)]
pub struct PositionFormat {
    forms: Box<[ValueForm]>,
    comparator: ClusteringComparator,
}

impl PositionFormat {
    /// Of a file whose header has these types of clustering columns, read as a table with this comparator.
    pub fn new(file_types: &[(CqlType, bool)], comparator: ClusteringComparator) -> Self {
        let forms = file_types.iter().map(|(column_type, _)| ValueForm::of(column_type)).collect();
        Self { forms, comparator }
    }

    /// The order of positions.
    pub fn comparator(&self) -> &ClusteringComparator {
        &self.comparator
    }
}

/// A position in the bytes that it was read from.
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

    /// Compares it with another position, without making values of its own. `bytes` are those it was read from.
    pub(super) fn compare(
        &self,
        bytes: &Bytes,
        comparator: &ClusteringComparator,
        other: PositionRef<'_>,
    ) -> Ordering {
        comparator.compare_values(values_in(bytes, &self.spans), self.kind.weight(), other)
    }
}
