//! The error texts for JSON that is no value of the type. They are those of Cassandra. The texts
//! for JSON of a wrong kind name the Java class of the JSON value.

use super::Json;
use crate::{CqlType, ValueError};

/// Returns the error for JSON of a wrong kind.
pub(super) fn wrong_kind(ty: &CqlType, json: &Json) -> ValueError {
    let (expected, hint) = match ty {
        CqlType::Int => ("an int value", "a whole number of 32 bits"),
        CqlType::Bigint | CqlType::Counter => ("a bigint value", "a whole number of 64 bits"),
        CqlType::Smallint => ("a short value", "a whole number of 16 bits"),
        CqlType::Tinyint => ("a byte value", "a whole number of 8 bits"),
        CqlType::Float => ("a float value", "a number"),
        CqlType::Double => ("a double value", "a number"),
        CqlType::Boolean => ("a boolean value", "true or false"),
        CqlType::Text => ("a UTF-8 string", "a string"),
        CqlType::Ascii => ("an ascii string", "a string"),
        CqlType::Inet => ("a string representation of an inet value", "a string"),
        CqlType::Uuid => ("a string representation of a uuid", "a string"),
        CqlType::Timeuuid => ("a string representation of a timeuuid", "a string"),
        CqlType::Timestamp => (
            "a long or a datestring representation of a timestamp value",
            "milliseconds or a string",
        ),
        CqlType::Date => ("a string representation of a date value", "a string"),
        CqlType::Time => ("a string representation of a time value", "a string"),
        CqlType::Duration => ("a string representation of a duration", "a string"),
        CqlType::Set { .. } => ("a list (representing a set)", "an array"),
        CqlType::Map { .. } | CqlType::UserDefined { .. } => ("a map", "an object"),
        CqlType::Tuple(_) => ("a list representation of a tuple", "an array"),
        CqlType::List { .. } | CqlType::Vector { .. } => ("a list", "an array"),
        CqlType::Decimal => return not_valid("decimal", json),
        CqlType::Varint => return not_valid("varint", json),
        CqlType::Blob => {
            let text = java_text(json);
            return text_error(
                format!(
                    "Value '{text}' is not a valid blob representation: String representation of blob is missing 0x prefix: {text}"
                ),
                "a string that begins with 0x",
            );
        }
        _ => ("a value of the type", "a string"),
    };
    let reason =
        format!("Expected {expected}, but got a {}: {}", java_class(json), java_text(json));
    text_error(reason, hint)
}

/// Returns the error for JSON that is no decimal or varint.
pub(super) fn not_valid(kind: &str, json: &Json) -> ValueError {
    let text = java_text(json);
    text_error(
        format!("Value '{text}' is not a valid representation of a {kind} value"),
        "a number",
    )
}

/// Returns the error for null inside a collection.
pub(super) fn null_inside(ty: &CqlType) -> ValueError {
    let reason = match ty {
        CqlType::Set { .. } => "Invalid null element in set",
        CqlType::Map { .. } => "Invalid null value in map",
        _ => "Invalid null element in list",
    };
    text_error(reason.to_owned(), "a value")
}

/// Returns the error for a tuple or vector of a wrong length.
pub(super) fn wrong_length(ty: &CqlType, expected: usize, items: &[Json]) -> ValueError {
    let text = java_list(items);
    let reason = match ty {
        CqlType::Tuple(_) if items.len() > expected => {
            format!("Tuple contains extra items (expected {expected}): {text}")
        }
        CqlType::Tuple(_) => format!("Tuple is missing items (expected {expected}): {text}"),
        _ => {
            let given = items.len();
            format!("List had incorrect size: expected {expected} but given {given}; {text}")
        }
    };
    text_error(reason, "as many elements as the type has")
}

fn text_error(reason: String, expected: &'static str) -> ValueError {
    ValueError::Text { reason, expected }
}

/// Returns the name of the class by which Cassandra's parser represents a value.
fn java_class(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "Boolean",
        Json::Number(text) if text.contains(['.', 'e', 'E']) => "Double",
        Json::Number(text) if text.parse::<i32>().is_ok() => "Integer",
        Json::Number(text) if text.parse::<i64>().is_ok() => "Long",
        Json::Number(_) => "BigInteger",
        Json::String(_) => "String",
        Json::Array(_) => "ArrayList",
        Json::Object(_) => "LinkedHashMap",
    }
}

/// Maximum length of a value in an error, in bytes; a longer one is cut.
const MAX_SHOWN: usize = 200;

/// Returns a value as Java prints it, cut to [`MAX_SHOWN`] bytes.
fn java_text(json: &Json) -> String {
    let mut text = String::new();
    print(json, &mut text);
    let mut length = text.len().min(MAX_SHOWN);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    if length < text.len() {
        text.truncate(length);
        text.push_str("...");
    }
    text
}

fn java_list(items: &[Json]) -> String {
    java_text(&Json::Array(items.to_vec()))
}

/// Prints a value; leaves out inner values once the text is longer than an error shows.
fn print(json: &Json, text: &mut String) {
    if text.len() > MAX_SHOWN {
        return;
    }
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Json::Number(number) => text.push_str(number),
        Json::String(value) => text.push_str(value),
        Json::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                print(item, text);
            }
            text.push(']');
        }
        Json::Object(members) => {
            text.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                text.push_str(name);
                text.push('=');
                print(member, text);
            }
            text.push('}');
        }
    }
}
