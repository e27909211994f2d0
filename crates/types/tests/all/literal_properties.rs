//! Tests that a printed value is read back as the same value.

use crate::support::arbitrary::{any_type, scalar, values};
use espalier_types::CqlType;
use espalier_types::literal::{from_json, from_text, parse_json, to_cql_literal, to_json, to_text};
use proptest::prelude::*;

/// Returns the canonical value with the same text as `value`: NaN has one text, and IPv4 has two
/// forms.
fn printable(ty: &CqlType, value: &[u8]) -> Vec<u8> {
    match (ty, value.len()) {
        (CqlType::Float | CqlType::Double, _) if to_text(ty, value) == "NaN" => {
            from_text(ty, "NaN").map(Vec::from).unwrap_or_default()
        }
        (CqlType::Inet, 16) if value.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]) => {
            value[12..].to_vec()
        }
        _ => value.to_vec(),
    }
}

proptest! {
    #![proptest_config(espalier_testing::properties(2000))]

    #[test]
    fn texts_round_trip((ty, values) in values(scalar(), 1)) {
        let text = to_text(&ty, &values[0]);
        let back = from_text(&ty, &text);
        prop_assert_eq!(back.map(Vec::from), Ok(printable(&ty, &values[0])), "{}", text);
    }

    #[test]
    fn json_is_json_and_scalars_round_trip((ty, values) in values(any_type(), 1)) {
        let value = &values[0];
        let json = to_json(&ty, value);
        let parsed = parse_json(&json);
        prop_assert!(parsed.is_ok(), "{} {:?}", json, parsed);
        // JSON has no NaN and no infinity; a zero duration and an empty boolean print as an empty
        // text.
        let lossy = json == "null" || json == "\"\"";
        let nested = ty.is_collection()
            || matches!(ty, CqlType::Tuple(_) | CqlType::UserDefined { .. } | CqlType::Vector { .. });
        if !lossy && !nested {
            let back = from_json(&ty, &json);
            prop_assert_eq!(back, Ok(Some(printable(&ty, value).into())), "{}", json);
        }
    }

    #[test]
    fn printing_random_bytes_does_not_panic(ty in any_type(), bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        to_text(&ty, &bytes);
        to_cql_literal(&ty, &bytes);
        let json = to_json(&ty, &bytes);
        prop_assert!(parse_json(&json).is_ok(), "{}", json);
    }

    #[test]
    fn reading_random_text_is_no_panic(ty in any_type(), text in prop_oneof![
        any::<String>(),
        "[-+0-9:.TZPYMDHSWe a-z]{0,30}",
        "[\\[\\]{}:,\"0-9x]{0,20}",
    ]) {
        if let Ok(value) = from_text(&ty, &text) {
            prop_assert!(ty.validate(&value).is_ok());
        }
        if let Ok(Some(value)) = from_json(&ty, &text) {
            prop_assert!(ty.validate(&value).is_ok());
        }
    }
}

#[test]
fn a_duration_of_zero_is_read_back() {
    let zero = [0; 3];
    for ty in [CqlType::Duration, CqlType::List { element: CqlType::Duration.into(), frozen: true }]
    {
        let value = match &ty {
            CqlType::Duration => zero.to_vec(),
            _ => [&[0, 0, 0, 1, 0, 0, 0, 3][..], &zero].concat(),
        };
        let json = to_json(&ty, &value);
        assert_eq!(from_json(&ty, &json), Ok(Some(value.into())), "{json}");
    }
    assert!(from_text(&CqlType::Duration, "").is_err());
}

#[test]
fn errors_begin_with_cassandras_text() {
    let tuple = CqlType::Tuple([CqlType::Int, CqlType::Text].into());
    for (ty, text, said) in [
        (&CqlType::Int, "x", "Unable to make int from 'x'"),
        (&CqlType::Smallint, "32768", "Unable to make short from '32768'"),
        (&CqlType::Varint, "1.5", "unable to make int from '1.5'"),
        (&CqlType::Uuid, "x", "Unable to make UUID from 'x'"),
        (&CqlType::Inet, "256.1.1.1", "Unable to make inet address from '256.1.1.1'"),
        (&CqlType::Date, "-1", "Unable to make unsigned int (for date) from: '-1'"),
        (&CqlType::Date, "a", "Unable to coerce 'a' to a formatted date (long)"),
        (
            &CqlType::Date,
            "+5881580-07-12",
            "Input date +5881580-07-12 is greater than max supported date +5881580-07-11T00:00Z",
        ),
        (
            &CqlType::Date,
            "-5877641-06-22",
            "Input date -5877641-06-22 is less than min supported date -5877641-06-23T00:00Z",
        ),
        (&CqlType::Duration, "1h1d", "Invalid duration. The hours should be after days"),
        (&CqlType::Duration, "1d1d", "Invalid duration. The days are specified multiple times"),
        (
            &CqlType::Duration,
            "2147483648mo",
            "Invalid duration. The total number of months must be less or equal to 2147483647",
        ),
        (&CqlType::Duration, "1d-1h", "Unable to convert '1d-1h' to a duration"),
        (
            &CqlType::Timeuuid,
            "123e4567-e89b-42d3-a456-426614174000",
            "TimeUUID supports only version 1 UUIDs",
        ),
        (&tuple, "x:a", "Unable to make int from 'x'"),
        (
            &tuple,
            "1:a:b",
            "Invalid tuple literal: too many elements. Type frozen<tuple<int, text>> expects 2 \
             but got 3",
        ),
    ] {
        let error = from_text(ty, text).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
}

#[test]
fn a_tuple_is_read_from_the_texts_of_its_fields() {
    let tuple = CqlType::Tuple([CqlType::Int, CqlType::Text].into());
    for (text, said) in [
        ("1:a", "(1, 'a')"),
        ("@:a", "(null, 'a')"),
        ("1:@", "(1, null)"),
        (r"1:\:\@a", "(1, ':@a')"),
    ] {
        assert_eq!(to_cql_literal(&tuple, &from_text(&tuple, text).unwrap()), said);
    }
    // Cassandra leaves out the fields that the text omits.
    assert_eq!(from_text(&tuple, "1").unwrap(), [0, 0, 0, 4, 0, 0, 0, 1].as_slice());
}

#[test]
fn short_inet_addresses_are_javas() {
    for (text, address) in [
        ("1", [0, 0, 0, 1]),
        ("1.5", [1, 0, 0, 5]),
        ("1.2.65535", [1, 2, 255, 255]),
        ("2147483648", [128, 0, 0, 0]),
        ("01.002.3.4", [1, 2, 3, 4]),
    ] {
        assert_eq!(from_text(&CqlType::Inet, text).unwrap(), address.as_slice(), "{text}");
    }
    for text in ["4294967296", "1.", ".1", "+1", "1.2.65536", "1.2.3.4.5", "localhost"] {
        assert!(from_text(&CqlType::Inet, text).is_err(), "{text}");
    }
}

#[test]
fn text_literals_double_their_quotes() {
    assert_eq!(to_cql_literal(&CqlType::Text, b"it's"), "'it''s'");
}

#[test]
fn blobs_of_every_length_print_all_digits() {
    for length in (0..200).chain([1 << 20]) {
        let blob: Vec<u8> = (0..length).map(|index| (index * 37 % 256) as u8).collect();
        let expected: String = blob.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(to_text(&CqlType::Blob, &blob), expected);
        let json = to_json(&CqlType::Blob, &blob);
        assert_eq!(json, format!("\"0x{expected}\""));
    }
}
