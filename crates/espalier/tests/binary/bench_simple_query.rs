//! Small runs of `espalier bench simple-query`: its reads, its counts, and refused arguments.

use std::fs;

use crate::support::{run, said};
use serde_json::Value;

/// Runs three iterations of 3000 operations on each shard. Returns the JSON and the text.
fn measured(arguments: &[&str]) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (workdir, json) = (path("work"), path("report.json"));
    let mut all = vec!["bench", "simple-query", "--partitions=2000", "--duration=3"];
    all.extend(["--operations-per-shard=3000", "--memory=64M"]);
    all.extend(["--workdir", &workdir, "--json-result", &json]);
    all.extend(arguments);
    let text = said(&all);
    assert!(!fs::exists(&workdir).unwrap(), "nothing is left behind");
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let iterations = report["iterations"].as_array().unwrap();
    assert_eq!(iterations.len(), 3);
    for iteration in iterations {
        assert!(iteration["tps"].as_f64().unwrap() > 0.0);
    }
    assert!(report["stats"]["min tps"].as_f64() <= report["stats"]["median tps"].as_f64());
    assert!(report["stats"]["median tps"].as_f64() <= report["stats"]["max tps"].as_f64());
    (report, text)
}

fn least(report: &Value, name: &str) -> f64 {
    let values = report["iterations"].as_array().unwrap().iter();
    values.map(|iteration| iteration[name].as_f64().unwrap()).fold(f64::MAX, f64::min)
}

#[test]
fn cached_pages_are_not_read_again() {
    for (format, compression) in [("da", "none"), ("da", "lz4"), ("oa", "lz4"), ("me", "none")] {
        let (report, text) = measured(&[
            &format!("--sstable-format={format}"),
            &format!("--compression={compression}"),
        ]);
        assert_eq!(report["iterations"][0]["operations"], 3000);
        assert_eq!(least(&report, "page_reads_per_op"), 0.0, "{text}");
        assert!(least(&report, "page_hits_per_op") >= 2.0, "{text}");
        assert!(least(&report, "allocs_per_op") < 1.0, "a row in memory takes none: {text}");
        for line in ["median ", "median absolute deviation: ", "maximum: ", "minimum: "] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{line} in {text}");
        }
    }
}

#[test]
fn uncached_pages_are_read_each_time() {
    for (argument, format) in
        [("--bypass-cache", "da"), ("--enable-index-cache=0", "oa"), ("--file-cache-size=0", "oa")]
    {
        let format = format!("--sstable-format={format}");
        // Concurrent readers would share the reads of these few pages.
        let (report, text) = measured(&[argument, format.as_str(), "--concurrency=1"]);
        assert!(least(&report, "page_reads_per_op") >= 1.0, "{argument} {text}");
    }
}

#[test]
fn cached_rows_need_no_page() {
    let (report, text) = measured(&["--enable-cache=1"]);
    assert_eq!(report["parameters"]["enable_cache"], true);
    // Each of three iterations makes 3000 reads of 2000 partitions, so the last one finds most rows
    // in the cache.
    let iterations = report["iterations"].as_array().unwrap();
    let last = iterations.last().unwrap();
    assert!(last["page_hits_per_op"].as_f64().unwrap() < 1.0, "{text}");
}

#[test]
fn other_things_are_measured_too() {
    let (report, _) = measured(&["--write"]);
    assert_eq!(report["parameters"]["write"], true);
    measured(&["--absent", "--columns=1", "--value-bytes=8"]);
    measured(&["--flush=0", "--concurrency=3"]);
    measured(&["--sstable-format=oa", "--sstable-summary-ratio=0.01"]);
    let (report, _) = measured(&["--smp=2"]);
    assert_eq!(report["iterations"][0]["operations"], 6000);
}

#[test]
fn an_existing_workdir_is_refused_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().to_str().unwrap();
    let output = run(&["bench", "simple-query", "--workdir", here]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("exists"), "{text}");
    assert!(fs::exists(directory.path()).unwrap());
}
