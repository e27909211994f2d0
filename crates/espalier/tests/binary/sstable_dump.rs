//! `espalier sstable dump`: everything, by key, by slice, and up to a limit.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::support::{espalier, said, written_by_cassandra};

fn lines_of(arguments: &[&str]) -> Vec<serde_json::Value> {
    said(arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_raw_dump_is_all_that_is_stored() {
    let file = written_by_cassandra("wide_range_tombstones") + "/da-1-bti-Data.db";
    let raw = said(&["sstable", "dump", "--raw", &file]);
    assert!(raw.starts_with("{\"kind\":\"partition\",\"key\":\""), "{raw}");
    assert!(raw.lines().any(|line| line.starts_with("{\"kind\":\"marker\"")), "{raw}");
    let readable = said(&["sstable", "dump", &file]);
    assert_eq!(raw.lines().count(), readable.lines().count());
}

#[test]
fn every_line_names_its_partition() {
    let lines = lines_of(&["sstable", "dump", &written_by_cassandra("static_columns")]);
    assert!(lines.iter().all(|line| line["key"].is_object()));
    assert!(lines.iter().any(|line| line["kind"] == "static"));
}

/// Each partition is found by its printed key, and printed as in the full dump.
#[test]
fn dumped_partitions_are_found_by_their_keys() {
    for case in ["timestamps", "kv_one", "deletions_overlapping", "token_collisions"] {
        let file = written_by_cassandra(case) + "/da-1-bti-Data.db";
        let mut all = lines_of(&["sstable", "dump", &file]);
        // A dump by key does not print the partition's position.
        all.iter_mut().for_each(|line| {
            line.as_object_mut().unwrap().remove("position");
        });
        for key in all.iter().filter(|line| line["kind"] == "partition").take(20) {
            let parts: Vec<_> = key["key"].as_object().unwrap().values().cloned().collect();
            let text = match parts.as_slice() {
                [serde_json::Value::String(one)] => one.clone(),
                [one] => one.to_string(),
                several => serde_json::Value::from(several).to_string(),
            };
            let argument = format!("--key={text}");
            let found = lines_of(&["sstable", "dump", &file, &argument]);
            let expected: Vec<_> =
                all.iter().filter(|line| line["key"] == key["key"]).cloned().collect();
            assert_eq!(found, expected, "{case} {text}");
        }
    }
}

#[test]
fn slices_and_limits_cut() {
    let file = written_by_cassandra("wide_range_tombstones") + "/da-1-bti-Data.db";
    let rows = |arguments: &[&str]| -> Vec<serde_json::Value> {
        let all = lines_of(&[&["sstable", "dump", &file], arguments].concat());
        all.into_iter().filter(|line| line["kind"] == "row").collect()
    };
    let all = rows(&[]);
    assert_eq!(rows(&["--limit", "3"]), all[..3]);
    assert_eq!(rows(&["--limit", "0"]).len(), 0);
    let number = |row: &serde_json::Value| {
        row["clustering"].as_object().unwrap().values().next().unwrap().as_i64()
    };
    let Some(middle) = number(&all[all.len() / 2]) else { panic!("{}", all[0]) };
    let name = all[0]["clustering"].as_object().unwrap().keys().next().unwrap().clone();
    let (range, condition) = (format!("{middle}.."), format!("{name} >= {middle}"));
    let expected: Vec<_> = all.iter().filter(|row| number(row) >= Some(middle)).cloned().collect();
    assert!(expected.len() < all.len());
    assert_eq!(rows(&["--slice", &range]), expected);
    assert_eq!(rows(&["--slice", &condition]), expected);
}

#[test]
fn arguments_that_mean_nothing_are_explained() {
    let directory = written_by_cassandra("ttls");
    for (arguments, complaint) in [
        (&["--slice", "nothing = 1"][..], "--slice: "),
        (&["--slice", "v ="], "--slice: "),
        (&["--key", "-x"], "--key: "),
        (&["--schema", "/no/such.cql"], "/no/such.cql: No such file"),
    ] {
        let line = [&["sstable", "dump", directory.as_str()], arguments].concat();
        let output = crate::support::run(&line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text.contains(complaint), "{arguments:?}: {text}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sstables");
    let mut command =
        espalier(&["sstable", "dump", "--raw", "--full-values", all.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(complaint, "");
}
