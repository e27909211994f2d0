//! Encodes values that consist of values: collections, tuples, UDTs, vectors, composites.
//!
//! Each is a sequence of components ended by [`TERMINATOR`]. Inside a sequence null is [`NULL`]. An
//! empty value without a natural form is [`NULL`] in Cassandra's form and [`EMPTY`] in the ordered
//! form.

use crate::byte_comparable::source::Source;
use crate::byte_comparable::value::{decode_from, encode_as};
use crate::byte_comparable::{EMPTY, Form, NEXT_COMPONENT, NULL, TERMINATOR};
use crate::{CqlType, DecodeError, collection};

pub(super) fn encode_elements<F: Form>(element: &CqlType, value: &[u8], out: &mut Vec<u8>) {
    if let Ok(elements) = collection::elements(value) {
        for item in elements.map_while(Result::ok) {
            encode_part::<F>(element, item, out);
        }
    }
    out.push(TERMINATOR);
}

pub(super) fn encode_map<F: Form>(key: &CqlType, value: &CqlType, bytes: &[u8], out: &mut Vec<u8>) {
    if let Ok(entries) = collection::entries(bytes) {
        for (k, v) in entries.map_while(Result::ok) {
            encode_part::<F>(key, Some(k), out);
            encode_part::<F>(value, Some(v), out);
        }
    }
    out.push(TERMINATOR);
}

/// Encodes a tuple or UDT without trailing nulls, so that a tuple that was written before a field
/// was added equals one with null in that field.
pub(super) fn encode_fields<'t, F: Form>(
    types: impl Iterator<Item = &'t CqlType>,
    value: &[u8],
    out: &mut Vec<u8>,
) {
    let mut end = out.len();
    for (ty, field) in types.zip(collection::fields(value).map_while(Result::ok)) {
        encode_part::<F>(ty, field, out);
        if field.is_some() {
            end = out.len();
        }
    }
    out.truncate(end);
    out.push(TERMINATOR);
}

pub(super) fn encode_vector<F: Form>(
    element: &CqlType,
    dimension: usize,
    value: &[u8],
    out: &mut Vec<u8>,
) {
    for item in collection::vector_elements(element, dimension, value).map_while(Result::ok) {
        encode_part::<F>(element, Some(item), out);
    }
    out.push(TERMINATOR);
}

/// Encodes a partition key of several columns in one value.
///
/// The first byte says whether the prefix is that of a static row. Each component is followed by
/// its end-of-component byte, which is signed.
pub(super) fn encode_composite<F: Form>(types: &[CqlType], value: &[u8], out: &mut Vec<u8>) {
    let (is_static, components) = collection::composite_components(value);
    out.push(if is_static { NULL } else { NEXT_COMPONENT });
    for (ty, component) in types.iter().zip(components.map_while(Result::ok)) {
        encode_part::<F>(ty, Some(component.value), out);
        out.push(NEXT_COMPONENT);
        out.push(component.end ^ 0x80);
    }
    out.push(TERMINATOR);
}

#[inline]
fn encode_part<F: Form>(ty: &CqlType, value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        None => out.push(NULL),
        Some([]) if ty.empty_is_special() => out.push(F::NESTED_EMPTY),
        Some(value) => {
            out.push(NEXT_COMPONENT);
            encode_as::<F>(ty, value, out);
        }
    }
}

pub(super) fn decode_elements(
    ty: &CqlType,
    element: &CqlType,
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    decode_counted(ty, &[element], source, out)
}

pub(super) fn decode_map(
    ty: &CqlType,
    key: &CqlType,
    value: &CqlType,
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    decode_counted(ty, &[key, value], source, out)
}

/// Decodes groups of one value for each of `types`, and writes the number of groups in front of
/// them.
fn decode_counted(
    ty: &CqlType,
    types: &[&CqlType],
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count: i32 = 0;
    loop {
        for (index, part) in types.iter().enumerate() {
            let present = begin_part(ty, source)?;
            if present == Part::End && index == 0 {
                out[start..start + 4].copy_from_slice(&count.to_be_bytes());
                return Ok(());
            }
            decode_part(ty, part, present, source, out)?;
        }
        count = count.checked_add(1).ok_or_else(|| DecodeError::Range {
            type_name: ty.cql_name(),
            reason: "more than 2^31 elements",
        })?;
    }
}

