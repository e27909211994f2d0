//! Error messages of `espalier sstable` for mistakes of its user.

use std::fs;

use crate::support::{copied, copy_to, output, said, written_by_cassandra};

/// Runs a command that must fail. Returns its one line on standard error.
fn complaint_of(arguments: &[&str]) -> String {
    let (code, found, complaint) = output(arguments);
    assert_eq!((code, found.as_str()), (Some(1), ""), "{arguments:?}: {complaint}");
    assert_eq!(complaint.lines().count(), 1, "{arguments:?}: {complaint}");
    complaint
}

#[test]
fn an_error_in_a_schema_names_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (schema, rows, written) = (path("schema.cql"), path("rows.jsonl"), path("out"));
    fs::write(&rows, "").unwrap();
    let sstable = written_by_cassandra("kv_one");
    let write = ["sstable", "write", "--schema", &schema, "--input", &rows, "--output", &written];
    for (text, line, reason) in [
        (
            "CREATE TYPE ks.p (a int);\n\nCREATE TABLE ks.t (\n  id int PRIMARY KEY,\n  v nosuch);",
            5,
            "nosuch",
        ),
        ("-- a comment\nCREATE TABLE ks.t (id int PRIMARY KEY, v);", 2, "expected"),
        (
            "CREATE TYPE ks.p (a set<int>);\nCREATE TABLE ks.t (id int PRIMARY KEY, v p);",
            2,
            "frozen<p>",
        ),
    ] {
        fs::write(&schema, text).unwrap();
        for arguments in [&write[..], &["sstable", "dump", "--schema", &schema, &sstable]] {
            let complaint = complaint_of(arguments);
            assert!(complaint.contains(&format!("{schema}:{line}: ")), "{complaint}");
            assert!(complaint.contains(reason), "{complaint}");
        }
    }
    // A warning of cqlsh before the schema is skipped.
    let warning = "WARNING: cqlsh was built against 5.0.2, but this server is 4.1.  All features may not work!\n\n";
    fs::write(&schema, format!("{warning}CREATE TABLE ks.t (name text PRIMARY KEY, v int);"))
        .unwrap();
    assert!(said(&write).contains("nothing was written"));
}

#[test]
fn a_wrong_slice_is_named_and_nothing_else() {
    let file = written_by_cassandra("wide_range_tombstones");
    for slice in ["at =", "nosuch = 1", "= 5", "1 2 3 <", "at > 5 LIMIT 3", "zz..", "x:y:z.."] {
        let complaint = complaint_of(&["sstable", "dump", "--slice", slice, &file]);
        assert!(complaint.starts_with(&format!("espalier: --slice: '{slice}': ")), "{complaint}");
        for leak in ["SELECT", "ALLOW", ".sstable", "line 1"] {
            assert!(!complaint.contains(leak), "{complaint}");
        }
    }
}

#[test]
fn an_unknown_column_in_a_slice_suggests_the_schema_flag() {
    let directory = tempfile::tempdir().unwrap();
    let schema = directory.path().join("schema.cql");
    let schema = schema.to_str().unwrap();
    fs::write(schema, "CREATE TABLE t (id int PRIMARY KEY, v int)").unwrap();
    let file = written_by_cassandra("kv_one");
    let dump = ["sstable", "dump", "--slice", "nosuch = 1", &file];
    let complaint = complaint_of(&dump);
    assert!(complaint.contains("key's columns: --schema FILE gives them)"), "{complaint}");
    let complaint = complaint_of(&[&dump[..], &["--schema", schema]].concat());
    assert!(!complaint.contains("--schema"), "{complaint}");
    assert!(complaint.contains("(this table has no clustering columns)"), "{complaint}");
}

