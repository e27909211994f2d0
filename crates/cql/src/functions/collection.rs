//! `map_keys`, `map_values`, and `collection_count/min/max/sum/avg` over the elements of one value.
//!
//! Minimum, maximum, sum and average are the aggregates of `aggregate`, applied to elements instead
//! of rows.

use std::sync::Arc;

use bytes::Bytes;
use espalier_types::{CqlType, collection};

use super::{ResolvedFunction, aggregate::AggregateFunction, generic::GenericCall, number};
use crate::{Error, Result};

/// Returns the function of that name, made for the types of the arguments.
///
/// # Errors
/// The call does not have exactly one argument, or the argument's type is unknown or wrong for the
/// function.
pub fn overload(call: &GenericCall<'_, '_>) -> Result<Option<ResolvedFunction>> {
    match call.name {
        "map_keys" | "map_values" => map_part(call).map(Some),
        "collection_count" => count(call).map(Some),
        "collection_min" | "collection_max" | "collection_sum" | "collection_avg" => {
            aggregate(call).map(Some)
        }
        _ => Ok(None),
    }
}

fn map_part(call: &GenericCall<'_, '_>) -> Result<ResolvedFunction> {
    call.expect_arguments(1..=1, "map")?;
    let map = call.type_of(0, "map")?;
    let CqlType::Map { key, value, .. } = &map else {
        return Err(call.wrong_argument(0, "a map argument", &map));
    };
    let keys = call.name == "map_keys";
    let result = if keys {
        CqlType::Set { element: key.clone(), frozen: true }
    } else {
        CqlType::List { element: value.clone(), frozen: true }
    };
    Ok(ResolvedFunction::of_values(call.name, vec![map.clone()], result, move |values, _| {
        let Some(map) = values.first() else { return Ok(None) };
        let mut parts = collection::Builder::default();
        for entry in collection::entries(map).map_err(Error::invalid_from)? {
            let (key, value) = entry.map_err(Error::invalid_from)?;
            parts.push(Some(if keys { key } else { value }));
        }
        Ok(Some(parts.finish()))
    }))
}

fn count(call: &GenericCall<'_, '_>) -> Result<ResolvedFunction> {
    call.expect_arguments(1..=1, "collection")?;
    let argument = call.type_of(0, "collection")?;
    if !argument.is_collection() {
        return Err(call.wrong_argument(0, "a collection argument", &argument));
    }
    let count =
        ResolvedFunction::of_values(call.name, vec![argument], CqlType::Int, |values, _| {
            // Lists, sets and maps all begin with the number of their elements or entries.
            let count = values.first().and_then(|value| value.get(..4));
            Ok(count.map(Bytes::copy_from_slice))
        });
    Ok(count.in_constant_time())
}

fn aggregate(call: &GenericCall<'_, '_>) -> Result<ResolvedFunction> {
    const USAGE: &str = "numeric_set_or_list";
    call.expect_arguments(1..=1, USAGE)?;
    let argument = call.type_of(0, USAGE)?;
    let element: Option<Arc<CqlType>> = match &argument {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => Some(element.clone()),
        _ => None,
    };
    let kind = call.name.trim_start_matches("collection_");
    let adds_up = matches!(kind, "sum" | "avg");
    let required = if adds_up { "a numeric set/list argument" } else { "a set or list argument" };
    let element = element
        .filter(|element| !adds_up || number::is_numeric(element))
        .ok_or_else(|| call.wrong_argument(0, required, &argument))?;
    let function = AggregateFunction::resolve(kind, &element)
        .ok_or_else(|| call.wrong_argument(0, required, &argument))?;
    let result = function.return_type();
    Ok(ResolvedFunction::of_values(call.name, vec![argument], result, move |values, _| {
        let Some(value) = values.first() else { return Ok(None) };
        let mut state = function.start();
        for element in collection::elements(value).map_err(Error::invalid_from)? {
            function.add(&mut state, element.map_err(Error::invalid_from)?)?;
        }
        function.finish(state)
    }))
}
