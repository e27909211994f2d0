//! Reads values from JSON.

use bytes::Bytes;

use crate::literal::{
    FieldCount, Json, from_text,
    json_refusal::{not_valid, null_inside, wrong_kind, wrong_length},
    parse_json,
    refusal::quoted,
};
use crate::{CqlType, UserType, ValueError, collection};

/// Returns the value of a JSON text, as Cassandra's `fromJson` and `INSERT JSON` read it; `null` is
/// `None`.
///
/// # Errors
///
/// Returns an error if the text is not JSON, if the JSON is not a value of the type, if null is
/// inside a collection, or if its user types have more than 500,000 fields.
pub fn from_json(ty: &CqlType, text: &str) -> Result<Option<Bytes>, ValueError> {
    let json = parse_json(text).map_err(|error| ValueError::Text {
        reason: format!("Could not decode JSON string '{}': {error}", quoted(text)),
        expected: "JSON",
    })?;
    from_json_value(ty, &json, &mut FieldCount::default())
}

/// Returns the value of parsed JSON, or of a part of it; see [`from_json`]. `fields` counts the
/// fields of the whole document.
///
/// Numbers and booleans may also be strings, and a collection, tuple, UDT or vector may be a string
/// that holds its JSON.
///
/// # Errors
///
/// Returns an error if the JSON is not a value of the type, if null is inside a collection, or if
/// the user types of the document have more than 500,000 fields.
pub fn from_json_value(
    ty: &CqlType,
    json: &Json,
    fields: &mut FieldCount,
) -> Result<Option<Bytes>, ValueError> {
    let is_nested = is_nested(ty);
    if let (true, Json::String(text)) = (is_nested, json) {
        let inner = parse_json(text).map_err(|error| ValueError::Text {
            reason: format!("Error decoding JSON string: {error}"),
            expected: "JSON",
        })?;
        // Only one level of quotes is removed: a string in a string is not a collection.
        if matches!(inner, Json::String(_)) {
            return Err(wrong_kind(ty, json));
        }
        return from_json_value(ty, &inner, fields);
    }
    let value = match (ty, json) {
        (_, Json::Null) => return Ok(None),
        (CqlType::Set { element, .. }, Json::Array(items)) => {
            collection::set_of(element, elements(ty, element, items, fields)?)
        }
        (CqlType::List { element, .. }, Json::Array(items)) => {
            collection::list_of(elements(ty, element, items, fields)?)
        }
        (CqlType::Vector { element, dimension }, Json::Array(items)) => {
            vector(ty, element, *dimension, items, fields)?
        }
        (CqlType::Map { key, value, .. }, Json::Object(members)) => {
            map(ty, (key, value), members, fields)?
        }
        (CqlType::Tuple(types), Json::Array(items)) => tuple(ty, types, items, fields)?,
        (CqlType::UserDefined { definition, .. }, Json::Object(members)) => {
            user_type(ty, definition, members, fields)?
        }
        (CqlType::Text | CqlType::Ascii, Json::String(text)) => from_text(ty, text)?,
        (CqlType::Blob, Json::String(text)) if text.starts_with("0x") => {
            from_text(ty, text).map_err(|error| prefixed(text, error))?
        }
        (CqlType::Blob | CqlType::Text | CqlType::Ascii, _) => return Err(wrong_kind(ty, json)),
        (CqlType::Decimal, Json::String(text) | Json::Number(text)) => {
            from_text(ty, text).map_err(|_| not_valid("decimal", json))?
        }
        (CqlType::Varint, Json::String(text) | Json::Number(text)) => {
            from_text(ty, text).map_err(|_| not_valid("varint", json))?
        }
        (CqlType::Int | CqlType::Bigint | CqlType::Counter, Json::Number(text)) => {
            from_text(ty, text).map_err(|_| wrong_kind(ty, json))?
        }
        (CqlType::Boolean, Json::Bool(value)) => Bytes::from(vec![u8::from(*value)]),
        (
            CqlType::Tinyint
            | CqlType::Smallint
            | CqlType::Float
            | CqlType::Double
            | CqlType::Timestamp,
            Json::Number(text),
        ) => from_text(ty, text)?,
        // An empty string is the duration of zero in JSON. Cassandra prints it too, but does not
        // read it back.
        (CqlType::Duration, Json::String(text)) if text.is_empty() => from_text(ty, "0s")?,
        (_, Json::String(text)) if !is_nested => from_text(ty, text)?,
        _ => return Err(wrong_kind(ty, json)),
    };
    Ok(Some(value))
}