#[test]
fn a_wrong_key_or_slice_is_reported_once_for_all_sstables() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        copy_to("kv_one", &directory.path().join(name));
    }
    let path = directory.path().to_str().unwrap();
    for arguments in [["--key", "3:nope"], ["--slice", "nosuch = 1"]] {
        let complaint = complaint_of(&[&["sstable", "dump", path][..], &arguments].concat());
        assert!(complaint.starts_with(&format!("espalier: {}: ", arguments[0])), "{complaint}");
        assert!(!complaint.contains("no partition"), "{complaint}");
    }
    // A valid key that is not found is no error.
    let (code, found, reported) = output(&["sstable", "dump", path, "--key", "987654321"]);
    assert_eq!((code, found.as_str()), (Some(0), ""), "{reported}");
    assert_eq!(reported, "espalier: no partition of that key is in any of 3 SSTables\n");
    // With two kinds of tables each reason is reported once, and no line says that the key is
    // missing.
    copy_to("wide_range_tombstones", &directory.path().join("d"));
    let (code, _, reported) = output(&["sstable", "dump", path, "--slice", "nosuch = 1"]);
    assert_eq!((code, reported.lines().count()), (Some(1), 3), "{reported}");
    assert!(reported.contains(&format!("{path}/a/da-1-bti and 2 more: --slice: ")), "{reported}");
    assert!(reported.contains(&format!("{path}/d/da-1-bti: --slice: ")), "{reported}");
    assert!(reported.ends_with("espalier: 4 of 4 SSTables failed\n"), "{reported}");
}

#[test]
fn an_invalid_part_of_a_key_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (schema, rows, written) = (path("schema.cql"), path("rows.jsonl"), path("out"));
    fs::write(&schema, "CREATE TABLE ks.t (a int, b int, v int, PRIMARY KEY ((a, b)));").unwrap();
    fs::write(&rows, "{\"a\": 3, \"b\": 4}\n").unwrap();
    said(&["sstable", "write", "--schema", &schema, "--input", &rows, "--output", &written]);
    let dump = |key| output(&["sstable", "dump", &written, "--schema", &schema, "--key", key]);
    let (code, found, _) = dump("3:4");
    assert_eq!((code, found.lines().count()), (Some(0), 2));
    let (code, found, reported) = dump("3:nope");
    assert_eq!((code, found.as_str()), (Some(1), ""));
    assert_eq!(
        reported,
        "espalier: --key: '3:nope': b: Unable to make int from 'nope': expected an integer of 32 bits\n"
    );
    let (code, _, reported) = dump("[3]");
    assert_eq!(code, Some(1));
    assert!(
        reported.contains("'[3]': 1 value where the partition key has 2: a, b; "),
        "{reported}"
    );
    let (code, found, reported) = dump("3:5");
    assert_eq!((code, found.as_str()), (Some(0), ""));
    assert_eq!(reported, "espalier: no partition of that key is in the SSTable\n");
}

#[test]
fn compressions_are_listed_and_chunks_need_one() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().to_str().unwrap();
    let complaint = |arguments: &[&str]| {
        let source = written_by_cassandra("compression_none");
        let convert = ["sstable", "convert", &source, "--to", "da", "--output", to];
        complaint_of(&[&convert[..], arguments].concat())
    };
    let reported = complaint(&["--compression", "gzip"]);
    assert_eq!(
        reported,
        "espalier: --compression: 'gzip' is unknown: give lz4, zstd, snappy, deflate, or none for no compression\n"
    );
    let reported = complaint(&["--chunk-length-in-kb", "4"]);
    assert!(reported.contains("--chunk-length-in-kb: give the compression too"), "{reported}");
    let reported = complaint(&["--chunk-length-in-kb", "3", "--compression", "lz4"]);
    assert!(reported.contains("--chunk-length-in-kb: 3 is not a power of 2"), "{reported}");
}

#[test]
fn a_verification_counts_in_words() {
    let copy = copied("kv_one");
    fs::remove_file(copy.path().join("da-1-bti-TOC.txt")).unwrap();
    let data = copy.path().join("da-1-bti-Data.db");
    let (_, report, _) = output(&["sstable", "verify", data.to_str().unwrap()]);
    assert!(report.contains(", 1 failure, 0 warnings, "), "{report}");
}