pub(super) fn decode_fields<'t>(
    ty: &CqlType,
    types: impl Iterator<Item = &'t CqlType>,
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    const NULL_LENGTH: [u8; 4] = (-1i32).to_be_bytes();
    let mut ended = false;
    let mut last_null = None;
    for field in types {
        let part = if ended { Part::Null } else { begin_part(ty, source)? };
        if part == Part::Value || part == Part::Empty {
            last_null = None;
            decode_part(ty, field, part, source, out)?;
            continue;
        }
        ended |= part == Part::End;
        if !ended {
            last_null = field.empty_is_special().then_some(out.len());
        }
        out.extend_from_slice(&NULL_LENGTH);
    }
    if !ended {
        expect_end(ty, source)?;
    }
    // Trailing nulls are never written, so a null at the end was an empty value.
    if let Some(at) = last_null {
        out[at..at + 4].copy_from_slice(&[0; 4]);
    }
    Ok(())
}

pub(super) fn decode_vector(
    ty: &CqlType,
    element: &CqlType,
    dimension: usize,
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let fixed = element.fixed_length();
    let mut item = Vec::new();
    for _ in 0..dimension {
        item.clear();
        match begin_part(ty, source)? {
            Part::Value => decode_from(element, source, &mut item)?,
            Part::Null | Part::Empty => {}
            Part::End => return Err(source.unexpected(ty, "one more element", TERMINATOR)),
        }
        match fixed {
            Some(length) if length == item.len() => {}
            Some(_) => {
                let reason = "empty element of fixed length";
                return Err(DecodeError::Range { type_name: ty.cql_name(), reason });
            }
            None => crate::vint::write_unsigned(item.len() as u64, out),
        }
        out.extend_from_slice(&item);
    }
    expect_end(ty, source)
}

pub(super) fn decode_composite(
    ty: &CqlType,
    types: &[CqlType],
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    match source.byte(ty)? {
        NEXT_COMPONENT => {}
        NULL => out.extend_from_slice(&collection::STATIC_COMPOSITE.to_be_bytes()),
        got => return Err(source.unexpected(ty, "the start of a composite", got)),
    }
    for component in types {
        let part = begin_part(ty, source)?;
        if part == Part::End {
            return Ok(());
        }
        let start = out.len();
        out.extend_from_slice(&[0; 2]);
        if part == Part::Value {
            decode_from(component, source, out)?;
        }
        let length = u16::try_from(out.len() - start - 2).map_err(|_| DecodeError::Range {
            type_name: ty.cql_name(),
            reason: "a component of more than 65535 bytes",
        })?;
        out[start..start + 2].copy_from_slice(&length.to_be_bytes());
        if begin_part(ty, source)? != Part::Value {
            return Err(source.unexpected(ty, "an end-of-component byte", 0));
        }
        out.push(source.byte(ty)? ^ 0x80);
    }
    expect_end(ty, source)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Value,
    Null,
    /// An empty value, in the ordered form.
    Empty,
    End,
}

fn begin_part(ty: &CqlType, source: &mut Source<'_>) -> Result<Part, DecodeError> {
    match source.byte(ty)? {
        NEXT_COMPONENT => Ok(Part::Value),
        NULL => Ok(Part::Null),
        EMPTY => Ok(Part::Empty),
        TERMINATOR => Ok(Part::End),
        got => Err(source.unexpected(ty, "a separator (40, 3f, 3e) or the end (38)", got)),
    }
}

fn expect_end(ty: &CqlType, source: &mut Source<'_>) -> Result<(), DecodeError> {
    match source.byte(ty)? {
        TERMINATOR => Ok(()),
        got => Err(source.unexpected(ty, "the end (38)", got)),
    }
}

/// Appends the value behind its length of 32 bits.
fn decode_part(
    outer: &CqlType,
    ty: &CqlType,
    part: Part,
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    match part {
        Part::Value => decode_from(ty, source, out)?,
        // A collection holds no null, so this was an empty value.
        Part::Null | Part::Empty if ty.empty_is_special() => {}
        Part::Null | Part::Empty | Part::End => {
            return Err(source.unexpected(outer, "a value", NULL));
        }
    }
    let length = i32::try_from(out.len() - start - 4).map_err(|_| DecodeError::Range {
        type_name: outer.cql_name(),
        reason: "a value of more than 2^31 bytes",
    })?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
