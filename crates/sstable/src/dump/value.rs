//! Prints values as JSON, directly into bytes.
//!
//! The form is that of `SELECT JSON` and of [`espalier_types::literal::to_json`], so that `INSERT
//! JSON` reads it back, with two differences: no blanks, and NaN and infinities as strings (`null`
//! would be another value). Common types are printed here; all others use [`to_json`].

use std::{fmt::Debug, io::Write};

use espalier_mutation::schema::TableMetadata;
use espalier_types::{
    CqlType, ValueError,
    calendar::{MILLIS_PER_DAY, civil_from_days},
    collection,
    literal::{to_json, to_text},
};

use super::text::{
    pair, push_escaped, push_hex, push_i64, push_padded, push_plain_string, push_string, push_u64,
    push_uuid,
};

/// Appends a value. Bytes that are no value of the type are shown as a blob, `"0x..."`.
pub fn write_json(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if write_known(ty, value, out).is_err() {
        out.truncate(start);
        write_blob(value, out);
    }
}

fn write_blob(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"0x");
    push_hex(value, out);
    out.push(b'"');
}

fn write_known(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    match ty {
        CqlType::Text | CqlType::Ascii if push_plain_string(value, out) => {}
        CqlType::Text | CqlType::Ascii => match std::str::from_utf8(value) {
            Ok(text) => push_string(text, out),
            Err(_) => write_blob(value, out),
        },
        CqlType::Blob => write_blob(value, out),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            write_parts(b"[]", collection::elements(value)?, out, |item, out| {
                nullable(element, item, out)
            })?;
        }
        CqlType::Vector { element, dimension } => {
            let items = collection::vector_elements(element, *dimension, value);
            write_parts(b"[]", items, out, |item, out| write_json(element, item, out))?;
        }
        CqlType::Map { key, value: ty, .. } => {
            write_parts(b"{}", collection::entries(value)?, out, |(k, v), out| {
                write_key(key, k, out);
                write_json(ty, v, out);
            })?;
        }
        CqlType::Tuple(types) | CqlType::Composite(types) if !value.is_empty() => {
            if matches!(ty, CqlType::Composite(_)) {
                return composite(types, value, out);
            }
            let mut fields = collection::fields(value);
            let padded = types.iter().map(|ty| match fields.next() {
                Some(field) => field.map(|field| (ty, field)),
                None => Ok((ty, None)),
            });
            write_parts(b"[]", padded, out, |(ty, field), out| nullable(ty, field, out))?;
        }
        CqlType::UserDefined { definition, .. } if !value.is_empty() => {
            let mut values = collection::fields(value);
            let fields = definition.fields.iter().map(|(name, ty)| match values.next() {
                Some(field) => field.map(|field| (name, ty, field)),
                None => Ok((name, ty, None)),
            });
            write_parts(b"{}", fields, out, |(name, ty, field), out| {
                write_field_name(name, out);
                nullable(ty, field, out);
            })?;
        }
        _ => write_scalar(ty, value, out),
    }
    Ok(())
}

fn write_scalar(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) {
    match (ty, value) {
        (CqlType::Int, &[a, b, c, d]) => push_i64(i32::from_be_bytes([a, b, c, d]).into(), out),
        (CqlType::Bigint | CqlType::Counter, value) if value.len() == 8 => {
            push_i64(be64(value), out);
        }
        (CqlType::Smallint, &[a, b]) => push_i64(i16::from_be_bytes([a, b]).into(), out),
        (CqlType::Tinyint, &[a]) => push_i64((a as i8).into(), out),
        (CqlType::Boolean, &[byte]) => {
            out.extend_from_slice(if byte != 0 { b"true" } else { b"false" });
        }
        (CqlType::Uuid | CqlType::Timeuuid, value) if value.len() == 16 => {
            out.push(b'"');
            push_uuid(value, out);
            out.push(b'"');
        }
        (CqlType::Timestamp, value)
            if value.len() == 8 && (0..FIVE_DIGIT_YEAR_MS).contains(&be64(value)) =>
        {
            write_timestamp(be64(value), out);
        }
        (CqlType::Double, &[a, b, c, d, e, f, g, h]) => {
            let number = f64::from_be_bytes([a, b, c, d, e, f, g, h]);
            if !write_short_decimal(number, out) && !write_plain_number(number.abs(), number, out) {
                write_number(ty, value, number.is_finite(), out);
            }
        }
        (CqlType::Float, &[a, b, c, d]) => {
            let number = f32::from_be_bytes([a, b, c, d]);
            if !write_plain_number(number.abs().into(), number, out) {
                write_number(ty, value, number.is_finite(), out);
            }
        }
        _ => out.extend_from_slice(to_json(ty, value).as_bytes()),
    }
}

