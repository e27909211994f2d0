//! Compares the validation of values with Apache Cassandra 5.0.9.

use crate::support::{Report, lines, unhex};
use espalier_types::CqlType;
use espalier_types::duration::Duration;

#[test]
fn validation_agrees_with_cassandra() {
    let (mut good, mut report) = (0, Report::default());
    for line in lines(include_str!("../../../../testdata/types/validate.txt")) {
        let [marshal, value, verdict] = line.split('|').collect::<Vec<_>>().try_into().unwrap();
        let ty = CqlType::parse_marshal(marshal).unwrap();
        let value = unhex(value);
        let ours = ty.validate(&value);
        if is_stricter_here(&ty, &value) {
            assert!(ours.is_err(), "{line}");
            continue;
        }
        good += usize::from(ours.is_ok());
        report.check(ours.is_ok(), verdict == "ok", &format!("{line}: {ours:?}"));
    }
    assert!(good > 300, "only {good} good values");
    report.finish(1000);
}

/// Returns true if only Espalier refuses the value. Cassandra ignores bytes behind the three parts
/// of a duration, and accepts surrogates, `c0 80` and code points beyond U+10FFFF in texts.
fn is_stricter_here(ty: &CqlType, value: &[u8]) -> bool {
    match ty {
        CqlType::Duration => {
            (3..value.len()).any(|length| Duration::decode(&value[..length]).is_ok())
        }
        CqlType::Text => {
            matches!(
                value,
                [0xED, 0xA0 | 0xB0, 0x80] | [0xC0, 0x80] | [0xF4, 0x90, ..] | [0xF5, ..]
            )
        }
        _ => false,
    }
}

#[test]
fn errors_name_the_type_the_expectation_and_the_place() {
    let message = |ty: &str, value: &[u8]| {
        CqlType::parse_marshal(ty).unwrap().validate(value).unwrap_err().to_string()
    };
    assert_eq!(message("Int32Type", &[1, 2, 3]), "expected 0 or 4 bytes for int, got 3 bytes");
    assert_eq!(
        message("UTF8Type", &[65, 0xFF]),
        "expected UTF-8 for text, got byte ff at offset 1"
    );
    assert_eq!(
        message(
            "MapType(Int32Type,ListType(UTF8Type))",
            &[0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 1, 9]
        ),
        "value 0 of map<int, frozen<list<text>>>: frozen<list<text>> ends too early: expected 4 more bytes, got 1"
    );
    assert_eq!(
        message("ListType(Int32Type)", &[0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 4]),
        "list<int> ends too early: expected 8589934588 more bytes, got 4"
    );
    assert_eq!(
        message("TimeUUIDType", &[0x40; 16]),
        "expected a UUID of version 1 for timeuuid, got version 4"
    );
}
