//! Small runs of `espalier bench index-formats`: every test, all three forms of output, and refused
//! arguments.

use std::fs;

use crate::support::{run, said};
use serde_json::Value;

struct Report {
    text: String,
    json: Value,
    html: String,
}

fn measured(arguments: &[&str]) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (workdir, json, html) = (path("work"), path("report.json"), path("report.html"));
    let mut all = vec!["bench", "index-formats", "--rows=2000", "--seconds=0.1", "--p99-ms=100"];
    all.extend(["--concurrency=8", "--workdir", &workdir, "--json", &json, "--html", &html]);
    all.extend(arguments);
    let text = said(&all);
    assert!(!fs::exists(&workdir).unwrap(), "nothing is left behind");
    let json = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    Report { text, json, html: fs::read_to_string(&html).unwrap() }
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} of {value}"))
}

#[test]
fn all_tests_are_measured_and_reported_in_all_forms() {
    let report = measured(&[]);
    let tests = report.json["tests"].as_array().unwrap();
    let names: Vec<_> = tests.iter().map(|test| test["test"].as_str().unwrap()).collect();
    assert_eq!(names, ["typical", "key-value", "large-partitions", "long-prefixes"]);
    for test in tests {
        assert!(number(test, "/device_reads_per_s") > 0.0);
        let contenders = test["contenders"].as_array().unwrap();
        for one in contenders {
            assert!(number(one, "/closed_loop/reads") > 0.0, "{one}");
            assert!(number(one, "/files_bytes/Data.db") > number(test, "/memory_bytes"), "{one}");
            assert!(!one["search"].as_array().unwrap().is_empty(), "{one}");
            // Memory is smaller than the data, so the disk is read.
            assert!(number(one, "/closed_loop/data/disk_reads") > 0.0, "{one}");
            let bytes = number(one, "/closed_loop/data/disk_bytes");
            assert!(bytes >= 4096.0 * number(one, "/closed_loop/data/disk_reads"), "{one}");
        }
        let has_trie = |one: &&Value| one["has_trie"] == true;
        assert_eq!(contenders.iter().filter(has_trie).count(), 1);
        let trie = contenders.iter().find(has_trie).unwrap();
        assert!(number(trie, "/files_bytes/Partitions.db") > 0.0);
    }
    for title in ["Test 1: ", "Test 2: ", "Test 3: ", "Test 4: ", "One row of a wide partition"] {
        assert!(report.text.contains(title), "{title} in {}", report.text);
        assert!(report.html.contains(title), "{title} in the page");
    }
    assert!(report.html.matches("<svg").count() >= 9, "drawings");
    for outside in ["http://", "https://", "<script", "<link", "<img"] {
        let found = report.html.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(outside), "{outside} in a file that needs no other");
    }
}

#[test]
fn a_small_block_of_rows_is_read_instead_of_a_large_one() {
    let report = measured(&["--tests=wide-partition"]);
    let figures = report.json["wide_partition"].as_array().unwrap();
    let of = |has_trie: bool, kib: u64| {
        let found = figures.iter().find(|one| {
            one["has_trie"] == has_trie && one["column_index_kib"].as_u64() == Some(kib)
        });
        found.unwrap()
    };
    assert!(number(of(true, 1), "/data_bytes/mean") < number(of(true, 64), "/data_bytes/mean"));
    // The published numbers are upper bounds, because the published partition is larger than this
    // one.
    assert!(number(of(true, 1), "/index_pages/most") <= 5.0, "{figures:?}");
    assert!(number(of(true, 64), "/data_bytes/mean") <= 65_536.0, "{figures:?}");
}

#[test]
fn versions_and_options_that_make_no_sense_are_refused() {
    for (arguments, reason) in [
        (["--legacy=da"], "no version with Index.db"),
        (["--trie=me"], "no version with tries"),
        (["--trie=zz"], "no version with tries"),
        (["--seconds=0"], "must be above 0"),
        (["--memory-percent=-1"], "must be above 0"),
    ] {
        let output = run(&[&["bench", "index-formats"][..], &arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(reason), "{arguments:?}: {text}");
    }
}
