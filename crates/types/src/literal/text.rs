//! Reads and prints the plain text of a scalar, without quotes.

use std::net::{IpAddr, Ipv6Addr};

use bytes::Bytes;

use crate::duration::Duration;
use crate::literal::{date, duration, number, refusal, timestamp, to_cql_literal};
use crate::{CqlType, ValueError, collection, decimal, varint};

/// Returns the value of `text`: numbers, `true`, a UUID, `2011-02-03 04:05+0000`, `1h30m`, `::1`,
/// hex digits, ...
///
/// An empty text is the zero-length value, if the type has one. A tuple has the texts of its fields
/// between colons: `1:a:@`, where `@` is null and a backslash makes `:` and `@` plain characters.
///
/// # Errors
///
/// Returns an error if `text` is not a value of the type, and for types without a plain text:
/// collections, UDTs and vectors, which have CQL literals and JSON instead, and most classes
/// without a CQL name.
pub fn from_text(ty: &CqlType, text: &str) -> Result<Bytes, ValueError> {
    if let CqlType::Tuple(types) = ty {
        return parse_tuple(ty, types, text);
    }
    if text.is_empty() && ty.validate(&[]).is_ok() {
        return Ok(Bytes::new());
    }
    let wrong = |expected| ValueError::Text { reason: refusal::reason(ty, text), expected };
    let value = match ty {
        CqlType::Text => Some(text.as_bytes().to_vec()),
        CqlType::Ascii => text.is_ascii().then(|| text.as_bytes().to_vec()),
        CqlType::Blob => parse_hex(text),
        CqlType::Boolean => parse_boolean(text).map(|value| vec![u8::from(value)]),
        CqlType::Tinyint => text.parse().ok().map(|value: i8| value.to_be_bytes().to_vec()),
        CqlType::Smallint => text.parse().ok().map(|value: i16| value.to_be_bytes().to_vec()),
        CqlType::Int => text.parse().ok().map(|value: i32| value.to_be_bytes().to_vec()),
        CqlType::Bigint | CqlType::Counter => {
            text.parse().ok().map(|value: i64| value.to_be_bytes().to_vec())
        }
        CqlType::Float => number::parse_float(text).map(|value: f32| value.to_be_bytes().to_vec()),
        CqlType::Double => number::parse_float(text).map(|value: f64| value.to_be_bytes().to_vec()),
        CqlType::Varint => number::parse_varint(text).map(|value| varint::encode(&value)),
        CqlType::Decimal => {
            decimal::parse(text).map(|(unscaled, scale)| decimal::encode(&unscaled, scale))
        }
        CqlType::Timestamp => {
            timestamp::parse_timestamp(text).map(|value| value.to_be_bytes().to_vec())
        }
        CqlType::Custom(_) if ty.is_legacy_timestamp() => {
            timestamp::parse_timestamp(text).map(|value| value.to_be_bytes().to_vec())
        }
        CqlType::Date => date::parse_date(text).map(|value| value.to_be_bytes().to_vec()),
        CqlType::Time => date::parse_time(text).map(|value| value.to_be_bytes().to_vec()),
        CqlType::Duration => duration::parse_duration(text).map(|value| {
            let mut out = Vec::new();
            value.encode(&mut out);
            out
        }),
        CqlType::Uuid | CqlType::Timeuuid => parse_uuid(text),
        CqlType::Custom(_) if ty.is_lexical_uuid() => parse_uuid(text),
        CqlType::Inet => parse_inet(text),
        _ => {
            let what = "plain text";
            return Err(ValueError::Unsupported { type_name: ty.cql_name(), what });
        }
    };
    let value = value.ok_or_else(|| wrong(expected(ty)))?;
    if *ty == CqlType::Timeuuid && ty.validate(&value).is_err() {
        return Err(wrong("a UUID of version 1"));
    }
    ty.validate(&value)?;
    Ok(value.into())
}

