//! Compares the byte-comparable form with ScyllaDB's vectors (made by Cassandra, some corrected by
//! hand).
//!
//! The vectors lie beside the repository, in `shared/fixtures`. Without the vectors, these tests
//! print a line and pass.

use std::path::Path;

use crate::support::{Report, hex, unhex};
use espalier_types::CqlType;
use espalier_types::byte_comparable::{
    GT_NEXT, LT_NEXT, TERMINATOR, encode_clustering, encode_component,
};
use espalier_types::literal::{Json, from_json, from_text, parse_json};

#[allow(clippy::disallowed_methods)]
fn fixture(name: &str) -> Option<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/fixtures/scylla/vectors")
        .join(name);
    let found = std::fs::read(path).ok();
    if found.is_none() {
        println!("skipped: shared/fixtures/scylla/vectors/{name} is absent");
    }
    found
}

#[test]
fn byte_comparable_forms_agree_with_the_fixture() {
    let Some(file) = fixture("byte_comparable_types.csv") else { return };
    let text = String::from_utf8(file).unwrap();
    let mut section = None;
    let mut report = Report::default();
    for line in text.split('\n').filter(|line| !line.is_empty()) {
        if line.starts_with("org.apache.cassandra.db.marshal.") {
            section = Some(CqlType::parse_marshal_maybe_reversed(line).unwrap());
            continue;
        }
        let (ty, reversed) = section.as_ref().unwrap();
        let (text, expected) = line.rsplit_once(',').unwrap();
        // Years of more than four digits need a sign here, as in ISO 8601.
        let signed = format!("+{text}");
        let long_year = *ty == CqlType::Date && text.find('-').is_some_and(|digits| digits > 4);
        let text = if long_year { &signed } else { text };
        let nested = ty.is_collection() || matches!(ty, CqlType::Tuple(_) | CqlType::Vector { .. });
        let value =
            if nested { from_json(ty, text).map(Option::unwrap) } else { from_text(ty, text) };
        let value = value.unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut form = Vec::new();
        encode_component(ty, *reversed, Some(&value), &mut form);
        report.check(hex(&form[1..]), expected.to_owned(), line);
    }
    report.finish(1700);
}

#[test]
fn clustering_positions() {
    let Some(file) = fixture("bti_clustering_positions.json") else { return };
    let Json::Array(vectors) = parse_json(std::str::from_utf8(&file).unwrap()).unwrap() else {
        panic!("no array");
    };
    let (mut report, mut deviations) = (Report::default(), 0);
    for vector in &vectors {
        let Json::Object(members) = vector else { panic!("no object: {vector:?}") };
        let member = |name: &str| &members.iter().find(|(key, _)| key == name).unwrap().1;
        let texts = |name: &str| match member(name) {
            Json::Array(items) => items
                .iter()
                .map(|item| match item {
                    Json::String(text) => text.clone(),
                    other => panic!("no text: {other:?}"),
                })
                .collect::<Vec<_>>(),
            other => panic!("no array: {other:?}"),
        };
        let types: Vec<_> = texts("types")
            .iter()
            .map(|ty| CqlType::parse_marshal_maybe_reversed(ty).unwrap())
            .collect();
        let values: Vec<_> = texts("values").iter().map(|value| Some(unhex(value))).collect();
        let terminator = match member("weight").to_string().as_str() {
            "-1" => LT_NEXT,
            "0" => TERMINATOR,
            "1" => GT_NEXT,
            other => panic!("weight {other}"),
        };
        let Json::String(expected) = member("encoded") else { panic!("no encoding") };
        let mut form = Vec::new();
        encode_clustering(&types, &values, terminator, &mut form);
        let ours = hex(&form);
        if ours != *expected && is_scyllas_own(&types, &values, &form, &unhex(expected)) {
            deviations += 1;
            continue;
        }
        report.check(ours, expected.clone(), &format!("{types:?} {values:?}"));
    }
    assert_eq!(deviations, 66, "ScyllaDB's deliberate deviations");
    report.finish(400);
}

/// Returns true if a difference is ScyllaDB's own (docs/formats/byte-comparable.md). ScyllaDB
/// writes `3f` for a nested empty value, where Cassandra writes `3e` as for null, and encodes a
/// zero-byte tuple as a tuple of nulls.
fn is_scyllas_own(
    types: &[(CqlType, bool)],
    values: &[Option<Vec<u8>>],
    ours: &[u8],
    theirs: &[u8],
) -> bool {
    let empty_tuple = types.iter().zip(values).any(|((ty, _), value)| {
        matches!(ty, CqlType::Tuple(_) | CqlType::UserDefined { .. })
            && value.as_ref().is_some_and(Vec::is_empty)
    });
    let nested_empty = ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|pair| {
            pair.0 == pair.1 || matches!(pair, (0x3E, 0x3F)) || matches!(pair, (0xC1, 0xC0))
        });
    empty_tuple || nested_empty
}
