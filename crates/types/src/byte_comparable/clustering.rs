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

/// Takes one component off the front of `input`; `None` is null. An error leaves `input` as it was.
///
/// # Errors
///
/// Returns an error if `input` does not begin with a component of this type.
pub fn decode_component(
    ty: &CqlType,
    reversed: bool,
    input: &mut &[u8],
) -> Result<Option<Bytes>, DecodeError> {
    let mut separator = Source::new(input, false);
    let value = match separator.byte(ty)? {
        NULL => None,
        EMPTY if !reversed => Some(Bytes::new()),
        EMPTY_REVERSED if reversed => Some(Bytes::new()),
        NEXT_COMPONENT => {
            let mut source = Source::new(separator.rest(), reversed);
            let mut out = Vec::new();
            decode_from(ty, &mut source, &mut out)?;
            *input = source.rest();
            return Ok(Some(out.into()));
        }
        got => return Err(separator.unexpected(ty, "a separator", got)),
    };
    *input = separator.rest();
    Ok(value)
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
    let mut rest = input;
    let mut values = Vec::with_capacity(types.len());
    loop {
        if let [terminator @ (TERMINATOR | LT_NEXT | GT_NEXT), after @ ..] = rest {
            if after.is_empty() {
                return Ok((values, *terminator));
            }
            return Err(DecodeError::Trailing { type_name: "clustering".into(), got: after.len() });
        }
        let Some((ty, reversed)) = types.get(values.len()) else {
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
        values.push(decode_component(ty, *reversed, &mut rest)?);
    }
}