/// Prints a scalar as the text that [`from_text`] reads back, and collections, tuples, UDTs and
/// vectors as CQL literals.
///
/// An empty value is an empty text. Bytes that are not a value of the type print as hex digits, for
/// most types behind `0x`.
pub fn to_text(ty: &CqlType, value: &[u8]) -> String {
    if value.is_empty() {
        return String::new();
    }
    scalar_text(ty, value).unwrap_or_else(|| match ty {
        CqlType::Blob | CqlType::Counter | CqlType::Custom(_) => hex(value),
        _ => to_cql_literal(ty, value),
    })
}

/// Prints a scalar; `None` for types without a plain text and for bytes that are not a value.
pub(super) fn scalar_text(ty: &CqlType, value: &[u8]) -> Option<String> {
    match ty {
        CqlType::Text | CqlType::Ascii => std::str::from_utf8(value).ok().map(str::to_owned),
        CqlType::Boolean => match value {
            [byte] => Some(if *byte != 0 { "true" } else { "false" }.to_owned()),
            _ => None,
        },
        CqlType::Tinyint => fixed(value).map(|bytes| i8::from_be_bytes(bytes).to_string()),
        CqlType::Smallint => fixed(value).map(|bytes| i16::from_be_bytes(bytes).to_string()),
        CqlType::Int => fixed(value).map(|bytes| i32::from_be_bytes(bytes).to_string()),
        CqlType::Bigint | CqlType::Counter => {
            fixed(value).map(|bytes| i64::from_be_bytes(bytes).to_string())
        }
        CqlType::Float => fixed(value).map(|bytes| number::print_float(f32::from_be_bytes(bytes))),
        CqlType::Double => {
            fixed(value).map(|bytes| number::print_double(f64::from_be_bytes(bytes)))
        }
        CqlType::Varint => Some(varint::decode(value).to_string()),
        CqlType::Decimal => decimal::decode(value)
            .ok()
            .map(|(unscaled, scale)| decimal::to_scientific_string(&unscaled, scale)),
        CqlType::Timestamp => timestamp_text(value),
        CqlType::Custom(_) if ty.is_legacy_timestamp() => timestamp_text(value),
        CqlType::Date => fixed(value).map(|bytes| date::print_date(u32::from_be_bytes(bytes))),
        CqlType::Time => fixed(value).map(|bytes| date::print_time(i64::from_be_bytes(bytes))),
        CqlType::Duration => {
            Duration::decode(value).ok().map(|value| duration::print_duration(&value))
        }
        CqlType::Uuid | CqlType::Timeuuid => print_uuid(value),
        CqlType::Custom(_) if ty.is_lexical_uuid() => print_uuid(value),
        CqlType::Inet => print_inet(value),
        _ => None,
    }
}

fn expected(ty: &CqlType) -> &'static str {
    match ty {
        CqlType::Ascii => "ASCII characters",
        CqlType::Blob => "pairs of hex digits",
        CqlType::Boolean => "true or false",
        CqlType::Tinyint => "an integer of 8 bits",
        CqlType::Smallint => "an integer of 16 bits",
        CqlType::Int => "an integer of 32 bits",
        CqlType::Bigint | CqlType::Counter => "an integer of 64 bits",
        CqlType::Float | CqlType::Double => "a number, NaN or Infinity",
        CqlType::Varint => "an integer",
        CqlType::Decimal => "a decimal number whose scale fits in 32 bits",
        CqlType::Timestamp => "milliseconds, or yyyy-mm-dd[(T| )hh:mm[:ss[.fff]]][zone]",
        CqlType::Date => "yyyy-mm-dd, or days with 2^31 for 1970-01-01",
        CqlType::Time => "hh:mm:ss[.fraction], or nanoseconds of a day",
        CqlType::Duration => "a duration such as 1y2mo3d4h or P1Y2M3DT4H within its range",
        CqlType::Uuid | CqlType::Timeuuid => "a UUID with hyphens",
        CqlType::Inet => "an IPv4 or IPv6 address",
        _ => "a value of the type",
    }
}

fn fixed<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    value.try_into().ok()
}

