//! Checks that SSTables of ScyllaDB's tests (some of them made by Cassandra 3) hold the content
//! that Cassandra's `sstabledump` printed, and that all versions of one case hold the same content.
//! Files that the tool refuses to print are in `scylla_rules.rs`.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use support::{
    block_on, content, dump, read_text,
    scylla::{BROKEN, open_as_it_is, readable_sstables, scylla_root},
    sstabledump::assert_same_as_sstabledump,
};

#[test]
fn content_is_that_of_sstabledump() {
    let sstables = readable_sstables();
    let mut compared = 0;
    for (folder, descriptor) in &sstables {
        let reported = scylla_root().join("expected-cassandra-5.0.9").join(folder);
        let Some(text) = read_text(&reported.join(format!("{descriptor}.json"))) else { continue };
        let name = format!("{folder}/{descriptor}");
        let reader = block_on(open_as_it_is(descriptor, None)).unwrap();
        let content = block_on(content(&reader)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_same_as_sstabledump(&name, &reader.table(), &content, &text);
        compared += 1;
    }
    println!("{compared} of {} compared with sstabledump", sstables.len());
    // Two of the printed SSTables must be rejected; all others are compared.
    assert!(sstables.is_empty() || compared == 51, "{compared}");
    assert!(
        BROKEN.contains(&"empty_index") && BROKEN.contains(&"3.x/uncompressed/random_partitioner")
    );
}

/// The data of the older versions was written anew for `me`, so the timestamps of the versions
/// agree only in their order.
#[test]
fn all_versions_of_a_case_hold_the_same() {
    let mut by_case: BTreeMap<(String, String), Vec<_>> = BTreeMap::new();
    for (folder, descriptor) in readable_sstables() {
        let case = (folder, descriptor.id.to_string());
        by_case.entry(case).or_default().push(descriptor);
    }
    let mut compared = BTreeMap::<String, usize>::new();
    for ((folder, _), descriptors) in by_case {
        let all: Vec<_> = descriptors
            .iter()
            .map(|descriptor| {
                let reader = open_as_it_is(descriptor, None);
                block_on(async { dump(&reader.await?).await }).unwrap()
            })
            .collect();
        let mut equal = descriptors.iter().zip(&all).skip(1).zip(&all);
        for ((descriptor, lines), before) in &mut equal {
            let version = descriptor.version.to_string();
            if version == "me" {
                let (lines, before) = (with_ranks(lines), with_ranks(before));
                assert_eq!(lines, before, "{folder}: {version}");
            } else {
                assert_eq!(lines, before, "{folder}: {version}");
            }
            *compared.entry(version).or_default() += 1;
        }
    }
    println!("equal to the version before: {compared:?}");
    if !compared.is_empty() {
        assert_eq!((compared["ms"], compared["mt"]), (5, 6));
    }
}

/// Parses lines, replaces each timestamp by its rank among all, and removes deletion times.
fn with_ranks(lines: &[String]) -> Vec<Value> {
    let mut lines: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut timestamps = BTreeSet::new();
    for line in &mut lines {
        visit_timestamps(line, &mut |timestamp| {
            timestamps.insert(timestamp);
            timestamp
        });
    }
    for line in &mut lines {
        visit_timestamps(line, &mut |timestamp| timestamps.range(..timestamp).count() as i64);
    }
    lines
}

fn visit_timestamps(value: &mut Value, visit: &mut impl FnMut(i64) -> i64) {
    match value {
        Value::Object(fields) => {
            fields.remove("ldt");
            for (name, field) in fields {
                match field.as_i64().filter(|_| name == "ts") {
                    Some(timestamp) => *field = visit(timestamp).into(),
                    None => visit_timestamps(field, visit),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit_timestamps(item, visit)),
        _ => {}
    }
}
