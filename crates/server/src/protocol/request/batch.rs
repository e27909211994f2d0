//! BATCH: statements with their values, then the parameters of the batch. All values share one
//! vector of positions.

use std::ops::Range;

use bytes::Bytes;
use espalier_cql::grammar::ast::BatchKind;

use super::super::consistency::Consistency;
use super::super::error::DecodeError;
use super::super::reader::BodyReader;
use super::super::version::ProtocolVersion;
use super::parameters::{NAMED_VALUES, ParametersTail, decode_flags};
use super::values::{ValuePositions, Values, decode_value};

/// A statement of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementRef<'a> {
    /// CQL text.
    Text(&'a str),
    /// The id of a prepared statement.
    Prepared(&'a [u8]),
}

/// A statement of a batch, with its values.
#[derive(Clone, Debug)]
pub struct BatchStatement<'a> {
    /// The statement.
    pub statement: StatementRef<'a>,
    /// The positions of its values among the values of all statements.
    pub values: Range<usize>,
}

/// A request to execute several statements as one.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// The kind of the batch: how its statements are applied together.
    pub kind: BatchKind,
    /// The statements in their order.
    pub statements: Vec<BatchStatement<'a>>,
    /// The consistency level.
    pub consistency: Consistency,
    /// The other parameters of the batch.
    pub tail: ParametersTail<'a>,
    body: &'a Bytes,
    positions: ValuePositions,
}

impl<'a> Batch<'a> {
    pub(super) fn decode(
        version: ProtocolVersion,
        body: &'a Bytes,
        reader: &mut BodyReader<'a>,
    ) -> Result<Self, DecodeError> {
        let kind = match reader.byte("batch type")? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            value => return Err(DecodeError::UnknownValue { field: "batch type", value }),
        };
        let mut positions = ValuePositions::new();
        let count = reader.count("batch statements", 5)?;
        let mut statements = Vec::with_capacity(count);
        for _ in 0..count {
            let statement = match reader.byte("statement kind")? {
                0 => StatementRef::Text(reader.long_string("query")?),
                1 => StatementRef::Prepared(reader.short_bytes("prepared statement id")?),
                value => return Err(DecodeError::UnknownValue { field: "statement kind", value }),
            };
            let first = positions.len();
            let value_count = reader.count("values", 4)?;
            positions.reserve(value_count);
            for _ in 0..value_count {
                positions.push(decode_value(version, reader)?);
            }
            statements.push(BatchStatement { statement, values: first..positions.len() });
        }
        let consistency = Consistency::from_code(reader.short("consistency")?)?;
        let flags = decode_flags(version, reader)?;
        if flags & NAMED_VALUES != 0 {
            return Err(DecodeError::NamedBatchValues);
        }
        let tail = ParametersTail::decode(flags, reader)?;
        Ok(Self { kind, statements, consistency, tail, body, positions })
    }

    /// Returns the values of one of [`Self::statements`].
    pub fn values(&self, statement: &BatchStatement<'a>) -> Values<'a> {
        Values::part(self.body, &self.positions, statement.values.clone())
    }
}
