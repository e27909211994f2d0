//! `CAST(x AS t)`: conversions between numbers, between points in time, and to text.
//!
//! Numbers are converted as Java does it (see `number`). As in Cassandra, a `float`, `double` or
//! `decimal` is converted to `varint` by way of `bigint`.

use bytes::Bytes;
use espalier_types::{CqlType, literal};

use super::{
    ResolvedFunction,
    number::{Number, is_numeric},
    temporal, work,
};
use crate::Error;

/// Returns the name of the function that casts to a type.
pub fn function_name(target: &CqlType) -> String {
    format!("cast_as_{}", target.cql_name())
}

/// Returns the types that can be cast to `target`, except `target` itself.
pub fn sources(target: &CqlType) -> Vec<CqlType> {
    use CqlType as T;
    let mut sources = match target {
        T::Ascii | T::Text => {
            vec![
                T::Boolean,
                T::Date,
                T::Inet,
                T::Time,
                T::Timestamp,
                T::Timeuuid,
                T::Uuid,
                T::Ascii,
            ]
        }
        T::Date => vec![T::Timestamp, T::Timeuuid],
        T::Timestamp => vec![T::Date, T::Timeuuid],
        _ => Vec::new(),
    };
    if matches!(target, T::Ascii | T::Text) || is_numeric(target) && *target != T::Counter {
        sources.extend(super::number::NUMERIC);
    }
    sources.retain(|source| source != target);
    sources
}

/// Returns the function that casts `source` to `target`. `source` is one of [`sources`], or
/// `target` itself.
pub fn function(source: CqlType, target: &CqlType) -> ResolvedFunction {
    let name = function_name(target);
    let types = vec![source.clone()];
    let to = target.clone();
    if source == to {
        return ResolvedFunction::nullable(&name, types, target.clone(), |values, _| {
            Ok(values.first().cloned().flatten())
        });
    }
    ResolvedFunction::of_values(&name, types, target.clone(), move |values, _| {
        let Some(value) = values.first() else { return Ok(None) };
        if is_numeric(&source) && is_numeric(&to) {
            let number = Number::decode(&source, value).map_err(Error::invalid_from)?;
            return number.encode(&to).map(Some).map_err(Error::invalid_from);
        }
        if matches!(to, CqlType::Ascii | CqlType::Text) {
            // A counter prints as its number.
            let printed = if source == CqlType::Counter { &CqlType::Bigint } else { &source };
            let squares = literal::check_printable(printed, value).map_err(Error::invalid_from)?;
            work::charge_printing(squares).map_err(Error::invalid_from)?;
            return Ok(Some(Bytes::from(literal::to_text(printed, value))));
        }
        match temporal::to_millis(&source, value) {
            Some(millis) => Ok(Some(temporal::from_millis(&to, millis))),
            None => Err(Error::invalid(format!("malformed value of type {}", source.cql_name()))),
        }
    })
}
