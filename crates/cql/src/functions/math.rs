//! `abs`, `exp`, `log`, `log10`, `round` of any number; the result has the argument's type.
//!
//! `exp`, `log` and `log10` of integers of up to 64 bits are computed in `double`, and truncated to
//! a whole number as Java casts it. `round` rounds to the nearest whole number, a half up
//! (decimals: away from zero). For floats it converts to `int` or `bigint` in between, as Java's
//! `Math.round`.

use espalier_types::CqlType;

use super::{
    ResolvedFunction,
    decimal::{ArithmeticError, Decimal, Rounding},
    number::{NUMERIC, Number},
    transcendental,
};
use crate::Error;

/// Returns all functions of that name.
pub fn overloads(name: &str) -> Vec<ResolvedFunction> {
    let compute = match name {
        "abs" => absolute,
        "exp" => exponential,
        "log" => natural_logarithm,
        "log10" => decimal_logarithm,
        "round" => rounded,
        _ => return Vec::new(),
    };
    NUMERIC.iter().map(|number| of_number(name, number, compute)).collect()
}

fn of_number(
    name: &str,
    number: &CqlType,
    compute: fn(Number) -> Result<Number, ArithmeticError>,
) -> ResolvedFunction {
    let column_type = number.clone();
    let called = name.to_string();
    ResolvedFunction::of_values(name, vec![number.clone()], number.clone(), move |values, _| {
        let Some(value) = values.first() else { return Ok(None) };
        let number = Number::decode(&column_type, value).map_err(Error::invalid_from)?;
        compute(number).and_then(|result| result.encode(&column_type)).map(Some).map_err(|error| {
            Error::function_failure(&called, vec![column_type.cql_name()], error.to_string())
        })
    })
}

fn absolute(number: Number) -> Result<Number, ArithmeticError> {
    Ok(match number {
        Number::Integer(value) => Number::Integer(value.wrapping_abs()),
        Number::Float(value) => Number::Float(value.abs()),
        Number::Double(value) => Number::Double(value.abs()),
        Number::Varint(value) => Number::Varint(value.magnitude().clone().into()),
        Number::Decimal(value) => Number::Decimal(value.absolute()),
    })
}

fn exponential(number: Number) -> Result<Number, ArithmeticError> {
    real(number, f64::exp, transcendental::exponential)
}

fn natural_logarithm(number: Number) -> Result<Number, ArithmeticError> {
    real(number, f64::ln, transcendental::natural_logarithm)
}

fn decimal_logarithm(number: Number) -> Result<Number, ArithmeticError> {
    real(number, f64::log10, transcendental::decimal_logarithm)
}

/// Computes a `varint` or `decimal` in decimal arithmetic, and any other number in `double`.
fn real(
    number: Number,
    of_double: fn(f64) -> f64,
    of_decimal: fn(&Decimal) -> Result<Decimal, ArithmeticError>,
) -> Result<Number, ArithmeticError> {
    Ok(match number {
        Number::Varint(value) => {
            let result = of_decimal(&Decimal { unscaled: value, scale: 0 })?;
            Number::Varint(result.truncated()?)
        }
        Number::Decimal(value) => Number::Decimal(of_decimal(&value)?),
        other => Number::Double(of_double(other.to_f64())),
    })
}

fn rounded(number: Number) -> Result<Number, ArithmeticError> {
    Ok(match number {
        Number::Float(value) => Number::Float(half_up(f64::from(value)) as i32 as f32),
        Number::Double(value) => Number::Double(half_up(value) as i64 as f64),
        Number::Decimal(value) => {
            let unscaled = value.to_integer(Rounding::HalfUp)?;
            Number::Decimal(Decimal { unscaled, scale: 0 })
        }
        whole => whole,
    })
}

fn half_up(value: f64) -> f64 {
    let below = value.floor();
    if value - below >= 0.5 { below + 1.0 } else { below }
}
