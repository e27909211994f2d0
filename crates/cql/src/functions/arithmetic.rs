//! The operators `+ - * / %` and negation.
//!
//! The result of two numbers is as wide as the wider operand, and floating-point if one operand is:
//! `int + bigint` is a `bigint`, `int + float` a `float`, `bigint + float` a `double`, `varint +
//! double` a `decimal`. Integers of up to 64 bits wrap. `+` concatenates strings. Durations move
//! dates and timestamps (see `temporal`). A null operand yields null, as does an empty one if its
//! type has no empty value. A division of whole numbers or decimals by zero is the error 0x1400, as
//! in Cassandra.

use std::sync::LazyLock;

use bytes::Bytes;
use espalier_types::CqlType;

use super::{
    ResolvedFunction,
    choose::Signature,
    decimal::ArithmeticError,
    number::{NUMERIC, Number, is_numeric},
    temporal, work,
};
use crate::{Error, Result, grammar::ast::ArithmeticOperator};

/// Returns the operand types and result types of all overloads of an operator.
pub fn signatures(operator: ArithmeticOperator) -> &'static [Signature] {
    use ArithmeticOperator as O;
    static ADD: LazyLock<Vec<Signature>> = LazyLock::new(|| signatures_of(O::Add));
    static SUBTRACT: LazyLock<Vec<Signature>> = LazyLock::new(|| signatures_of(O::Subtract));
    static OTHER: LazyLock<Vec<Signature>> = LazyLock::new(|| signatures_of(O::Multiply));
    match operator {
        O::Add => &ADD,
        O::Subtract => &SUBTRACT,
        O::Multiply | O::Divide | O::Modulo => &OTHER,
    }
}

fn signatures_of(operator: ArithmeticOperator) -> Vec<Signature> {
    let pairs = operand_types(operator).into_iter();
    pairs
        .map(|(left, right)| {
            let result = result_type(&left, &right);
            (vec![left, right], result)
        })
        .collect()
}

/// Returns every pair of operand types of an operator.
fn operand_types(operator: ArithmeticOperator) -> Vec<(CqlType, CqlType)> {
    use CqlType as T;
    let mut pairs: Vec<(T, T)> = NUMERIC
        .iter()
        .flat_map(|left| NUMERIC.iter().map(move |right| (left.clone(), right.clone())))
        .collect();
    if matches!(operator, ArithmeticOperator::Add | ArithmeticOperator::Subtract) {
        pairs.push((T::Timestamp, T::Duration));
        pairs.push((T::Date, T::Duration));
    }
    if operator == ArithmeticOperator::Add {
        for left in [T::Text, T::Ascii] {
            pairs.extend([T::Text, T::Ascii].map(|right| (left.clone(), right)));
        }
    }
    pairs
}

/// Returns the type of the result. The operands must be a pair of [`operand_types`].
fn result_type(left: &CqlType, right: &CqlType) -> CqlType {
    use CqlType as T;
    match (left, right) {
        (_, T::Duration) => return left.clone(),
        (T::Ascii, T::Ascii) => return T::Ascii,
        (T::Text | T::Ascii, _) => return T::Text,
        _ => {}
    }
    let floating = |column_type: &T| matches!(column_type, T::Float | T::Double | T::Decimal);
    let width = width(left).max(width(right));
    match (floating(left) || floating(right), width) {
        (true, ..=4) => T::Float,
        (true, 5..=8) => T::Double,
        (true, _) => T::Decimal,
        (false, ..=1) => T::Tinyint,
        (false, 2) => T::Smallint,
        (false, 3..=4) => T::Int,
        (false, 5..=8) => T::Bigint,
        (false, _) => T::Varint,
    }
}

fn width(column_type: &CqlType) -> u32 {
    match column_type {
        CqlType::Tinyint => 1,
        CqlType::Smallint => 2,
        CqlType::Int | CqlType::Float => 4,
        CqlType::Bigint | CqlType::Counter | CqlType::Double => 8,
        _ => u32::MAX,
    }
}

