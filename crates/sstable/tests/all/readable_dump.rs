//! Checks that the readable dump of Cassandra's files shows the values that Cassandra prints.

use crate::support;

use std::collections::BTreeMap;
use std::sync::Arc;

use espalier_mutation::{ClusteringSlices, KeyRange, UnfilteredStream};
use espalier_sstable::{ColumnSelection, SSTableError, SSTableReader, dump::ReadableDump};
use espalier_types::literal::{Json, parse_json};
use serde_json::Value;
use support::{block_on, cases_of_run, open};

/// Parses a line. Numbers that a double cannot hold become text.
fn parse(line: &str) -> Value {
    fn convert(json: Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(value),
            Json::Number(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            Json::String(text) => Value::String(text),
            Json::Array(items) => items.into_iter().map(convert).collect(),
            Json::Object(members) => {
                members.into_iter().map(|(name, value)| (name, convert(value))).collect()
            }
        }
    }
    convert(parse_json(line).unwrap())
}

async fn lines(reader: &SSTableReader) -> Result<Vec<Value>, SSTableError> {
    let mut dump = ReadableDump::new(reader.table(), true);
    let mut text = Vec::new();
    let everything = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), everything, &ColumnSelection::All).await?;
    while let Some(mut partition) = scan.next_partition().await? {
        dump.write_header(partition.header(), None, &mut text);
        while let Some(unfiltered) = partition.next().await? {
            dump.write_unfiltered(&unfiltered, &mut text);
        }
    }
    let text = String::from_utf8(text).unwrap();
    Ok(text.lines().map(parse).collect())
}

/// Returns the values of an object or of an array, in order.
fn parts(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(members) => members.values().collect(),
        Value::Array(items) => items.iter().collect(),
        Value::Null => Vec::new(),
        other => panic!("{other}"),
    }
}

/// Compares a value with Cassandra's print of it. Cassandra prints NaN and the infinities as null,
/// and prints a float with more digits than necessary.
fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::String(word), Value::Null) => ["NaN", "Infinity", "-Infinity"].contains(&&word[..]),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(o, t)| is_same(o, t))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .zip(theirs)
                    .all(|((o, ours), (t, theirs))| o == t && is_same(ours, theirs))
        }
        (Value::Number(ours), Value::Number(theirs)) => {
            let (ours, theirs) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
            ours == theirs || (ours as f32) == (theirs as f32)
        }
        // Before the year 1, Cassandra prints the year of the era, which cannot be parsed back.
        (Value::String(ours), Value::String(theirs)) if ours.starts_with('-') => {
            ours == theirs
                || ours[1..].split_once('-').map(|d| d.1)
                    == theirs[1..].split_once('-').map(|d| d.1)
        }
        _ => ours == theirs,
    }
}

fn compare(name: &str, ours: &Value, theirs: &Value, compared: &mut usize) {
    assert_eq!(ours["kind"], theirs["kind"], "{name}");
    let mut same = |what: &str, ours: &Value, theirs: &Value| {
        assert!(is_same(ours, theirs), "{name} {what}: {ours} is not {theirs}");
        *compared += 1;
    };
    // Some cases have no tokens.
    if let Some(token) = theirs.get("token") {
        same("token", &ours["token"], token);
    }
    for field in ["bound", "deleted", "live", "closes", "opens"] {
        same(field, &ours[field], &theirs[field]);
    }
    if theirs["kind"] == "partition" {
        for (ours, theirs) in parts(&ours["key"]).into_iter().zip(parts(&theirs["pk"])) {
            same("key", ours, theirs);
        }
    }
    let mut by_column: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for cell in parts(&theirs["cells"]) {
        let cells = by_column.entry(cell["n"].as_str().unwrap()).or_default();
        cells.push(cell);
    }
    for (column, cells) in by_column {
        // Names with upper case keep their CQL quotes.
        let quoted = format!("\"{column}\"");
        let column = if column.to_lowercase() == column { column } else { quoted.as_str() };
        let value = &ours["values"][column];
        match cells.as_slice() {
            [cell] if cell.get("p").is_none() && cell.get("deleted").is_none() => {
                if cell.get("dead").is_some() {
                    assert_eq!(ours["cells"][column]["dead"], true, "{name} {column}");
                    assert_eq!(value, &Value::Null);
                } else if let Some(count) = cell.get("count") {
                    same(column, value, count);
                } else if let Some(expected) = cell.get("j") {
                    same(column, value, expected);
                }
            }
            cells => {
                let live: Vec<_> = cells
                    .iter()
                    .filter(|cell| cell.get("p").is_some() && cell.get("dead").is_none())
                    .collect();
                assert_eq!(parts(value).len(), live.len(), "{name} {column}");
                // Elements of sets are paths, and elements of lists are values. Objects have
                // another order here and are not compared.
                if let Value::Array(items) = value {
                    let is_set = live.iter().all(|cell| cell["v"] == "");
                    for (item, cell) in items.iter().zip(live) {
                        let expected = if is_set { cell.get("pj") } else { cell.get("j") };
                        expected.into_iter().for_each(|expected| same(column, item, expected));
                    }
                }
            }
        }
    }
}

#[test]
fn values_are_those_that_cassandra_prints() {
    let mut compared = 0;
    for case in cases_of_run() {
        for descriptor in &case.sstables {
            let reader = block_on(open(descriptor)).unwrap();
            let ours = block_on(lines(&reader)).unwrap();
            let theirs = case.expected_of(descriptor);
            let name = format!("{} {descriptor}", case.name);
            assert_eq!(ours.len(), theirs.lines().count(), "{name}");
            for (number, (ours, theirs)) in ours.iter().zip(theirs.lines()).enumerate() {
                let theirs = parse(theirs);
                let name = format!("{name}:{}", number + 1);
                compare(&name, ours, &theirs, &mut compared);
            }
        }
    }
    println!("{compared} values compared");
    assert!(compared > 1000);
}