/// The start of the year 10000 in ms: from there on a year is printed with its sign.
const FIVE_DIGIT_YEAR_MS: i64 = 253_402_300_800_000;

fn write_timestamp(millis: i64, out: &mut Vec<u8>) {
    let date = civil_from_days(millis / MILLIS_PER_DAY);
    let of_day = (millis % MILLIS_PER_DAY) as u64;
    let mut text = *b"\"0000-00-00 00:00:00.000Z\"";
    let year = date.year.unsigned_abs();
    for (at, value) in [
        (1, year / 100),
        (3, year),
        (6, date.month.into()),
        (9, date.day.into()),
        (12, of_day / 3_600_000),
        (15, of_day / 60_000 % 60),
        (18, of_day / 1000 % 60),
        (22, of_day % 100),
    ] {
        text[at..at + 2].copy_from_slice(&pair(value));
    }
    text[21] = b'0' + (of_day % 1000 / 100) as u8;
    out.extend_from_slice(&text);
}

/// Appends a number that six decimals suffice to write, as for most prices and measurements.
/// Returns false for other numbers.
///
/// Two different decimals of at most 15 digits are never the same double. So if a decimal of at
/// most 15 digits equals this number, it is the only such decimal, and without its trailing zeros
/// it is the shortest form of the number.
fn write_short_decimal(number: f64, out: &mut Vec<u8>) -> bool {
    let absolute = number.abs();
    if !(1e-3..1e7).contains(&absolute) {
        return false;
    }
    for (scale, mut digits) in [(100u64, 2), (1_000_000, 6)] {
        let scaled = (absolute * scale as f64 + 0.5) as u64;
        if scaled as f64 / scale as f64 != absolute {
            continue;
        }
        let mut fraction = scaled % scale;
        while digits > 1 && fraction.is_multiple_of(10) {
            fraction /= 10;
            digits -= 1;
        }
        if number < 0.0 {
            out.push(b'-');
        }
        push_u64(scaled / scale, out);
        out.push(b'.');
        push_padded(fraction, digits, out);
        return true;
    }
    false
}

/// Appends a number that Java prints without an exponent, in Java's form: with the fewest digits,
/// and at least one decimal. Returns false for other numbers.
fn write_plain_number(absolute: f64, number: impl Debug, out: &mut Vec<u8>) -> bool {
    let is_plain = (1e-3..1e7).contains(&absolute) || absolute == 0.0;
    is_plain && write!(out, "{number:?}").is_ok()
}

fn write_number(ty: &CqlType, value: &[u8], is_finite: bool, out: &mut Vec<u8>) {
    if is_finite {
        out.extend_from_slice(to_json(ty, value).as_bytes())
    } else {
        push_string(&to_text(ty, value), out)
    }
}

fn be64(value: &[u8]) -> i64 {
    value.iter().fold(0, |number, &byte| number << 8 | i64::from(byte))
}

/// Appends each component of a composite, which files of older tables may hold.
fn composite(types: &[CqlType], value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let (_, components) = collection::composite_components(value);
    let mut types = types.iter();
    write_parts(b"[]", components, out, |component, out| match types.next() {
        Some(ty) => write_json(ty, component.value, out),
        None => write_blob(component.value, out),
    })
}

