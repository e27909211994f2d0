//! Tests that values as odd as their types allow cause no panic and no endless loop.

use espalier_types::{CqlType, byte_comparable, decimal, literal, varint};

fn long_number(digits: usize) -> varint::BigInt {
    varint::BigInt::parse_bytes("7".repeat(digits).as_bytes(), 10).unwrap()
}

#[test]
fn decimals_of_many_digits_are_printed() {
    for (digits, scale) in [(65_540, 65_541), (65_540, 65_540), (70_000, 70_005), (10, 70_000)] {
        let value = decimal::encode(&long_number(digits), scale);
        let text = literal::to_text(&CqlType::Decimal, &value);
        assert!(text.len() >= digits, "{digits} {scale}");
        assert_eq!(literal::from_text(&CqlType::Decimal, &text).unwrap(), value);
        let (unscaled, scale) = decimal::decode(&value).unwrap();
        let plain = decimal::to_plain_string(&unscaled, scale, 1_000_000).unwrap();
        assert_eq!(decimal::parse(&plain), Some((unscaled, scale)));
    }
}

#[test]
fn forged_exponents_of_decimals_are_errors() {
    for exponent in [1u64 << 62, (1 << 62) + 1, (1 << 62) - 1, i64::MAX as u64, 1 << 63, u64::MAX] {
        for header in [0xC8u8, 0xB8, 0x48, 0x38] {
            for digit in [0x8Au8, 0x81, 0x7F, 0x76, 0x80] {
                let mut bytes = vec![header];
                bytes.extend_from_slice(&exponent.to_be_bytes());
                bytes.extend_from_slice(&[digit, 0]);
                let _ = byte_comparable::decode(&CqlType::Decimal, &mut &bytes[..]);
            }
        }
    }
}

#[test]
fn huge_vectors_of_empty_elements_are_refused() {
    for name in ["vector<empty, 2147483647>", "vector<vector<empty, 3>, 2147483647>"] {
        let ty = CqlType::parse_cql(name, "ks", &|_| None);
        assert!(ty.is_err(), "{name}");
    }
    let name = "VectorType(EmptyType , 2147483647)";
    assert!(CqlType::parse_marshal(name).is_err());
}

#[test]
fn longer_numbers_than_are_read_in_time_are_refused() {
    let digits = "7".repeat(decimal::MAX_DIGITS);
    assert!(decimal::parse(&digits).is_some());
    assert!(decimal::parse(&format!("{digits}.7")).is_none());
    assert!(literal::from_text(&CqlType::Varint, &format!("{digits}7")).is_err());
}
