//! Encodes sequences of columns: separator, value, separator, value, ..., terminator.
//!
//! In a reversed column every byte of the value is inverted; separators and the terminator are not.
//! Null comes before everything in both directions. The empty value has one separator for each
//! direction, so that it sorts where its type requires.

use bytes::Bytes;

use crate::byte_comparable::source::Source;
use crate::byte_comparable::value::{decode_from, encode_as};
use crate::byte_comparable::{
    EMPTY, EMPTY_REVERSED, Form, GT_NEXT, LT_NEXT, NEXT_COMPONENT, NULL, Ordered, Oss50, TERMINATOR,
};
use crate::{CqlType, DecodeError};

/// Appends the separator and the value of one column; `None` is null.
#[inline]
pub fn encode_component(ty: &CqlType, reversed: bool, value: Option<&[u8]>, out: &mut Vec<u8>) {
    component_as::<Oss50>(ty, reversed, value, out);
}

#[inline]
fn component_as<F: Form>(ty: &CqlType, reversed: bool, value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        None => out.push(NULL),
        Some(value) if value.is_empty() && ty.empty_is_special() => {
            out.push(if reversed { EMPTY_REVERSED } else { EMPTY });
        }
        Some(value) => {
            out.push(NEXT_COMPONENT);
            let start = out.len();
            encode_as::<F>(ty, value, out);
            if reversed {
                out[start..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
    }
}

/// Appends the components of a clustering or of a prefix of one, then `terminator`.
///
/// `values` may be shorter than `types`. The terminator is [`TERMINATOR`] for rows and keys,
/// [`LT_NEXT`] or [`GT_NEXT`] for bounds. The flag of a type says whether its column is reversed
/// (`CLUSTERING ORDER BY ... DESC`).
pub fn encode_clustering<V: AsRef<[u8]>>(
    types: &[(CqlType, bool)],
    values: &[Option<V>],
    terminator: u8,
    out: &mut Vec<u8>,
) {
    encode_clustering_prefix(types, values, out);
    out.push(terminator);
}

/// Appends the components as [`encode_clustering`] does, without a terminator: the common prefix of
/// all positions with these values.
pub fn encode_clustering_prefix<V: AsRef<[u8]>>(
    types: &[(CqlType, bool)],
    values: &[Option<V>],
    out: &mut Vec<u8>,
) {
    debug_assert!(values.len() <= types.len(), "more values than clustering columns");
    for ((ty, reversed), value) in types.iter().zip(values) {
        encode_component(ty, *reversed, value.as_ref().map(AsRef::as_ref), out);
    }
}

/// Appends the ordered form of a clustering. Its order is [`CqlType::compare`]'s for all values.
pub fn encode_ordered_clustering<V: AsRef<[u8]>>(
    types: &[(CqlType, bool)],
    values: &[Option<V>],
    terminator: u8,
    out: &mut Vec<u8>,
) {
    debug_assert!(values.len() <= types.len(), "more values than clustering columns");
    for ((ty, reversed), value) in types.iter().zip(values) {
        component_as::<Ordered>(ty, *reversed, value.as_ref().map(AsRef::as_ref), out);
    }
    out.push(terminator);
}

/// Decodes one component from the front of `input`, and advances `input`; `None` is null. An error
/// leaves `input` unchanged.
///
/// # Errors
///
/// Returns an error if `input` does not begin with a component of this type.
pub fn decode_component(
    ty: &CqlType,
    reversed: bool,
    input: &mut &[u8],
) -> Result<Option<Bytes>, DecodeError> {
    let mut out = Vec::new();
    let is_null = !append_component(ty, reversed, input, &mut out)?;
    Ok(if is_null { None } else { Some(out.into()) })
}

/// Decodes one component from the front of `input`, advances `input`, and appends the value to
/// `out`. Returns `false` if the value is null. An error leaves `input` unchanged.
#[inline]
fn append_component(
    ty: &CqlType,
    reversed: bool,
    input: &mut &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, DecodeError> {
    let mut separator = Source::new(input, false);
    let is_value = match separator.byte(ty)? {
        NULL => false,
        EMPTY if !reversed => true,
        EMPTY_REVERSED if reversed => true,
        NEXT_COMPONENT => {
            let mut source = Source::new(separator.rest(), reversed);
            decode_from(ty, &mut source, out)?;
            *input = source.rest();
            return Ok(true);
        }
        got => return Err(separator.unexpected(ty, "a separator", got)),
    };
    *input = separator.rest();
    Ok(is_value)
}

/// Decodes the values of a clustering and its terminator. `input` must hold nothing else.
///
/// # Errors
///
/// Returns an error if `input` is not the encoding of a clustering of these types.
pub fn decode_clustering(
    types: &[(CqlType, bool)],
    input: &[u8],
) -> Result<(Vec<Option<Bytes>>, u8), DecodeError> {
    let mut values = Vec::with_capacity(types.len());
    let terminator = for_each_component(types, input, |ty, reversed, rest| {
        values.push(decode_component(ty, reversed, rest)?);
        Ok(())
    })?;
    Ok((values, terminator))
}

/// Appends the values of a clustering, each behind its length as a be32 (−1: null), as in the
/// results of the native protocol. A value that the clustering does not have is null.
///
/// # Errors
///
/// Returns an error if `input` is not the encoding of a clustering of these types.
pub fn append_clustering(
    types: &[(CqlType, bool)],
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let mut missing = types.len();
    for_each_component(types, input, |ty, reversed, rest| {
        missing -= 1;
        let start = out.len();
        out.extend_from_slice(&[0xFF; 4]);
        if append_component(ty, reversed, rest, out)? {
            let length = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    })?;
    out.resize(out.len() + 4 * missing, 0xFF);
    Ok(())
}

/// Calls `take` for each component of a clustering, and returns the terminator. `take` must advance
/// its input past the component.
#[inline]
fn for_each_component(
    types: &[(CqlType, bool)],
    input: &[u8],
    mut take: impl FnMut(&CqlType, bool, &mut &[u8]) -> Result<(), DecodeError>,
) -> Result<u8, DecodeError> {
    let (mut rest, mut types) = (input, types.iter());
    loop {
        if let [terminator @ (TERMINATOR | LT_NEXT | GT_NEXT), after @ ..] = rest {
            if after.is_empty() {
                return Ok(*terminator);
            }
            return Err(DecodeError::Trailing { type_name: "clustering".into(), got: after.len() });
        }
        let Some((ty, reversed)) = types.next() else {
            let type_name = "clustering".to_owned();
            return Err(match rest.first() {
                None => DecodeError::Truncated { type_name },
                Some(&got) => DecodeError::Unexpected {
                    type_name,
                    expected: "a terminator (38, 20 or 60)",
                    got,
                    remaining: rest.len() - 1,
                },
            });
        };
        take(ty, *reversed, &mut rest)?;
    }
}
