//! `espalier sstable write` and `convert`: what is written is what is read.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{run, said, written_by_cassandra};

const SCHEMA: &str = "CREATE TYPE pair (a int, b text);
    CREATE TABLE t (id int, at int, s text static, v text, tags set<text>, m map<int, text>, l list<int>,
        p pair, f frozen<list<int>>, d double, PRIMARY KEY (id, at)) WITH CLUSTERING ORDER BY (at DESC);";

struct Written {
    directory: tempfile::TempDir,
}

impl Written {
    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes `rows` from a file of that name.
    fn new(name: &str, rows: &str, arguments: &[&str]) -> Self {
        let written = Self { directory: tempfile::tempdir().unwrap() };
        fs::write(written.path("schema.cql"), SCHEMA).unwrap();
        fs::write(written.path(name), rows).unwrap();
        let (schema, input, output) =
            (written.path("schema.cql"), written.path(name), written.path("out"));
        let line =
            ["sstable", "write", "--schema", &schema, "--input", &input, "--output", &output];
        said(&[&line, arguments].concat());
        assert!(said(&["sstable", "verify", &output]).contains(": ok, "));
        written
    }

    fn rows(&self) -> Vec<Value> {
        let (output, schema) = (self.path("out"), self.path("schema.cql"));
        let text = said(&["sstable", "dump", "--schema", &schema, &output]);
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.filter(|line: &Value| line["kind"] != "partition").collect()
    }
}

#[test]
fn json_lines_become_rows() {
    let rows = r#"
{"id": 1, "at": 2, "v": "two \"2\"", "tags": ["b", "a"], "m": {"2": "y", "1": "x"}, "l": [3, 1], "p": {"a": 1, "b": null}, "f": [1], "d": 0.5, "s": "one"}
{"id": 1, "at": 3, "v": null, "$ts": 77, "$ttl": 60}

{"ID": 1, "at": 2, "v": "later", "$ts": 5000}
{"id": 1, "at": 2, "v": "earlier", "$ts": 100}
{"id": 2, "s": "only static"}"#;
    let rows = Written::new("rows.jsonl", rows, &["--timestamp", "1000"]).rows();
    // 1 comes before 2 by its token.
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert_eq!(rows[0]["values"], json!({"s": "one"}));
    assert_eq!(rows[1]["clustering"], json!({"at": 3}));
    assert_eq!((&rows[1]["live"]["ts"], &rows[1]["live"]["ttl"]), (&json!(77), &json!(60)));
    assert_eq!(rows[1].get("values"), None);
    let expected = json!({
        "v": "later", "tags": ["a", "b"], "m": {"1": "x", "2": "y"}, "l": [3, 1], "p": {"a": 1}, "f": [1], "d": 0.5
    });
    assert_eq!(rows[2]["values"], expected);
    assert_eq!(rows[2]["live"], json!({"ts": 5000}));
    assert_eq!(rows[2]["cells"]["d"], json!({"ts": 1000}));
    assert_eq!(rows[2]["cells"]["m"]["deleted"]["ts"], json!(999));
    assert_eq!(rows[3]["key"], json!({"id": 2}));
}

#[test]
fn csv_becomes_rows() {
    let rows =
        "id,at,v,tags,f\r\n1,1,\"a,\"\"b\"\"\nc\",\"[\"\"x\"\"]\",\n2,1,,,\"[1,2]\"\n3,1,\"\",,";
    let rows = Written::new("rows.csv", rows, &["--timestamp", "1000"]).rows();
    let values = |id: i64| {
        let row = rows.iter().find(|row| row["key"]["id"] == id).unwrap();
        row.get("values").cloned()
    };
    assert_eq!(values(1), Some(json!({"v": "a,\"b\"\nc", "tags": ["x"]})));
    assert_eq!(values(2), Some(json!({"f": [1, 2]})));
    assert_eq!(values(3), Some(json!({"v": ""})));
}

#[test]
fn rows_that_do_not_fit_in_memory_are_sorted_all_the_same() {
    let filler = "x".repeat(500);
    let mut text = String::new();
    for number in 0..6000u64 {
        // Every row twice, far apart; the later one wins.
        let (row, ts) = (number % 3000, number);
        let (id, at) = (row * 7919 % 100, row / 100);
        text += &format!("{{\"id\":{id},\"at\":{at},\"v\":\"{ts} {filler}\",\"$ts\":{ts}}}\n");
    }
    let written = Written::new("rows.jsonl", &text, &["--sort-memory", "1"]);
    let rows = written.rows();
    assert_eq!(rows.len(), 3000);
    assert!(rows.iter().all(|row| row["live"]["ts"].as_u64() >= Some(3000)));
    let mut names = fs::read_dir(written.path("out")).unwrap();
    assert!(names.all(|entry| !entry.unwrap().path().is_dir()), "runs are left");
}

#[test]
fn wrong_rows_are_named_by_their_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("schema.cql"), SCHEMA).unwrap();
    for (name, rows, place, complaint) in [
        ("a.jsonl", "{\"id\":1,\"at\":1}\n{\"id\":1}", ":2: ", "'at' is part of the key"),
        ("b.jsonl", "\n\n{\"id\":1,\"at\":1,\"x\":1}", ":3: ", "no column 'x', only id, at, s, "),
        ("c.jsonl", "{\"id\":\"one\",\"at\":1}", ":1: ", "id: "),
        ("d.jsonl", "[]", ":1: ", "expected an object"),
        ("e.csv", "id,at\n1,1\n1", ":3: ", "1 fields, and the header has 2"),
        ("f.csv", "id,at\n\"\n\n1", ":2: ", "never closed"),
        ("g.jsonl", "{\"id\":1,\"at\":1,\"$ttl\":-1}", ":1: ", "$ttl"),
    ] {
        fs::write(path(name), rows).unwrap();
        let (schema, input, output) = (path("schema.cql"), path(name), path("out"));
        let line =
            ["sstable", "write", "--schema", &schema, "--input", &input, "--output", &output];
        let failed = run(&line);
        let text = String::from_utf8(failed.stderr).unwrap();
        assert_eq!(failed.status.code(), Some(1), "{name}");
        assert!(text.contains(&format!("{input}{place}")) && text.contains(complaint), "{text}");
        assert!(
            run(&["sstable", "stats", &output]).stdout.is_empty(),
            "{name}: something was left"
        );
    }
}

#[test]
fn a_conversion_keeps_every_line() {
    for case in
        ["collections", "ttls", "static_columns", "wide_range_tombstones", "counters", "udts"]
    {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().to_str().unwrap();
        let source = written_by_cassandra(case);
        let line = ["sstable", "convert", &source, "--to", "da", "--output", output];
        said(&[&line[..], &["--compression", "zstd", "--chunk-length-in-kb", "4"]].concat());
        assert!(said(&["sstable", "verify", output]).lines().all(|line| line.contains(": ok, ")));
        let dump = |path: &str| said(&["sstable", "dump", "--raw", "--full-values", path]);
        assert_eq!(dump(&source), dump(output), "{case}");
        let stats = said(&["sstable", "stats", "--json", output]);
        assert!(stats.contains("\"class\":\"ZstdCompressor\""), "{stats}");
    }
}

#[test]
fn a_conversion_never_writes_where_it_reads() {
    let source = written_by_cassandra("ttls");
    let output = run(&["sstable", "convert", &source, "--to", "da", "--output", &source]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--output must be another directory"), "{text}");
    let output = run(&["sstable", "convert", &source, "--to", "zz", "--output", "/nowhere"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("'zz' is no version that can be written: da"), "{text}");
}
