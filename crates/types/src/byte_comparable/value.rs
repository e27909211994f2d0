//! Encodes one value in the form of its type.

use crate::byte_comparable::source::Source;
use crate::byte_comparable::{Form, Oss50, decimal, encode_escaped, escaped, integer, nested};
use crate::uuid_order::{timeuuid_of_rank, timeuuid_rank, uuid_of_rank, uuid_rank};
use crate::{CqlType, DecodeError};

/// Appends the encoding of one serialised value, without a separator.
///
/// A zero-length value of a type without a natural empty value ([`CqlType::empty_is_special`]) adds
/// nothing: only a separator can express it.
#[inline]
pub fn encode(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) {
    encode_as::<Oss50>(ty, value, out);
}

/// Encodes a value as [`encode`] does, in form `F`.
#[inline]
pub(super) fn encode_as<F: Form>(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) {
    match ty {
        CqlType::Text | CqlType::Ascii | CqlType::Blob => encode_escaped(value, out),
        CqlType::Int => sign_flipped::<4>(value, out),
        CqlType::Bigint => match value.try_into() {
            Ok(bytes) => integer::encode_bigint(i64::from_be_bytes(bytes), out),
            Err(_) => odd_length(value, out),
        },
        CqlType::Timestamp => sign_flipped::<8>(value, out),
        CqlType::Uuid => ranked(uuid_rank, value, out),
        CqlType::Timeuuid => ranked(timeuuid_rank, value, out),
        _ => encode_other::<F>(ty, value, out),
    }
}

fn encode_other<F: Form>(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) {
    if value.is_empty() && ty.empty_is_special() {
        return;
    }
    match ty {
        CqlType::Smallint => sign_flipped::<2>(value, out),
        CqlType::Tinyint => sign_flipped::<1>(value, out),
        CqlType::Boolean => match value {
            [byte] => out.push(u8::from(*byte != 0)),
            _ => odd_length(value, out),
        },
        CqlType::Float => float::<F, 4>(value, out),
        CqlType::Double => float::<F, 8>(value, out),
        CqlType::Date => fixed::<4>(value, out),
        CqlType::Time => fixed::<8>(value, out),
        CqlType::Varint => integer::encode_varint(value, out),
        CqlType::Decimal => decimal::encode(value, out),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            nested::encode_elements::<F>(element, value, out)
        }
        CqlType::Map { key, value: ty, .. } => nested::encode_map::<F>(key, ty, value, out),
        CqlType::Tuple(types) => nested::encode_fields::<F>(types.iter(), value, out),
        CqlType::UserDefined { definition, .. } => {
            nested::encode_fields::<F>(definition.field_types(), value, out)
        }
        CqlType::Vector { element, dimension } => {
            nested::encode_vector::<F>(element, *dimension, value, out)
        }
        CqlType::Composite(types) => nested::encode_composite::<F>(types, value, out),
        CqlType::Custom(_) if ty.is_legacy_timestamp() => fixed::<8>(value, out),
        CqlType::Custom(_) if ty.is_lexical_uuid() => {
            ranked(|bytes| u128::from_be_bytes(bytes) ^ LEXICAL_SIGNS, value, out)
        }
        // Counters are not part of keys. Classes unknown to this crate are ordered as bytes.
        _ => encode_escaped(value, out),
    }
}

/// Decodes one value from the front of `input`, advances `input`, and returns the serialised value.
/// An error leaves `input` unchanged.
///
/// # Errors
///
/// Returns an error if `input` does not begin with the encoding of a value of this type.
pub fn decode(ty: &CqlType, input: &mut &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut source = Source::new(input, false);
    let mut out = Vec::new();
    decode_from(ty, &mut source, &mut out)?;
    *input = source.rest();
    Ok(out)
}