/// Returns the operator as a function of two operands of these types.
pub fn operation(operator: ArithmeticOperator, left: CqlType, right: CqlType) -> ResolvedFunction {
    let result = result_type(&left, &right);
    let types = vec![left.clone(), right.clone()];
    let name = function_name(operator);
    let failure = {
        let (left, right) = (left.clone(), right.clone());
        move |reason: String| {
            let (left, right) = (left.cql_name(), right.cql_name());
            let message =
                format!("the operation '{left} {} {right}' failed: {reason}", operator.symbol());
            Error::function_failure(&operator.symbol().to_string(), vec![left, right], message)
        }
    };
    if is_numeric(&left) && is_numeric(&right) {
        let result_type = result.clone();
        return ResolvedFunction::of_values(name, types, result, move |operands, _| {
            let (Some(a), Some(b)) = (operands.first(), operands.get(1)) else { return Ok(None) };
            let a = Number::decode(&left, a).map_err(|error| failure(error.to_string()))?;
            let b = Number::decode(&right, b).map_err(|error| failure(error.to_string()))?;
            let value = compute(operator, &result_type, &a, &b)
                .and_then(|value| value.encode(&result_type))
                .map_err(|error| failure(error.to_string()))?;
            Ok(Some(value))
        });
    }
    let joins = matches!(left, CqlType::Text | CqlType::Ascii);
    ResolvedFunction::of_values(name, types, result, move |operands, _| {
        let (Some(a), Some(b)) = (operands.first(), operands.get(1)) else { return Ok(None) };
        if joins {
            return Ok(Some(Bytes::from([a.as_ref(), b.as_ref()].concat())));
        }
        temporal::move_by(&left, a, b, operator == ArithmeticOperator::Subtract)
            .map(Some)
            .map_err(&failure)
    })
}

/// Returns the name of the operator's function in Cassandra.
pub fn function_name(operator: ArithmeticOperator) -> &'static str {
    match operator {
        ArithmeticOperator::Add => "_add",
        ArithmeticOperator::Subtract => "_substract",
        ArithmeticOperator::Multiply => "_multiply",
        ArithmeticOperator::Divide => "_divide",
        ArithmeticOperator::Modulo => "_modulo",
    }
}

/// Returns the operand type and result type of `-x` for each numeric type.
pub fn negation_signatures() -> &'static [Signature] {
    static SIGNATURES: LazyLock<Vec<Signature>> = LazyLock::new(|| {
        NUMERIC.iter().map(|operand| (vec![operand.clone()], operand.clone())).collect()
    });
    &SIGNATURES
}

/// Returns `-x` for a numeric type.
pub fn negation(operand: CqlType) -> ResolvedFunction {
    let types = vec![operand.clone()];
    ResolvedFunction::of_values("_negate", types, operand.clone(), move |operands, _| {
        let Some(value) = operands.first() else { return Ok(None) };
        let negated = match Number::decode(&operand, value).map_err(Error::invalid_from)? {
            Number::Integer(value) => Number::Integer(value.wrapping_neg()),
            Number::Float(value) => Number::Float(-value),
            Number::Double(value) => Number::Double(-value),
            Number::Varint(value) => Number::Varint(-value),
            Number::Decimal(value) => Number::Decimal(value.negated()),
        };
        negated.encode(&operand).map(Some).map_err(Error::invalid_from)
    })
}

fn compute(
    operator: ArithmeticOperator,
    result: &CqlType,
    left: &Number,
    right: &Number,
) -> Result<Number, ArithmeticError> {
    use ArithmeticOperator as O;
    Ok(match result {
        CqlType::Float => {
            let (a, b) = (left.to_f32(), right.to_f32());
            Number::Float(match operator {
                O::Add => a + b,
                O::Subtract => a - b,
                O::Multiply => a * b,
                O::Divide => a / b,
                O::Modulo => a % b,
            })
        }
        CqlType::Double => {
            let (a, b) = (left.to_f64(), right.to_f64());
            Number::Double(match operator {
                O::Add => a + b,
                O::Subtract => a - b,
                O::Multiply => a * b,
                O::Divide => a / b,
                O::Modulo => a % b,
            })
        }
        CqlType::Varint => {
            let (a, b) = (left.to_varint()?, right.to_varint()?);
            if matches!(operator, O::Divide | O::Modulo) && b.sign() == num_bigint::Sign::NoSign {
                return Err(ArithmeticError::BigDivisionByZero);
            }
            work::charge_product(&a, &b)?;
            Number::Varint(match operator {
                O::Add => a + b,
                O::Subtract => a - b,
                O::Multiply => a * b,
                O::Divide => a / b,
                O::Modulo => a % b,
            })
        }
        CqlType::Decimal => {
            let (a, b) = (left.to_decimal_operand()?, right.to_decimal_operand()?);
            Number::Decimal(match operator {
                O::Add => a.add(&b)?,
                O::Subtract => a.add(&b.negated())?,
                O::Multiply => a.multiply(&b)?,
                O::Divide => a.divide(&b)?,
                O::Modulo => a.remainder(&b)?,
            })
        }
        // Serialisation truncates narrower integers to their width.
        _ => {
            let (a, b) = (left.to_i64()?, right.to_i64()?);
            if matches!(operator, O::Divide | O::Modulo) && b == 0 {
                return Err(ArithmeticError::DivisionByZero);
            }
            Number::Integer(match operator {
                O::Add => a.wrapping_add(b),
                O::Subtract => a.wrapping_sub(b),
                O::Multiply => a.wrapping_mul(b),
                O::Divide => a.wrapping_div(b),
                O::Modulo => a.wrapping_rem(b),
            })
        }
    })
}
