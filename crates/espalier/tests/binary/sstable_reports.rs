//! Output of `espalier sstable stats`, `index` and `verify`.

use std::fs;

use crate::support::{run, said, written_by_cassandra};

#[test]
fn statistics_for_machines_are_those_of_the_content() {
    let directory = written_by_cassandra("static_columns");
    let dump = said(&["sstable", "dump", "--raw", &directory]);
    let count = |kind: &str| dump.matches(&format!("{{\"kind\":\"{kind}\"")).count() as u64;
    let text = said(&["sstable", "stats", "--json", &directory]);
    let all: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum = |name: &str| all.iter().map(|stats| stats[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("partitions"), count("partition"));
    assert_eq!(sum("rows"), count("row") + count("static"));
    for stats in &all {
        assert_eq!(stats["version"], "da");
        assert!(stats["components"]["Data.db"].as_u64().unwrap() > 0);
        let chance = stats["filter"]["chance_expected"].as_f64().unwrap();
        assert!((0.0..0.1).contains(&chance), "{chance}");
    }
}

#[test]
fn statistics_for_people_have_the_columns_with_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let schema = directory.path().join("schema.cql");
    fs::write(&schema, "CREATE TABLE t (who int PRIMARY KEY, v int)").unwrap();
    let file = written_by_cassandra("kv_one");
    let columns = |arguments: &[&str]| {
        let text = said(&[&["sstable", "stats", &file], arguments].concat());
        text.split_once("  columns ").unwrap().1.trim().to_owned()
    };
    assert!(columns(&[]).starts_with("key "));
    let schema = schema.to_str().unwrap();
    assert!(columns(&["--schema", schema]).starts_with("who "));
    let other = written_by_cassandra("wide_range_tombstones");
    let output = run(&["sstable", "stats", "--schema", schema, &other]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("this is another table"));
}

/// Deletions of rows and ranges have no cells, so there may be more deletions than cells.
#[test]
fn droppable_deletions_are_shown_for_each_cell_not_in_percent() {
    let line_of = |case: &str, name: &str| {
        let text = said(&["sstable", "stats", &written_by_cassandra(case), "--gc-grace", "0"]);
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("{name} in {text}")).trim().to_owned()
    };
    let dropped = line_of("wide_range_tombstones", "droppable");
    assert!(dropped.contains(" deletions and expiries (gc grace 0 s), "), "{dropped}");
    assert!(dropped.ends_with(" for each cell") && !dropped.contains('%'), "{dropped}");
    let text = said(&["sstable", "stats", &written_by_cassandra("wide_range_tombstones")]);
    let assumed = "(gc grace 864000 s assumed: give --gc-grace if the table has another), ";
    assert!(text.contains(assumed), "{text}");
    // The rows never expire, and ranges of them were deleted.
    assert!(line_of("wide_range_tombstones", "first deletion, expiry").contains("  20"));
    let last = line_of("wide_range_tombstones", "last deletion, expiry");
    assert!(last.ends_with("none: some of the data never expires"), "{last}");
    assert!(line_of("kv_one", "first deletion, expiry").ends_with(" none"));
    assert!(line_of("kv_one", "last deletion, expiry").ends_with(" none"));
}

#[test]
fn the_index_is_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let drawing = directory.path().join("index.svg");
    let file = written_by_cassandra("wide_range_tombstones") + "/da-1-bti-Data.db";
    let text = said(&["sstable", "index", &file, "--svg", drawing.to_str().unwrap()]);
    for part in ["Partitions.db: ", "Rows.db: ", "PayloadOnly", "pages read by a look-up"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let drawing = fs::read_to_string(drawing).unwrap();
    assert!(drawing.starts_with("<svg ") && drawing.trim_end().ends_with("</svg>"));
    assert!(drawing.contains("<title>page 0: "));
    assert_eq!(drawing.matches("<g>").count(), drawing.matches("</g>").count());
}

#[test]
fn a_drawing_of_two_sstables_is_refused() {
    let output = run(&["sstable", "index", "--svg", "/nowhere.svg", &written_by_cassandra("udts")]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--svg: one drawing shows one SSTable, and 2 are named"), "{text}");
}

#[test]
fn a_quick_verification_sees_checksums_only() {
    let directory = written_by_cassandra("ttls");
    let text = said(&["sstable", "verify", "--quick", &directory]);
    assert!(text.lines().all(|line| line.contains(": ok, checksums only, ")), "{text}");
}