/// `verify` compares Statistics.db with the data. In this test, Statistics.db comes from an SSTable
/// with more rows of the partition.
#[test]
fn verification_describes_statistics_that_differ_from_the_data() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (schema, rows) = (path("schema.cql"), path("rows.jsonl"));
    fs::write(&schema, "CREATE TABLE ks.t (id int, at text, v text, PRIMARY KEY (id, at));")
        .unwrap();
    let written = |name: &str, last: u32| {
        let row = |at: u32| format!("{{\"id\": 1, \"at\": \"{at}\", \"v\": \"x\"}}\n");
        fs::write(&rows, (1..=last).map(row).collect::<String>()).unwrap();
        let output = path(name);
        let write = ["sstable", "write", "--schema", &schema, "--input", &rows];
        said(&[&write[..], &["--output", &output, "--timestamp", "1000"]].concat());
        output
    };
    let (few, many) = (written("few", 3), written("many", 9));
    let statistics = |of: &str| format!("{of}/da-1-bti-Statistics.db");
    fs::copy(statistics(&many), statistics(&few)).unwrap();
    let (code, report, _) = output(&["sstable", "verify", &few]);
    assert_eq!(code, Some(0), "{report}");
    for reported in [
        "covered clustering is from ('1') to ('9'), the data makes from ('1') to ('3')\n",
        "total rows is 9, the data makes 3\n",
        "the histogram of cell counts counts 0 up to 3, the data makes 1, and 1 more differs\n",
    ] {
        assert!(report.contains(reported), "{reported} in {report}");
    }
}

#[test]
fn an_sstable_that_was_not_verified_is_not_called_damaged() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["damaged", "lost", "sound"] {
        copy_to("kv_one", &directory.path().join(name));
    }
    let file = |name: &str, component: &str| {
        directory.path().join(name).join(format!("da-1-bti-{component}"))
    };
    fs::remove_file(file("lost", "TOC.txt")).unwrap();
    let mut bytes = fs::read(file("damaged", "Data.db")).unwrap();
    bytes[10] ^= 1;
    fs::write(file("damaged", "Data.db"), bytes).unwrap();
    let (code, report, reported) =
        output(&["sstable", "verify", directory.path().to_str().unwrap()]);
    assert_eq!((code, report.matches("DAMAGED").count()), (Some(1), 1), "{report}");
    let last = "espalier: 1 of 3 SSTables is damaged, 1 of 3 SSTables was not verified\n";
    assert!(reported.ends_with(last), "{reported}");
}

#[test]
fn collections_as_cqlsh_copies_them_come_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (schema, rows, written) = (path("schema.cql"), path("rows.csv"), path("out"));
    fs::write(&schema, "CREATE TABLE ks.t (id int PRIMARY KEY, s set<text>);").unwrap();
    fs::write(&rows, "id,s\n1,\"{'a', 'b'}\"\n").unwrap();
    let write = ["sstable", "write", "--schema", &schema, "--input", &rows, "--output", &written];
    let complaint = complaint_of(&write);
    assert!(complaint.contains(":2: s: ") && complaint.contains("are JSON here"), "{complaint}");
}

#[test]
fn a_dumped_duration_of_zero_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (schema, rows, written) = (path("schema.cql"), path("rows.jsonl"), path("out"));
    fs::write(&schema, "CREATE TABLE ks.t (id int PRIMARY KEY, d duration, l list<duration>);")
        .unwrap();
    let dumped = |row: &str| {
        fs::write(&rows, row).unwrap();
        said(&["sstable", "write", "--schema", &schema, "--input", &rows, "--output", &written]);
        let text = said(&["sstable", "dump", &written, "--schema", &schema]);
        fs::remove_dir_all(&written).unwrap();
        let row: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        row["values"].clone()
    };
    let values = dumped("{\"id\": 1, \"d\": \"0s\", \"l\": [\"0s\", \"1h\"]}\n");
    assert_eq!(values, serde_json::json!({"d": "", "l": ["", "1h"]}));
    assert_eq!(dumped(&format!("{{\"id\": 1, \"d\": \"\", \"l\": {}}}\n", values["l"])), values);
}