/// Appends the serialised form of the next value.
pub(super) fn decode_from(
    ty: &CqlType,
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    match ty {
        CqlType::Int => unflip_sign(source.array::<4>(ty)?, out),
        CqlType::Smallint => unflip_sign(source.array::<2>(ty)?, out),
        CqlType::Tinyint => unflip_sign(source.array::<1>(ty)?, out),
        CqlType::Timestamp => unflip_sign(source.array::<8>(ty)?, out),
        CqlType::Bigint => {
            let value = integer::decode_bigint(ty, source)?;
            out.extend_from_slice(&value.to_be_bytes());
        }
        CqlType::Boolean => match source.byte(ty)? {
            byte @ (0 | 1) => out.push(byte),
            got => return Err(source.unexpected(ty, "00 or 01", got)),
        },
        CqlType::Float => unfloat(source.array::<4>(ty)?, out),
        CqlType::Double => unfloat(source.array::<8>(ty)?, out),
        CqlType::Date => out.extend_from_slice(&source.array::<4>(ty)?),
        CqlType::Time => out.extend_from_slice(&source.array::<8>(ty)?),
        CqlType::Uuid => {
            let rank = u128::from_be_bytes(source.array(ty)?);
            out.extend_from_slice(&uuid_of_rank(rank));
        }
        CqlType::Timeuuid => {
            let rank = u128::from_be_bytes(source.array(ty)?);
            out.extend_from_slice(&timeuuid_of_rank(rank));
        }
        CqlType::Varint => integer::decode_varint(ty, source, out)?,
        CqlType::Decimal => decimal::decode(ty, source, out)?,
        // The separator alone expresses the value.
        CqlType::Empty => {}
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            nested::decode_elements(ty, element, source, out)?
        }
        CqlType::Map { key, value, .. } => nested::decode_map(ty, key, value, source, out)?,
        CqlType::Tuple(types) => nested::decode_fields(ty, types.iter(), source, out)?,
        CqlType::UserDefined { definition, .. } => {
            nested::decode_fields(ty, definition.field_types(), source, out)?
        }
        CqlType::Vector { element, dimension } => {
            nested::decode_vector(ty, element, *dimension, source, out)?
        }
        CqlType::Composite(types) => nested::decode_composite(ty, types, source, out)?,
        CqlType::Custom(_) if ty.is_legacy_timestamp() => {
            out.extend_from_slice(&source.array::<8>(ty)?)
        }
        CqlType::Custom(_) if ty.is_lexical_uuid() => {
            let rank = u128::from_be_bytes(source.array(ty)?) ^ LEXICAL_SIGNS;
            out.extend_from_slice(&rank.to_be_bytes());
        }
        CqlType::Ascii
        | CqlType::Text
        | CqlType::Blob
        | CqlType::Inet
        | CqlType::Duration
        | CqlType::Counter
        | CqlType::Custom(_) => escaped::decode_from(ty, source, out)?,
    }
    Ok(())
}

/// `LexicalUUIDType` compares both halves as signed integers.
const LEXICAL_SIGNS: u128 = 1 << 127 | 1 << 63;

#[inline]
fn sign_flipped<const N: usize>(value: &[u8], out: &mut Vec<u8>) {
    match <[u8; N]>::try_from(value) {
        Ok(mut bytes) => {
            bytes[0] ^= 0x80;
            out.extend_from_slice(&bytes);
        }
        Err(_) => odd_length(value, out),
    }
}

fn unflip_sign<const N: usize>(mut bytes: [u8; N], out: &mut Vec<u8>) {
    bytes[0] ^= 0x80;
    out.extend_from_slice(&bytes);
}

#[inline]
fn float<F: Form, const N: usize>(value: &[u8], out: &mut Vec<u8>) {
    if F::IS_ORDERED && is_nan(value) {
        // Java's NaN with its sign flipped: behind infinity.
        out.extend_from_slice(&[0xFF, if N == 4 { 0xC0 } else { 0xF8 }]);
        out.resize(out.len() + N - 2, 0);
        return;
    }
    match <[u8; N]>::try_from(value) {
        Ok(bytes) if bytes[0] & 0x80 != 0 => out.extend_from_slice(&bytes.map(|byte| !byte)),
        _ => sign_flipped::<N>(value, out),
    }
}

/// Returns whether a `float` or `double` is NaN, whatever its other bits.
fn is_nan(value: &[u8]) -> bool {
    if let Ok(bytes) = <[u8; 4]>::try_from(value) {
        return f32::from_be_bytes(bytes).is_nan();
    }
    <[u8; 8]>::try_from(value).is_ok_and(|bytes| f64::from_be_bytes(bytes).is_nan())
}

fn unfloat<const N: usize>(bytes: [u8; N], out: &mut Vec<u8>) {
    if bytes[0] & 0x80 == 0 {
        out.extend_from_slice(&bytes.map(|byte| !byte));
    } else {
        unflip_sign(bytes, out);
    }
}

#[inline]
fn fixed<const N: usize>(value: &[u8], out: &mut Vec<u8>) {
    match <[u8; N]>::try_from(value) {
        Ok(bytes) => out.extend_from_slice(&bytes),
        Err(_) => odd_length(value, out),
    }
}

#[inline]
fn ranked(rank: impl Fn([u8; 16]) -> u128, value: &[u8], out: &mut Vec<u8>) {
    match value.try_into() {
        Ok(bytes) => out.extend_from_slice(&rank(bytes).to_be_bytes()),
        Err(_) => odd_length(value, out),
    }
}

/// Encodes a value of a length that validation refuses. Encoding never fails, so the value gets
/// some position in the order. A zero-length value adds nothing, because its separator expresses
/// it.
#[cold]
fn odd_length(value: &[u8], out: &mut Vec<u8>) {
    if !value.is_empty() {
        encode_escaped(value, out);
    }
}
