//! Numbers of any CQL type, and Java's conversions between them.
//!
//! Integers wrap, floats become integers by truncation and saturation, and a `double` becomes the
//! decimal of its printed digits. A counter is treated as a `bigint`.

use bytes::Bytes;
use espalier_types::{
    CqlType, ValueError,
    literal::{self, print_double, print_float},
    varint::{self, BigInt},
};

use super::decimal::{ArithmeticError, Decimal};
use super::{whole::low_bits, work};

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    /// `tinyint` to `bigint`, `counter`.
    Integer(i64),
    /// `float`.
    Float(f32),
    /// `double`.
    Double(f64),
    /// `varint`.
    Varint(BigInt),
    /// `decimal`.
    Decimal(Decimal),
}

/// The numeric types that functions and operators have overloads for.
pub const NUMERIC: [CqlType; 9] = [
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Counter,
    CqlType::Float,
    CqlType::Double,
    CqlType::Varint,
    CqlType::Decimal,
];

/// Returns whether the type is one of [`NUMERIC`].
pub fn is_numeric(column_type: &CqlType) -> bool {
    NUMERIC.contains(column_type)
}

impl Number {
    /// Decodes a serialised value of a numeric type.
    ///
    /// # Errors
    /// [`ValueError::TooLarge`] for a `varint` or `decimal` of more than
    /// [`literal::MAX_NUMBER_BYTES`], [`ValueError::Length`] for a wrong length,
    /// [`ValueError::Unsupported`] for a type that is not numeric.
    pub fn decode(column_type: &CqlType, bytes: &[u8]) -> Result<Self, ValueError> {
        literal::check_number(column_type, bytes)?;
        Ok(match column_type {
            CqlType::Tinyint => Self::Integer(i8::from_be_bytes(array(column_type, bytes)?).into()),
            CqlType::Smallint => {
                Self::Integer(i16::from_be_bytes(array(column_type, bytes)?).into())
            }
            CqlType::Int => Self::Integer(i32::from_be_bytes(array(column_type, bytes)?).into()),
            CqlType::Bigint | CqlType::Counter => {
                Self::Integer(i64::from_be_bytes(array(column_type, bytes)?))
            }
            CqlType::Float => Self::Float(f32::from_be_bytes(array(column_type, bytes)?)),
            CqlType::Double => Self::Double(f64::from_be_bytes(array(column_type, bytes)?)),
            CqlType::Varint => Self::Varint(varint::decode(bytes)),
            CqlType::Decimal => Self::Decimal(Decimal::decode(bytes)?),
            other => {
                return Err(ValueError::Unsupported {
                    type_name: other.cql_name(),
                    what: "arithmetic",
                });
            }
        })
    }

    /// Serialises the number as a value of a numeric type, with Java's conversions.
    ///
    /// # Errors
    /// As [`Self::to_i64`] for an integer type, and as [`Self::to_decimal`] for `decimal`;
    /// [`ArithmeticError::Work`] for a floating-point type.
    pub fn encode(&self, column_type: &CqlType) -> Result<Bytes, ArithmeticError> {
        Ok(match column_type {
            CqlType::Tinyint => fixed((self.to_i32()? as i8).to_be_bytes()),
            CqlType::Smallint => fixed((self.to_i32()? as i16).to_be_bytes()),
            CqlType::Int => fixed(self.to_i32()?.to_be_bytes()),
            CqlType::Bigint | CqlType::Counter => fixed(self.to_i64()?.to_be_bytes()),
            CqlType::Float | CqlType::Double => {
                self.charge_printing()?;
                match column_type {
                    CqlType::Float => fixed(self.to_f32().to_be_bytes()),
                    _ => fixed(self.to_f64().to_be_bytes()),
                }
            }
            CqlType::Varint => varint::encode(&self.to_varint()?).into(),
            _ => self.to_decimal()?.encode().into(),
        })
    }

