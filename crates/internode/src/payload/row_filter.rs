//! The conditions of a read on columns (ALLOW FILTERING and indexes).

use bytes::{BufMut, Bytes};
use espalier_mutation::schema::TableMetadata;
use espalier_types::vint;
use uuid::Uuid;

use super::columns::{named, unknown};
use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::{put_boolean, put_short_bytes},
};

/// The conditions that rows of the answer fulfil.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
    /// The conditions, all of which must hold.
    pub expressions: Vec<Expression>,
}

/// A condition on a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `column operator value`
    Simple {
        /// The name of the column.
        column: Bytes,
        /// The comparison.
        operator: Operator,
        /// The serialised value.
        value: Bytes,
    },
    /// `column[key] = value`
    MapEquality {
        /// The name of the column.
        column: Bytes,
        /// The comparison, which is equality.
        operator: Operator,
        /// The serialised key.
        key: Bytes,
        /// The serialised value.
        value: Bytes,
    },
    /// `expr(index, value)`
    Custom {
        /// The id of the index.
        index: Uuid,
        /// The value, in a form that only the index defines.
        value: Bytes,
    },
}

/// A comparison, with Cassandra's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are Cassandra's")]
pub enum Operator {
    Eq = 0,
    Lt = 4,
    Lte = 3,
    Gte = 1,
    Gt = 2,
    In = 7,
    Contains = 5,
    ContainsKey = 6,
    Neq = 8,
    IsNot = 9,
    LikePrefix = 10,
    LikeSuffix = 11,
    LikeContains = 12,
    LikeMatches = 13,
    Like = 14,
    Ann = 15,
}

impl Operator {
    const ALL: [Self; 16] = [
        Self::Eq,
        Self::Lt,
        Self::Lte,
        Self::Gte,
        Self::Gt,
        Self::In,
        Self::Contains,
        Self::ContainsKey,
        Self::Neq,
        Self::IsNot,
        Self::LikePrefix,
        Self::LikeSuffix,
        Self::LikeContains,
        Self::LikeMatches,
        Self::Like,
        Self::Ann,
    ];

    fn decode(input: &mut Input<'_>) -> Result<Self> {
        let number = input.i32()?;
        let found = Self::ALL.into_iter().find(|operator| *operator as i32 == number);
        found.ok_or(DecodeError::Malformed("a comparison of unknown kind"))
    }
}

const SIMPLE: u8 = 0;
const MAP_EQUALITY: u8 = 1;
const CUSTOM: u8 = 3;
const USER: u8 = 4;

impl RowFilter {
    pub(crate) fn decode(input: &mut Input<'_>, table: &TableMetadata) -> Result<Self> {
        // In older releases, this byte was 1 in a read of Thrift.
        if input.boolean()? {
            return Err(DecodeError::Unsupported("a filter of Thrift"));
        }
        let count = input.count()?;
        let expressions = input.list(count, |input| Expression::decode(input, table))?;
        Ok(Self { expressions })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        put_boolean(false, out);
        vint::write_unsigned(self.expressions.len() as u64, out);
        self.expressions.iter().try_for_each(|expression| expression.encode(out))
    }
}

impl Expression {
    /// Returns the name of the column; `None` for a condition of an index.
    pub fn column(&self) -> Option<&Bytes> {
        match self {
            Self::Simple { column, .. } | Self::MapEquality { column, .. } => Some(column),
            Self::Custom { .. } => None,
        }
    }

    fn decode(input: &mut Input<'_>, table: &TableMetadata) -> Result<Self> {
        let kind = input.u8()?;
        match kind {
            SIMPLE | MAP_EQUALITY => {}
            CUSTOM => {
                return Ok(Self::Custom { index: input.uuid()?, value: input.short_bytes()? });
            }
            USER => return Err(DecodeError::Unsupported("a filter of an extension")),
            _ => return Err(DecodeError::Malformed("a condition of unknown kind")),
        }
        let column = input.short_bytes()?;
        let operator = Operator::decode(input)?;
        if named(table, &column).is_none() {
            return Err(unknown(table, &column));
        }
        Ok(if kind == SIMPLE {
            Self::Simple { column, operator, value: input.short_bytes()? }
        } else {
            let (key, value) = (input.short_bytes()?, input.short_bytes()?);
            Self::MapEquality { column, operator, key, value }
        })
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        let head = |kind: u8, column: &Bytes, operator: Operator, out: &mut Vec<u8>| {
            out.push(kind);
            put_short_bytes(column, out)?;
            out.put_i32(operator as i32);
            Ok::<_, String>(())
        };
        match self {
            Self::Simple { column, operator, value } => {
                head(SIMPLE, column, *operator, out)?;
                put_short_bytes(value, out)
            }
            Self::MapEquality { column, operator, key, value } => {
                head(MAP_EQUALITY, column, *operator, out)?;
                put_short_bytes(key, out)?;
                put_short_bytes(value, out)
            }
            Self::Custom { index, value } => {
                out.push(CUSTOM);
                out.extend_from_slice(index.as_bytes());
                put_short_bytes(value, out)
            }
        }
    }
}
