//! Makes values of any type from numbers. Few numbers give few values, so that random histories
//! meet the same rows again. A number gives the same bytes each time, even if a value has several
//! forms (`varint`, `decimal`), because a reader may see any of these.

use std::iter::repeat_n;

use bytes::{BufMut, Bytes};
use espalier_mutation::{DecoratedKey, schema::TableMetadata};
use espalier_types::CqlType;

/// Returns the value of a number. `boolean` has two values, and collections have the same value for
/// some numbers.
pub fn value(column_type: &CqlType, number: i64) -> Bytes {
    let bytes = match column_type {
        CqlType::Int => (number as i32).to_be_bytes().to_vec(),
        CqlType::Bigint | CqlType::Timestamp | CqlType::Counter => number.to_be_bytes().to_vec(),
        CqlType::Time => (number + 1000).to_be_bytes().to_vec(),
        CqlType::Smallint => (number as i16).to_be_bytes().to_vec(),
        CqlType::Tinyint => (number as i8).to_be_bytes().to_vec(),
        CqlType::Double => (number as f64 / 4.0).to_be_bytes().to_vec(),
        CqlType::Float => (number as f32 / 4.0).to_be_bytes().to_vec(),
        CqlType::Date => ((1 << 31) + number).to_be_bytes()[4..].to_vec(),
        CqlType::Boolean => vec![(number & 1) as u8],
        CqlType::Varint => varint(number),
        CqlType::Decimal => {
            let scale = number.rem_euclid(3) as i32;
            let mut bytes = scale.to_be_bytes().to_vec();
            bytes.extend((number * 10_i64.pow(scale as u32)).to_be_bytes());
            bytes
        }
        // The empty value is the lowest.
        CqlType::Text | CqlType::Ascii if number == -2 => Vec::new(),
        CqlType::Text | CqlType::Ascii => format!("t{:03}", number + 2).into_bytes(),
        CqlType::Blob if number == -2 => Vec::new(),
        // Byte-comparable forms escape zeroes.
        CqlType::Blob => {
            let mut bytes = vec![0; number.rem_euclid(3) as usize];
            bytes.extend((number as i32).to_be_bytes());
            bytes
        }
        CqlType::Timeuuid => time_uuid(number),
        CqlType::Uuid if number & 1 == 0 => time_uuid(number),
        CqlType::Uuid => uuid::Builder::from_random_bytes((number as u128).to_be_bytes())
            .into_uuid()
            .into_bytes()
            .to_vec(),
        CqlType::Inet if number & 1 == 0 => (number as u32).to_be_bytes().to_vec(),
        CqlType::Inet => (number as u128).to_be_bytes().to_vec(),
        CqlType::Duration => vec![0, 0, (number.rem_euclid(32) * 2) as u8],
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let elements: Vec<_> =
                (0..number.rem_euclid(3)).map(|at| value(element, number + at)).collect();
            let mut bytes = (elements.len() as i32).to_be_bytes().to_vec();
            elements.iter().for_each(|element| put_element(&mut bytes, element));
            bytes
        }
        CqlType::Map { key, value: element, .. } => {
            let mut bytes = 1_i32.to_be_bytes().to_vec();
            put_element(&mut bytes, &value(key, number));
            put_element(&mut bytes, &value(element, number / 2));
            bytes
        }
        CqlType::Tuple(types) => {
            let mut bytes = Vec::new();
            for (index, element) in types.iter().enumerate() {
                // Some have a null behind the first element.
                if index > 0 && number.rem_euclid(4) == 3 {
                    bytes.put_i32(-1)
                } else {
                    put_element(&mut bytes, &value(element, number))
                }
            }
            bytes
        }
        CqlType::UserDefined { definition, .. } => {
            let mut bytes = Vec::new();
            // Some values lack the last field, as if written before the type had all of its fields.
            let fields = definition.fields.len() - usize::from(number.rem_euclid(4) == 3);
            for field in definition.field_types().take(fields) {
                put_element(&mut bytes, &value(field, number));
            }
            bytes
        }
        CqlType::Vector { element, dimension } => {
            repeat_n(value(element, number), *dimension).flatten().collect()
        }
        CqlType::Empty | CqlType::Composite(_) | CqlType::Custom(_) => {
            panic!("no values of {column_type:?}")
        }
    };
    bytes.into()
}

fn put_element(bytes: &mut Vec<u8>, element: &[u8]) {
    bytes.put_i32(element.len() as i32);
    bytes.extend(element);
}

/// Returns a `varint`. Every third value has a redundant leading byte.
fn varint(number: i64) -> Vec<u8> {
    let all = number.to_be_bytes();
    let is_needed = |at: &usize| i64::from_be_bytes(all) << (8 * at) >> (8 * at) == number;
    let first = (0..8).rev().find(is_needed).unwrap_or(0);
    all[first.saturating_sub(usize::from(number.rem_euclid(3) == 1))..].to_vec()
}

/// Returns a UUID of version 1. Greater numbers give later times, which are not in the order of
/// their bytes.
fn time_uuid(number: i64) -> Vec<u8> {
    let ticks = (0x1_ffff_ff00 + 100 * number) as u64;
    let mut bytes = (ticks as u32).to_be_bytes().to_vec();
    bytes.extend(((ticks >> 32) as u16).to_be_bytes());
    bytes.extend((0x1000 | (ticks >> 48) as u16).to_be_bytes());
    bytes.extend([0x80, 1, 2, 3, 4, 5, 6, 7]);
    bytes
}

/// Returns the key of a partition: `p1` if it is one `blob`.
pub fn partition_key(table: &TableMetadata, number: u64) -> DecoratedKey {
    let key = match table.partition_key_columns() {
        [column] if column.column_type == CqlType::Blob => format!("p{number}").into(),
        [column] => value(&column.column_type, number as i64),
        columns => {
            let mut bytes = Vec::new();
            for column in columns {
                let value = value(&column.column_type, number as i64);
                bytes.put_u16(value.len() as u16);
                bytes.extend(value);
                bytes.push(0);
            }
            bytes.into()
        }
    };
    DecoratedKey::new(key)
}
