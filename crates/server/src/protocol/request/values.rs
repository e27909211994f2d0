//! A request keeps its bound values as positions in its body: eight bytes for each value, in a
//! small vector.

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use super::super::error::DecodeError;
use super::super::reader::BodyReader;
use super::super::version::ProtocolVersion;

/// Length of a null value on the wire.
const NULL: i32 = -1;

/// One bound value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The value's bytes.
    Set(&'a [u8]),
    /// Null deletes the column's value.
    Null,
    /// An unset value leaves the column as it is.
    Unset,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ValuePosition {
    offset: u32,
    /// Length of the value in bytes; -1 for null, -2 for unset.
    length: i32,
}

pub(super) type ValuePositions = SmallVec<[ValuePosition; 16]>;

/// The values of a QUERY, an EXECUTE, or one statement of a BATCH.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    body: &'a Bytes,
    positions: ValuePositions,
    /// The names of the values; empty if the values have none.
    names: Vec<&'a str>,
}

impl<'a> Values<'a> {
    pub(super) fn none(body: &'a Bytes) -> Self {
        Self { body, positions: SmallVec::new(), names: Vec::new() }
    }

    /// Returns the values at `range` of `positions`.
    pub(super) fn part(
        body: &'a Bytes,
        positions: &[ValuePosition],
        range: Range<usize>,
    ) -> Values<'a> {
        let positions = positions.get(range).unwrap_or_default();
        Self { body, positions: SmallVec::from_slice(positions), names: Vec::new() }
    }

    pub(super) fn decode(
        version: ProtocolVersion,
        body: &'a Bytes,
        reader: &mut BodyReader<'a>,
        named: bool,
    ) -> Result<Self, DecodeError> {
        let mut values = Self::none(body);
        let count = reader.count("values", if named { 6 } else { 4 })?;
        values.positions.reserve(count);
        for _ in 0..count {
            if named {
                values.names.push(reader.string("value name")?);
            }
            values.positions.push(decode_value(version, reader)?);
        }
        Ok(values)
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Returns the value at `index`.
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        self.positions.get(index).map(|&position| resolve(self.body, position))
    }

    /// Iterates over the values in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value<'a>> + '_ {
        self.positions.iter().map(|&position| resolve(self.body, position))
    }

    /// Returns the bytes of the value at `index`, shared with the receive buffer; `None` if it is
    /// null, unset, or missing.
    pub fn shared(&self, index: usize) -> Option<Bytes> {
        match self.get(index)? {
            Value::Set(bytes) => Some(self.body.slice_ref(bytes)),
            Value::Null | Value::Unset => None,
        }
    }

    /// Returns the names of the values in the same order, if they have names.
    pub fn names(&self) -> Option<&[&'a str]> {
        (!self.names.is_empty()).then_some(&self.names)
    }
}

fn resolve(body: &Bytes, position: ValuePosition) -> Value<'_> {
    match usize::try_from(position.length) {
        Ok(length) => {
            let start = position.offset as usize;
            Value::Set(&body[start..start + length])
        }
        Err(_) if position.length == NULL => Value::Null,
        Err(_) => Value::Unset,
    }
}

/// Reads one [value]. Its position is inside the body, because the reader has skipped its bytes. In
/// version 3 each negative length is null: unset values came with version 4.
pub(super) fn decode_value(
    version: ProtocolVersion,
    reader: &mut BodyReader<'_>,
) -> Result<ValuePosition, DecodeError> {
    let length = if version >= ProtocolVersion::V4 {
        reader.value_length("value")?
    } else {
        reader.bytes("value")?.map_or(NULL, |bytes| bytes.len() as i32)
    };
    let end = reader.offset();
    Ok(ValuePosition { offset: (end - length.max(0) as usize) as u32, length })
}