    /// Returns Java's `longValue`: integers wrap, floats saturate.
    ///
    /// # Errors
    /// As [`Decimal::low_bits`] for a decimal; no other number has an error.
    pub fn to_i64(&self) -> Result<i64, ArithmeticError> {
        Ok(match self {
            Self::Integer(value) => *value,
            Self::Float(value) => *value as i64,
            Self::Double(value) => *value as i64,
            Self::Varint(value) => low_bits(value),
            Self::Decimal(value) => value.low_bits()?,
        })
    }

    /// Returns Java's `intValue`; shorter integers are its low bits.
    ///
    /// # Errors
    /// As [`Self::to_i64`].
    pub fn to_i32(&self) -> Result<i32, ArithmeticError> {
        Ok(match self {
            Self::Float(value) => *value as i32,
            Self::Double(value) => *value as i32,
            other => other.to_i64()? as i32,
        })
    }

    /// Counts the conversion to a floating-point number, which prints a `varint` or `decimal`.
    fn charge_printing(&self) -> Result<(), ArithmeticError> {
        let (Self::Varint(number) | Self::Decimal(Decimal { unscaled: number, .. })) = self else {
            return Ok(());
        };
        let bytes = number.bits() as usize / 8;
        work::charge_printing(bytes * bytes)
    }

    /// Returns the nearest `f32`.
    pub fn to_f32(&self) -> f32 {
        match self {
            Self::Integer(value) => *value as f32,
            Self::Float(value) => *value,
            Self::Double(value) => *value as f32,
            Self::Varint(value) => value.to_string().parse().unwrap_or(f32::NAN),
            Self::Decimal(value) => value.to_f32(),
        }
    }

    /// Returns the nearest `f64`.
    pub fn to_f64(&self) -> f64 {
        match self {
            Self::Integer(value) => *value as f64,
            Self::Float(value) => f64::from(*value),
            Self::Double(value) => *value,
            Self::Varint(value) => value.to_string().parse().unwrap_or(f64::NAN),
            Self::Decimal(value) => value.to_f64(),
        }
    }

    /// Returns an integer unchanged, and the `longValue` of any other number.
    ///
    /// # Errors
    /// As [`Self::to_i64`].
    pub fn to_varint(&self) -> Result<BigInt, ArithmeticError> {
        match self {
            Self::Varint(value) => Ok(value.clone()),
            other => other.to_i64().map(BigInt::from),
        }
    }

    /// Returns the exact decimal of an integer, and the decimal of the printed digits of a float.
    ///
    /// # Errors
    /// [`ArithmeticError::NotANumber`] or [`ArithmeticError::Infinite`] for a float that is NaN or
    /// infinite.
    pub fn to_decimal(&self) -> Result<Decimal, ArithmeticError> {
        match self {
            Self::Integer(value) => Ok(Decimal { unscaled: (*value).into(), scale: 0 }),
            Self::Float(value) => decimal_of(f64::from(*value), &print_float(*value)),
            Self::Double(value) => decimal_of(*value, &print_double(*value)),
            Self::Varint(value) => Ok(Decimal { unscaled: value.clone(), scale: 0 }),
            Self::Decimal(value) => Ok(value.clone()),
        }
    }

    /// Converts the number to an operand of decimal arithmetic: all types except `varint` and
    /// `decimal` are converted to `double` first.
    ///
    /// # Errors
    /// As [`Self::to_decimal`].
    pub fn to_decimal_operand(&self) -> Result<Decimal, ArithmeticError> {
        match self {
            Self::Varint(_) | Self::Decimal(_) => self.to_decimal(),
            other => Self::Double(other.to_f64()).to_decimal(),
        }
    }
}

fn decimal_of(value: f64, digits: &str) -> Result<Decimal, ArithmeticError> {
    if value.is_nan() {
        return Err(ArithmeticError::NotANumber);
    }
    Decimal::parse(digits).ok_or(ArithmeticError::Infinite)
}

fn array<const N: usize>(column_type: &CqlType, bytes: &[u8]) -> Result<[u8; N], ValueError> {
    bytes.try_into().map_err(|_| ValueError::Length {
        type_name: column_type.cql_name(),
        expected: "the length of its type",
        got: bytes.len(),
    })
}

fn fixed<const N: usize>(bytes: [u8; N]) -> Bytes {
    Bytes::copy_from_slice(&bytes)
}