/// Adds the start of Cassandra's text to an error of a blob.
fn prefixed(text: &str, error: ValueError) -> ValueError {
    match error {
        ValueError::Text { reason, expected } => ValueError::Text {
            reason: format!("Value '{text}' is not a valid blob representation: {reason}"),
            expected,
        },
        error => error,
    }
}

/// Returns whether the values of the type have parts.
fn is_nested(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Tuple(_)
            | CqlType::UserDefined { .. }
            | CqlType::Vector { .. }
    )
}

fn elements(
    outer: &CqlType,
    ty: &CqlType,
    items: &[Json],
    fields: &mut FieldCount,
) -> Result<Vec<Bytes>, ValueError> {
    items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            from_json_value(ty, item, fields)
                .map_err(|error| part(outer, format!("element {index}"), error))?
                .ok_or_else(|| null_inside(outer))
        })
        .collect()
}

fn vector(
    ty: &CqlType,
    element: &CqlType,
    dimension: usize,
    items: &[Json],
    fields: &mut FieldCount,
) -> Result<Bytes, ValueError> {
    if items.len() != dimension {
        return Err(wrong_length(ty, dimension, items));
    }
    Ok(collection::vector_of(element, elements(ty, element, items, fields)?))
}

fn tuple(
    ty: &CqlType,
    types: &[CqlType],
    items: &[Json],
    fields: &mut FieldCount,
) -> Result<Bytes, ValueError> {
    if items.len() != types.len() {
        return Err(wrong_length(ty, types.len(), items));
    }
    let parts = types.iter().zip(items).enumerate().map(|(index, (field, item))| {
        from_json_value(field, item, fields)
            .map_err(|error| part(ty, format!("field {index}"), error))
    });
    Ok(collection::tuple_of(parts.collect::<Result<Vec<_>, _>>()?))
}

fn map(
    ty: &CqlType,
    (key_type, value_type): (&CqlType, &CqlType),
    members: &[(String, Json)],
    fields: &mut FieldCount,
) -> Result<Bytes, ValueError> {
    let null = || null_inside(ty);
    let mut entries = Vec::with_capacity(members.len());
    for (name, member) in members {
        // JSON keys are strings, whatever the type of the map's keys.
        let key = from_json_value(key_type, &Json::String(name.clone()), fields)
            .map_err(|error| part(ty, format!("key '{name}'"), error))?
            .ok_or_else(null)?;
        let value = from_json_value(value_type, member, fields)
            .map_err(|error| part(ty, format!("value of '{name}'"), error))?
            .ok_or_else(null)?;
        entries.push((key, value));
    }
    Ok(collection::sorted_map_of(key_type, entries))
}

/// Reads a UDT. Names in CQL quotes keep their case, and other names become lower case.
fn user_type(
    ty: &CqlType,
    definition: &UserType,
    members: &[(String, Json)],
    fields: &mut FieldCount,
) -> Result<Bytes, ValueError> {
    fields.add(definition)?;
    let indexes = definition.field_indexes();
    let mut values = vec![None; definition.fields.len()];
    for (name, member) in members {
        let stored = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => quoted.to_owned(),
            None => name.to_lowercase(),
        };
        let index = *indexes.get(&*stored).ok_or_else(|| ValueError::Invalid {
            type_name: ty.cql_name(),
            expected: "the name of a field",
            got: name.clone(),
        })?;
        let (_, field) = &definition.fields[index];
        values[index] = from_json_value(field, member, fields)
            .map_err(|error| part(ty, format!("field '{name}'"), error))?;
    }
    Ok(collection::tuple_of(values))
}

fn part(ty: &CqlType, part: String, error: ValueError) -> ValueError {
    ValueError::InPart { type_name: ty.cql_name(), part, source: Box::new(error) }
}
