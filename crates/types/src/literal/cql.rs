//! Prints values as CQL literals.

use crate::literal::text::{hex, scalar_text};
use crate::type_name::quote_if_needed;
use crate::{CqlType, UserType, ValueError, collection};

/// Prints the value as a CQL literal: `'it''s'`, `12`, `0xcafe`, `[1, 2]`, `{'a': 1}`, `(1, null)`,
/// `{field: 1}`.
///
/// A zero-length value prints as `null`, except for texts, blobs, tuples, UDTs and most classes
/// without a CQL name. Bytes that are not a value of the type print as a blob.
pub fn to_cql_literal(ty: &CqlType, value: &[u8]) -> String {
    let mut out = String::new();
    print(ty, value, &mut out);
    out
}

/// Makes a CQL string literal: in single quotes, which are doubled inside.
pub fn quote_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn print(ty: &CqlType, value: &[u8], out: &mut String) {
    let start = out.len();
    if print_known(ty, value, out).is_err() {
        out.truncate(start);
        out.push_str("0x");
        out.push_str(&hex(value));
    }
}

fn print_known(ty: &CqlType, value: &[u8], out: &mut String) -> Result<(), ValueError> {
    let has_literal = !ty.empty_is_special()
        && !matches!(ty, CqlType::Inet | CqlType::Duration | CqlType::Counter);
    let is_fields = matches!(ty, CqlType::Tuple(_) | CqlType::UserDefined { .. });
    let is_blob = matches!(ty, CqlType::Custom(_)) && !ty.is_legacy_timestamp();
    if value.is_empty() && !has_literal && !is_fields && !is_blob {
        out.push_str("null");
        return Ok(());
    }
    match ty {
        CqlType::List { element, .. } => {
            let items = collection::elements(value)?;
            return list(['[', ']'], items, |item, out| nullable(element, item, out), out);
        }
        CqlType::Set { element, .. } => {
            let items = collection::elements(value)?;
            return list(['{', '}'], items, |item, out| nullable(element, item, out), out);
        }
        CqlType::Map { key, value: ty, .. } => {
            let entries = collection::entries(value)?;
            let print_entry = |(k, v): (&[u8], &[u8]), out: &mut String| {
                print(key, k, out);
                out.push_str(": ");
                print(ty, v, out);
            };
            return list(['{', '}'], entries, print_entry, out);
        }
        CqlType::Tuple(types) => {
            let mut types = types.iter();
            let print_field = |field: Option<&[u8]>, out: &mut String| {
                if let Some(ty) = types.next() {
                    nullable(ty, field, out);
                }
            };
            return list(['(', ')'], collection::fields(value), print_field, out);
        }
        CqlType::UserDefined { definition, .. } => return user_type(definition, value, out),
        CqlType::Vector { element, dimension } => {
            let items = collection::vector_elements(element, *dimension, value);
            return list(['[', ']'], items, |item, out| print(element, item, out), out);
        }
        _ => {}
    }
    let printed = scalar_text(ty, value);
    let quoted = match ty {
        CqlType::Text
        | CqlType::Ascii
        | CqlType::Timestamp
        | CqlType::Date
        | CqlType::Time
        | CqlType::Inet => true,
        // A column of a class without a CQL name accepts blob literals. Old timestamps are an
        // exception, because they accept timestamp literals.
        CqlType::Custom(_) => ty.is_legacy_timestamp(),
        _ => false,
    };
    match printed {
        Some(text) if quoted => out.push_str(&quote_text(&text)),
        Some(text) if !matches!(ty, CqlType::Custom(_)) => out.push_str(&text),
        _ => {
            out.push_str("0x");
            out.push_str(&hex(value));
        }
    }
    Ok(())
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

fn user_type(definition: &UserType, value: &[u8], out: &mut String) -> Result<(), ValueError> {
    let mut fields = definition.fields.iter();
    let print_field = |field: Option<&[u8]>, out: &mut String| {
        if let Some((name, ty)) = fields.next() {
            out.push_str(&quote_if_needed(name));
            out.push_str(": ");
            nullable(ty, field, out);
        }
    };
    let values = collection::fields(value).take(definition.fields.len());
    list(['{', '}'], values, print_field, out)
}

fn nullable(ty: &CqlType, value: Option<&[u8]>, out: &mut String) {
    match value {
        Some(value) => print(ty, value, out),
        None => out.push_str("null"),
    }
}
