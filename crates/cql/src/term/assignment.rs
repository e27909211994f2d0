//! The rules of assignment: which values can be stored in a column of which type.

use espalier_types::CqlType;

use crate::grammar::ast::{Expression, ExpressionKind, Literal};

/// The degree to which a value fits a type. An exact fit decides between overloaded functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignable {
    /// The value cannot have the type.
    No,
    /// The value can be converted to the type or parsed as one.
    Weakly,
    /// The value has the type.
    Exactly,
}

/// Returns how well values of type `from` fit `to` without conversion. They fit if the types are
/// equal except for frozenness, or if the bytes have the same meaning in `to`. A blob accepts the
/// result of any function. The rules are those of Cassandra 5.0.
pub fn is_assignable(from: &CqlType, to: &CqlType) -> Assignable {
    use CqlType as T;
    if from.freeze() == to.freeze() {
        return Assignable::Exactly;
    }
    match (from, to) {
        (T::Ascii, T::Text)
        | (T::Timeuuid, T::Uuid)
        | (T::Bigint, T::Timestamp | T::Time)
        | (T::Timestamp, T::Bigint)
        | (T::Int, T::Date)
        | (T::Int | T::Bigint | T::Timestamp, T::Varint)
        | (T::Counter, T::Bigint)
        | (_, T::Blob) => Assignable::Weakly,
        _ => Assignable::No,
    }
}

/// Returns how well a literal, as written, fits type `to`.
pub fn literal_fits(literal: &Literal<'_>, to: &CqlType) -> Assignable {
    use CqlType as T;
    if let T::Custom(_) = to {
        return match literal {
            Literal::Blob(_) | Literal::String(_) => Assignable::Weakly,
            _ => Assignable::No,
        };
    }
    if let T::Tuple(_) = to {
        // A tuple can be written as the text of its fields, or by its bytes.
        return Assignable::Weakly;
    }
    let (fits, exact) = match literal {
        Literal::String(_) => {
            (matches!(to, T::Ascii | T::Text | T::Inet | T::Timestamp | T::Date | T::Time), T::Text)
        }
        Literal::Integer(_) => (
            matches!(
                to,
                T::Bigint
                    | T::Counter
                    | T::Date
                    | T::Decimal
                    | T::Double
                    | T::Duration
                    | T::Float
                    | T::Int
                    | T::Smallint
                    | T::Time
                    | T::Timestamp
                    | T::Tinyint
                    | T::Varint
            ),
            T::Int,
        ),
        Literal::Float(_) => (matches!(to, T::Decimal | T::Double | T::Float), T::Double),
        Literal::Uuid(_) => (matches!(to, T::Uuid | T::Timeuuid), T::Uuid),
        Literal::Boolean(_) => (matches!(to, T::Boolean), T::Boolean),
        // Cassandra accepts a hexadecimal constant for a tinyint, too.
        Literal::Blob(_) => (matches!(to, T::Blob | T::Tinyint), T::Blob),
        Literal::Duration(_) => (matches!(to, T::Duration), T::Duration),
    };
    match (fits, *to == exact) {
        (true, true) => Assignable::Exactly,
        (true, false) => Assignable::Weakly,
        (false, _) => Assignable::No,
    }
}

/// Returns the type that a literal has without a receiver; `None` for other expressions.
pub fn natural_type(expression: &Expression<'_>) -> Option<CqlType> {
    match &expression.kind {
        ExpressionKind::Literal(literal) => Some(match literal {
            Literal::Integer(digits) => match digits.parse::<i128>() {
                Ok(value) if i32::try_from(value).is_ok() => CqlType::Int,
                Ok(value) if i64::try_from(value).is_ok() => CqlType::Bigint,
                _ => CqlType::Varint,
            },
            Literal::Float(text) if text.parse::<f64>().is_ok_and(f64::is_finite) => {
                CqlType::Double
            }
            Literal::Float(text) if text.starts_with(['N', 'I', 'n', 'i']) => CqlType::Double,
            Literal::Float(_) => CqlType::Decimal,
            Literal::String(_) => CqlType::Text,
            Literal::Boolean(_) => CqlType::Boolean,
            Literal::Uuid(_) => CqlType::Uuid,
            Literal::Blob(_) => CqlType::Blob,
            Literal::Duration(_) => CqlType::Duration,
        }),
        _ => None,
    }
}