fn timestamp_text(value: &[u8]) -> Option<String> {
    fixed(value).map(|bytes| timestamp::print_timestamp(i64::from_be_bytes(bytes)))
}

fn parse_boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        return Some(true);
    }
    text.eq_ignore_ascii_case("false").then_some(false)
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let digit = |byte: u8| char::from(byte).to_digit(16);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8))
        .collect()
}

pub(super) fn hex(value: &[u8]) -> String {
    let mut out = String::new();
    push_hex(value, &mut out);
    out
}

/// Appends two hex digits for each byte. The loop avoids `write!`, which takes 15 ns a byte: a blob
/// of 1 MiB would occupy the core for 16 ms.
pub(super) fn push_hex(value: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 * value.len());
    for piece in value.chunks(32) {
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(piece) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        out.push_str(std::str::from_utf8(&digits[..2 * piece.len()]).unwrap_or_default());
    }
}

/// Reads a UUID; only the form with hyphens is allowed.
fn parse_uuid(text: &str) -> Option<Vec<u8>> {
    if text.len() != 36 {
        return None;
    }
    uuid::Uuid::try_parse(text).ok().map(|uuid| uuid.into_bytes().to_vec())
}

fn print_uuid(value: &[u8]) -> Option<String> {
    uuid::Uuid::from_slice(value).ok().map(|uuid| uuid.to_string())
}

/// Reads an IP address. An IPv4 address inside IPv6 (`::ffff:1.2.3.4`) becomes an IPv4 address, as
/// in Java.
fn parse_inet(text: &str) -> Option<Vec<u8>> {
    Some(match text.parse::<IpAddr>() {
        Ok(address) => match address.to_canonical() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        },
        Err(_) => parse_short_inet(text)?.to_vec(),
    })
}

/// Reads an IPv4 address of one to four numbers. As in Java, the last number fills the remaining
/// bytes: `1.2.3` is `1.2.0.3`. Numbers may have leading zeros.
fn parse_short_inet(text: &str) -> Option<[u8; 4]> {
    let mut address = [0; 4];
    let mut numbers = text.split('.');
    let last = numbers.next_back()?;
    let mut filled = 0;
    for number in numbers {
        *address.get_mut(..3)?.get_mut(filled)? = parse_digits(number)?.try_into().ok()?;
        filled += 1;
    }
    let last = parse_digits(last)?.to_be_bytes();
    let (overflow, rest) = last.split_at(last.len() - (address.len() - filled));
    address[filled..].copy_from_slice(rest);
    overflow.iter().all(|byte| *byte == 0).then_some(address)
}

fn parse_digits(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// Reads a tuple from the texts of its fields. Fields that the text omits stay absent.
fn parse_tuple(ty: &CqlType, types: &[CqlType], text: &str) -> Result<Bytes, ValueError> {
    let fields = split_at_colons(text);
    if fields.len() > types.len() {
        let reason = format!(
            "Invalid tuple literal: too many elements. Type {} expects {} but got {}",
            ty.cql_name(),
            types.len(),
            fields.len()
        );
        return Err(ValueError::Text { reason, expected: "a text for each field" });
    }
    let values = fields.iter().zip(types).map(|(field, ty)| match *field {
        "@" => Ok(None),
        field => from_text(ty, &field.replace("\\:", ":").replace("\\@", "@")).map(Some),
    });
    Ok(collection::tuple_of(values.collect::<Result<Vec<_>, _>>()?))
}

/// Splits a text at the colons that have no backslash in front.
fn split_at_colons(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(':') {
        if !text[..at].ends_with('\\') {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Prints an IP address in Java's form, without `::`.
fn print_inet(value: &[u8]) -> Option<String> {
    if let Some(octets) = fixed::<4>(value) {
        return Some(IpAddr::from(octets).to_string());
    }
    let address = Ipv6Addr::from(fixed::<16>(value)?);
    if let IpAddr::V4(address) = address.to_canonical() {
        return Some(address.to_string());
    }
    let groups: Vec<String> =
        address.segments().iter().map(|segment| format!("{segment:x}")).collect();
    Some(groups.join(":"))
}
