//! Prints values as JSON.

use std::fmt::Write;

use crate::duration::Duration;
use crate::literal::duration::print_json_duration;
use crate::literal::text::{push_hex, scalar_text};
use crate::literal::timestamp::print_json_timestamp;
use crate::{CqlType, UserType, ValueError, collection};

/// Prints the value as Cassandra's `toJson` and `SELECT JSON` do.
///
/// Numbers and booleans print as such, NaN and infinities as `null`, blobs as `"0x..."`, lists,
/// sets, tuples and vectors as arrays, maps and UDTs as objects, and all others as strings. A
/// zero-length number, UUID or date is `""`. Bytes that are not a value of the type print as a
/// blob.
pub fn to_json(ty: &CqlType, value: &[u8]) -> String {
    let mut out = String::new();
    push_json(ty, value, &mut out);
    out
}

/// Appends the text that [`to_json`] returns.
pub fn push_json(ty: &CqlType, value: &[u8], out: &mut String) {
    print(ty, value, out);
}

/// Makes a JSON string with its quotes. It escapes only characters that JSON requires to be
/// escaped.
pub fn quote_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(text, &mut out);
    out
}

fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    push_escaped(text, out);
    out.push('"');
}

fn push_escaped(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
    }
}

fn print(ty: &CqlType, value: &[u8], out: &mut String) {
    let start = out.len();
    if print_known(ty, value, out).is_err() {
        out.truncate(start);
        push_blob(value, out);
    }
}

fn push_blob(value: &[u8], out: &mut String) {
    out.push_str("\"0x");
    push_hex(value, out);
    out.push('"');
}

fn print_known(ty: &CqlType, value: &[u8], out: &mut String) -> Result<(), ValueError> {
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let items = collection::elements(value)?;
            list(['[', ']'], items, |item, out| nullable(element, item, out), out)
        }
        CqlType::Map { key, value: ty, .. } => {
            let entries = collection::entries(value)?;
            let print_entry = |(k, v): (&[u8], &[u8]), out: &mut String| {
                push_key(key, k, out);
                print(ty, v, out);
            };
            list(['{', '}'], entries, print_entry, out)
        }
        CqlType::Tuple(types) => {
            let mut fields = collection::fields(value);
            let padded = types.iter().map(|ty| match fields.next() {
                Some(field) => field.map(|field| (ty, field)),
                None => Ok((ty, None)),
            });
            list(['[', ']'], padded, |(ty, field), out| nullable(ty, field, out), out)
        }
        CqlType::UserDefined { definition, .. } => user_type(definition, value, out),
        CqlType::Vector { element, dimension } => {
            let items = collection::vector_elements(element, *dimension, value);
            list(['[', ']'], items, |item, out| print(element, item, out), out)
        }
        _ => {
            scalar(ty, value, out);
            Ok(())
        }
    }
}

fn scalar(ty: &CqlType, value: &[u8], out: &mut String) {
    if value.is_empty() && !matches!(ty, CqlType::Blob) {
        out.push_str("\"\"");
        return;
    }
    match (ty, scalar_text(ty, value)) {
        (CqlType::Float | CqlType::Double, Some(text)) => {
            // JSON has no NaN and no infinity.
            let finite = text.ends_with(|c: char| c.is_ascii_digit());
            out.push_str(if finite { &text } else { "null" });
        }
        (
            CqlType::Boolean
            | CqlType::Tinyint
            | CqlType::Smallint
            | CqlType::Int
            | CqlType::Bigint
            | CqlType::Counter
            | CqlType::Varint
            | CqlType::Decimal,
            Some(text),
        ) => out.push_str(&text),
        (CqlType::Timestamp | CqlType::Custom(_), Some(text)) => match value.try_into() {
            Ok(bytes) => push_quoted(&print_json_timestamp(i64::from_be_bytes(bytes)), out),
            Err(_) => push_quoted(&text, out),
        },
        (CqlType::Duration, Some(_)) => match Duration::decode(value) {
            Ok(duration) => push_quoted(&print_json_duration(&duration), out),
            Err(_) => push_blob(value, out),
        },
        (_, Some(text)) => push_quoted(&text, out),
        (_, None) => push_blob(value, out),
    }
}

/// Appends the key of an object. A key must be a string, so JSON of another kind becomes the text
/// of a string.
fn push_key(ty: &CqlType, key: &[u8], out: &mut String) {
    let start = out.len();
    print(ty, key, out);
    if !out[start..].starts_with('"') {
        let key = out.split_off(start);
        push_quoted(&key, out);
    }
    out.push_str(": ");
}

fn user_type(definition: &UserType, value: &[u8], out: &mut String) -> Result<(), ValueError> {
    let mut values = collection::fields(value);
    let fields = definition.fields.iter().map(|(name, ty)| match values.next() {
        Some(field) => field.map(|field| (name, ty, field)),
        None => Ok((name, ty, None)),
    });
    let print_field = |(name, ty, field): (&String, &CqlType, Option<&[u8]>), out: &mut String| {
        // A name that is not in lower case keeps its CQL quotes inside the JSON string.
        if name.to_lowercase() != *name {
            push_quoted(&format!("\"{name}\""), out);
        } else {
            push_quoted(name, out);
        }
        out.push_str(": ");
        nullable(ty, field, out);
    };
    list(['{', '}'], fields, print_field, out)
}

fn nullable(ty: &CqlType, value: Option<&[u8]>, out: &mut String) {
    match value {
        Some(value) => print(ty, value, out),
        None => out.push_str("null"),
    }
}

fn list<T>(
    [open, close]: [char; 2],
    items: impl Iterator<Item = Result<T, ValueError>>,
    mut print_item: impl FnMut(T, &mut String),
    out: &mut String,
) -> Result<(), ValueError> {
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        print_item(item?, out);
    }
    out.push(close);
    Ok(())
}
