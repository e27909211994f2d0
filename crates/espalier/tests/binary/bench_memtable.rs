//! Small runs of `espalier bench memtable`: everything but Cassandra is measured, and reported in
//! all three forms. Refused arguments.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{run, said};
use serde_json::Value;

const SHAPES: [&str; 5] = ["random", "sequential", "prefix", "composite", "wide"];
const KINDS: [&str; 4] = ["trie", "skiplist", "sharded_trie", "sharded_skiplist"];

#[test]
fn all_is_measured_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (workdir, json, svg) = (path("work"), path("report.json"), path("drawings"));
    let text = said(&[
        "bench",
        "memtable",
        "--partitions=3000",
        "--reads=1000",
        "--rounds=1",
        "--rows=700",
        "--seconds=0.1",
        "--readers=2",
        "--skip=cassandra",
        &format!("--kinds={}", KINDS.join(",")),
        "--workdir",
        &workdir,
        "--json",
        &json,
        "--svg",
        &svg,
    ]);
    assert!(!fs::exists(&workdir).unwrap());
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();

    let measured: BTreeSet<(String, String, String)> = array(&report["measurements"])
        .iter()
        .map(|measurement| {
            assert!(!array(&measurement["rounds"]).is_empty(), "{measurement}");
            assert!(measurement["best_per_s"].as_f64() >= measurement["median_per_s"].as_f64());
            assert!(measurement["median_per_s"].as_f64().unwrap() > 0.0);
            let name = |name: &str| measurement[name].as_str().unwrap().to_owned();
            (name("keys"), name("of"), name("measure"))
        })
        .collect();
    let has = |keys: &str, kind: &str, measure: &str| {
        let one = (keys.to_owned(), kind.to_owned(), measure.to_owned());
        assert!(measured.contains(&one), "{one:?}");
    };
    for kind in KINDS {
        for shape in SHAPES {
            for measure in
                ["write", "read hit", "read miss", "scan", "slice", "flush", "read SSTable"]
            {
                has(shape, kind, measure);
            }
        }
        has("wide", kind, "slice down");
        for keys in ["0 % in one", "10 % in one", "20 % in one", "50 % in one"] {
            has(keys, kind, "write");
            has(keys, kind, "read hit");
        }
    }
    has("raw", "trie", "raw put");
    has("raw", "trie", "raw get");

    for memory in array(&report["memory"]) {
        let number = |name: &str| memory[name].as_u64().unwrap();
        assert_eq!(number("rows"), 3000);
        assert!(number("structure_bytes") > 3000 && number("content_bytes") > 3000, "{memory}");
        let partitions = if memory["keys"] == "wide" { 5 } else { 3000 };
        assert_eq!(number("partitions"), partitions);
    }
    assert_eq!(array(&report["memory"]).len(), SHAPES.len() * KINDS.len());
    assert_eq!(array(&report["latencies"]).len(), 2 * KINDS.len());
    for latency in array(&report["latencies"]) {
        assert!(latency["reads"].as_u64().unwrap() > 0);
        let p50_us = latency["latency"]["p50_us"].as_f64().unwrap();
        assert!(p50_us > 0.0 && p50_us <= latency["latency"]["max_us"].as_f64().unwrap());
    }
    let ratios: Vec<&str> =
        array(&report["ratios"]).iter().map(|ratio| ratio["what"].as_str().unwrap()).collect();
    for what in [
        "write, random, trie to skiplist",
        "memory per row, random, trie to skiplist",
        "cost of a write, row of a wide partition to small partition, trie",
    ] {
        assert!(ratios.contains(&what), "{what} in {ratios:?}");
        assert!(text.contains(what), "{text}");
    }
    assert!(text.contains("debug build"), "{text}");

    let mut names: Vec<String> = fs::read_dir(&svg)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "flush.svg",
        "latency-of-pages.svg",
        "latency-of-rows.svg",
        "loop-alone.svg",
        "memory.svg",
        "raw-get.svg",
        "raw-put.svg",
        "read-SSTable.svg",
        "read-hit.svg",
        "read-miss.svg",
        "scan.svg",
        "slice-down.svg",
        "slice.svg",
        "write.svg",
    ];
    assert_eq!(names, expected);
    for name in names {
        let drawing = fs::read_to_string(directory.path().join("drawings").join(&name)).unwrap();
        assert_is_well_formed(&name, &drawing);
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{name}: {drawing}");
    }
}

#[test]
fn each_memtable_kind_is_measured_in_each_round() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    said(&[
        "bench",
        "memtable",
        "--partitions=1000",
        "--reads=1500",
        "--rounds=3",
        "--keys=random",
        "--skip=flush,slice,dominating,readers,raw,cassandra",
        "--workdir",
        &path("work"),
        "--json",
        &path("report.json"),
    ]);
    let report: Value =
        serde_json::from_str(&fs::read_to_string(path("report.json")).unwrap()).unwrap();
    let series = array(&report["measurements"]);
    let expected = [("write", 1000), ("read hit", 1500), ("read miss", 1500), ("scan", 1000)];
    for kind in ["trie", "skiplist"] {
        for (measure, operations) in expected {
            let found = series.iter().find(|one| one["of"] == kind && one["measure"] == measure);
            let rounds = array(&found.unwrap()["rounds"]);
            assert_eq!(rounds.len(), 3);
            assert!(rounds.iter().all(|round| round["operations"] == operations), "{rounds:?}");
        }
    }
    let idle = series.iter().find(|one| one["measure"] == "loop alone").unwrap();
    assert_eq!(array(&idle["rounds"]).len(), 6);
    assert_eq!(series.len(), 9);
}

#[test]
fn a_wrong_cassandra_path_and_an_unknown_kind_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let workdir = directory.path().join("work");
    let workdir = workdir.to_str().unwrap();
    let small =
        ["bench", "memtable", "--partitions=10", "--reads=10", "--rounds=1", "--workdir", workdir];
    let nowhere = run(&[&small[..], &["--cassandra", "/nowhere"]].concat());
    let complaint = String::from_utf8(nowhere.stderr).unwrap();
    assert_eq!(complaint, "espalier: Cassandra: there are no jars of Cassandra in /nowhere\n");
    let unknown = run(&[&small[..], &["--kinds", "btree"]].concat());
    assert_eq!(unknown.status.code(), Some(2));
    assert!(!fs::exists(workdir).unwrap());
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// Checks that the tags are closed in order and that the first element encloses all others.
fn assert_is_well_formed(name: &str, document: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = document.trim_end();
    assert!(rest.starts_with("<svg "), "{name}");
    while let Some((before, tag)) = rest.split_once('<') {
        assert!(
            !before.contains('>') && (!open.is_empty() || before.is_empty()),
            "{name}: {before}"
        );
        let (tag, behind) = tag.split_once('>').unwrap();
        assert_eq!(tag.matches('"').count() % 2, 0, "{name}: {tag}");
        let word = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(word), "{name}");
        } else if !tag.ends_with('/') {
            open.push(word);
        }
        rest = behind;
    }
    assert!(open.is_empty() && rest.is_empty(), "{name}: {open:?} {rest}");
}