fn nullable(ty: &CqlType, value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        Some(value) => write_json(ty, value, out),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends the key of an object and its colon. A value that is not printed as a JSON string is put
/// into quotes.
pub(super) fn write_key(ty: &CqlType, key: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    write_json(ty, key, out);
    if out.get(start) != Some(&b'"') {
        let inside = out.split_off(start);
        out.push(b'"');
        push_escaped(&inside, out);
        out.push(b'"');
    }
    out.push(b':');
}

/// Returns the bytes that `write` appends for the name of each column, by the column's id.
pub(super) fn by_column(table: &TableMetadata, write: impl Fn(&str, &mut Vec<u8>)) -> Vec<Vec<u8>> {
    let mut written = Vec::new();
    for column in table.columns() {
        let index = column.id.0 as usize;
        if written.len() <= index {
            written.resize(index + 1, Vec::new());
        }
        write(&column.name, &mut written[index]);
    }
    written
}

/// Appends a name and its colon. Names that are not in lower case keep their CQL quotes inside the
/// string, by which `INSERT JSON` distinguishes `Name` from `name`.
pub(super) fn write_field_name(name: &str, out: &mut Vec<u8>) {
    if name.to_lowercase() == name {
        push_string(name, out)
    } else {
        push_string(&format!("\"{name}\""), out)
    }
    out.push(b':');
}

/// Appends what `write` appends for each item, between brackets and with commas.
fn write_parts<T>(
    [open, close]: &[u8; 2],
    items: impl Iterator<Item = Result<T, ValueError>>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(T, &mut Vec<u8>),
) -> Result<(), ValueError> {
    out.push(*open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item?, out);
    }
    out.push(*close);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use espalier_types::{UserType, literal::from_json};

    use super::*;

    fn json(ty: &CqlType, value: &[u8]) -> String {
        let mut out = Vec::new();
        write_json(ty, value, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn list(element: CqlType) -> CqlType {
        CqlType::List { element: Arc::new(element), frozen: true }
    }

    #[test]
    fn printed_json_values_are_read_back() {
        let map = CqlType::Map {
            key: Arc::new(CqlType::Int),
            value: Arc::new(list(CqlType::Text)),
            frozen: true,
        };
        let definition = UserType {
            keyspace: "k".into(),
            name: "t".into(),
            fields: vec![("a".into(), CqlType::Int), ("B".into(), CqlType::Text)],
        };
        let user = CqlType::UserDefined { definition: Arc::new(definition), frozen: true };
        for (ty, text) in [
            (CqlType::Int, "-5"),
            (CqlType::Int, "\"\""),
            (CqlType::Bigint, "-9223372036854775808"),
            (CqlType::Boolean, "true"),
            (CqlType::Text, "\"a\\\"\\nü\""),
            (CqlType::Blob, "\"0x00ff\""),
            (CqlType::Blob, "\"0x\""),
            (CqlType::Double, "1.5"),
            (CqlType::Double, "\"NaN\""),
            (CqlType::Float, "\"-Infinity\""),
            (CqlType::Varint, "123456789012345678901234567890"),
            (CqlType::Decimal, "-1.230"),
            (CqlType::Date, "\"2024-02-29\""),
            (CqlType::Time, "\"01:02:03.000000004\""),
            (CqlType::Inet, "\"127.0.0.1\""),
            (CqlType::Uuid, "\"01234567-89ab-cdef-0011-223344556677\""),
            (list(CqlType::Int), "[1,2,3]"),
            (list(CqlType::Int), "[]"),
            (map, "{\"1\":[\"x\"],\"2\":[]}"),
            (CqlType::Tuple([CqlType::Int, CqlType::Text].into()), "[1,null]"),
            (user, "{\"a\":1,\"\\\"B\\\"\":null}"),
            (CqlType::Vector { element: Arc::new(CqlType::Float), dimension: 2 }, "[1.0,-2.5]"),
        ] {
            let value = from_json(&ty, text).unwrap().unwrap();
            assert_eq!(json(&ty, &value), text);
        }
    }

    #[test]
    fn timestamps_are_those_of_the_general_printer() {
        for millis in [
            0,
            1,
            86_399_987,
            1_700_000_012_345,
            951_782_399_999,
            951_782_400_000,
            FIVE_DIGIT_YEAR_MS - 1,
            -1,
            i64::MAX,
        ] {
            let value = millis.to_be_bytes();
            let expected = to_json(&CqlType::Timestamp, &value);
            assert_eq!(json(&CqlType::Timestamp, &value), expected);
        }
    }

    #[test]
    fn floats_are_those_of_the_general_printer() {
        let mut numbers =
            vec![0.0, -0.0, 1e-3, 0.00099999, 1e7, 9999999.5, 1.0 / 3.0, 5e-324, 1e300];
        (0..3000).for_each(|i| numbers.extend([f64::from(i) / 100.0, -f64::from(i * 37) / 1e6]));
        (0..3000).for_each(|i| numbers.extend([f64::from(i) * 0.1, 1e7 - f64::from(i) / 64.0]));
        (0..64).for_each(|i| numbers.extend([1.7f64.powi(i), -(1.3f64.powi(-i))]));
        for number in numbers {
            let value = number.to_be_bytes();
            assert_eq!(json(&CqlType::Double, &value), to_json(&CqlType::Double, &value));
            let value = (number as f32).to_be_bytes();
            if (number as f32).is_finite() {
                assert_eq!(json(&CqlType::Float, &value), to_json(&CqlType::Float, &value));
            }
        }
    }

    #[test]
    fn invalid_values_are_printed_as_blobs() {
        assert_eq!(json(&CqlType::Int, &[1, 2]), "\"0x0102\"");
        assert_eq!(json(&CqlType::Text, &[0xFF]), "\"0xff\"");
        assert_eq!(json(&list(CqlType::Int), &[0, 0, 0, 9]), "\"0x00000009\"");
    }
}
