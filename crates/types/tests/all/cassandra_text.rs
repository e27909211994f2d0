//! Compares texts, CQL literals and JSON with Apache Cassandra 5.0.9. Each deliberate difference
//! has its entry here.

use std::sync::Arc;

use crate::support::{Report, hex, lines, unescape, unhex};
use espalier_types::literal::{from_json, from_text, to_cql_literal, to_json};
use espalier_types::{CqlType, UserType};

fn parse_cql(text: &str) -> CqlType {
    let fields = vec![("a".to_owned(), CqlType::Int), ("B c".to_owned(), CqlType::Text)];
    let definition = Arc::new(UserType { keyspace: "ks".to_owned(), name: "t".to_owned(), fields });
    CqlType::parse_cql(text, "ks", &|_| Some(definition.clone())).expect("a type")
}

#[test]
fn texts_are_read_as_cassandra_reads_them() {
    let mut report = Report::default();
    let texts = include_str!("../../../../testdata/types/parse.txt");
    let zones = include_str!("../../../../testdata/types/time_zones.txt");
    for line in lines(texts).chain(lines(zones)) {
        let (ty, rest) = line.split_once('|').unwrap();
        let (text, expected) = rest.rsplit_once('|').unwrap();
        let ours = match from_text(&parse_cql(ty), &unescape(text)) {
            Ok(value) if value.is_empty() => "-".to_owned(),
            Ok(value) => hex(&value),
            Err(_) => "bad".to_owned(),
        };
        report.check(ours.as_str(), expected, line);
    }
    report.finish(800);
}

#[test]
fn values_are_printed_as_cassandra_prints_them() {
    let mut report = Report::default();
    for line in lines(include_str!("../../../../testdata/types/print.txt")) {
        let [marshal, value, literal, json] =
            line.split('|').collect::<Vec<_>>().try_into().unwrap();
        let ty = CqlType::parse_marshal(marshal).unwrap();
        let value = unhex(value);
        let [our_literal, our_json] = [to_cql_literal(&ty, &value), to_json(&ty, &value)];
        if literal != "!" && !prints_otherwise(&ty, &value, literal) {
            report.check(our_literal, unescape(literal), line);
        }
        if json != "!" && !prints_otherwise(&ty, &value, json) {
            report.check(our_json, unescape(json), line);
        }
    }
    report.finish(800);
}

/// Returns true if a difference is one of those in the documentation of `literal`.
fn prints_otherwise(ty: &CqlType, value: &[u8], cassandras: &str) -> bool {
    let marshal = ty.marshal_name();
    match ty {
        _ if marshal.ends_with("TimestampType") || marshal.ends_with("DateType") => {
            // Before 0001-01-01 Cassandra prints the year of the era and loses its sign.
            value.try_into().is_ok_and(|bytes| i64::from_be_bytes(bytes) < -62_135_596_800_000)
        }
        CqlType::Duration => value == [0, 0, 0] && cassandras.is_empty(),
        // Java before 19 prints more digits than necessary.
        CqlType::Vector { element, .. } if **element == CqlType::Float => {
            cassandras.contains("1.07894939E17")
        }
        _ => false,
    }
}

#[test]
fn json_is_read_as_cassandra_reads_it() {
    let mut report = Report::default();
    for line in lines(include_str!("../../../../testdata/types/json.txt")) {
        let (ty, rest) = line.split_once('|').unwrap();
        let (text, expected) = rest.rsplit_once('|').unwrap();
        if json_is_read_otherwise(ty, text) {
            continue;
        }
        let ours = match from_json(&parse_cql(ty), text) {
            Ok(None) => "null".to_owned(),
            Ok(Some(value)) if value.is_empty() => "-".to_owned(),
            Ok(Some(value)) => hex(&value),
            Err(_) => "bad".to_owned(),
        };
        report.check(ours.as_str(), expected, line);
    }
    report.finish(90);
}

/// Returns true if Cassandra reads the JSON differently. Cassandra reads decimals through doubles,
/// and refuses timestamps that fit in 32 bits.
fn json_is_read_otherwise(ty: &str, text: &str) -> bool {
    matches!((ty, text), ("decimal", "1.50" | "1e10") | ("timestamp", "0"))
}

#[test]
fn json_keeps_the_digits_of_decimals() {
    let read = |text| hex(&from_json(&CqlType::Decimal, text).unwrap().unwrap());
    assert_eq!(read("1.50"), "000000020096");
    assert_eq!(read("1e10"), "fffffff601");
    assert_eq!(from_json(&CqlType::Int, "null"), Ok(None));
    let ty = parse_cql("frozen<list<int>>");
    assert_eq!(from_json(&ty, "null"), Ok(None));
}

#[test]
fn errors_of_json_name_the_type_that_has_the_part() {
    let error = from_json(&parse_cql("tuple<int, text>"), "[true, \"a\"]").unwrap_err();
    assert!(error.to_string().ends_with("(field 0 of frozen<tuple<int, text>>)"), "{error}");
}
