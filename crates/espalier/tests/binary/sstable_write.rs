//! `espalier sstable write` and `convert`: a dump returns the written rows.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::support::{espalier, run, said, written_by_cassandra};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

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

    /// Writes and verifies an SSTable with `rows`, which the command reads from a file called
    /// `name`.
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
    // The token of 1 is less than that of 2.
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

/// Writes rows. Returns the summary of `write` and the line of `verify`, each without the SSTable's
/// name.
fn reports_of(rows: &str) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("schema.cql"), SCHEMA).unwrap();
    fs::write(path("rows.jsonl"), rows).unwrap();
    let (schema, input, output) = (path("schema.cql"), path("rows.jsonl"), path("out"));
    let line = ["sstable", "write", "--schema", &schema, "--input", &input, "--output", &output];
    let more = ["--sort-memory", "1"];
    let reported = |text: String| text.split_once(": ").unwrap().1.to_owned();
    (reported(said(&[&line[..], &more].concat())), reported(said(&["sstable", "verify", &output])))
}

#[test]
fn written_and_merged_rows_are_counted_as_in_a_verification() {
    let row = |at: u64| format!("{{\"id\": 1, \"at\": {at}, \"v\": \"x\"}}\n");
    let (written, verified) = reports_of(&(row(1) + &row(2)));
    assert!(written.starts_with("2 rows in 1 partitions, "), "{written}");
    assert!(verified.starts_with("ok, 1 partitions, 2 rows, 2 cells, "), "{verified}");

    let (written, verified) = reports_of(&(row(1) + &row(2) + &row(1) + &row(1)));
    let expected = "2 rows in 1 partitions of 4 input rows, 2 of which were merged into others of the same key, ";
    assert!(written.starts_with(expected), "{written}");
    assert!(verified.starts_with("ok, 1 partitions, 2 rows, 2 cells, "), "{verified}");

    // A record may contain the static row too, often with the same values as other records.
    let with_static =
        |at: u64| format!("{{\"id\": 1, \"at\": {at}, \"v\": \"x\", \"s\": \"one\"}}\n");
    let (written, verified) = reports_of(&(with_static(1) + &with_static(2)));
    assert!(
        written.starts_with("3 rows (1 static) in 1 partitions of 2 input rows, "),
        "{written}"
    );
    assert!(!written.contains("merged"), "{written}");
    assert!(verified.starts_with("ok, 1 partitions, 3 rows (1 static), 3 cells, "), "{verified}");

    // The number of written rows equals the number of input rows by chance.
    let (written, _) = reports_of(&(with_static(1) + &row(1) + &row(2)));
    let expected = "3 rows (1 static) in 1 partitions of 3 input rows, 1 of which were merged ";
    assert!(written.starts_with(expected), "{written}");

    // Rows are merged across sorted runs on the disk as in memory.
    let filler = "x".repeat(1000);
    let rows = (0..6000)
        .map(|number| format!("{{\"id\": 1, \"at\": {}, \"v\": \"{filler}\"}}\n", number % 3000));
    let (written, _) = reports_of(&rows.collect::<String>());
    let expected = "3000 rows in 1 partitions of 6000 input rows, 3000 of which were merged ";
    assert!(written.starts_with(expected), "{written}");
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

/// A writer that quotes every field cannot express a missing number otherwise.
#[test]
fn a_quoted_field_of_nothing_is_an_empty_text_and_no_number() {
    let rows = "\"id\",\"at\",\"v\",\"d\"\n\"1\",\"1\",\"\",\"\"\n";
    let rows = Written::new("rows.csv", rows, &[]).rows();
    assert_eq!(rows[0]["values"], json!({"v": ""}));
}

#[test]
fn an_expiry_that_a_version_cannot_store_is_refused() {
    let rows = r#"{"id": 1, "at": 1, "v": "x", "$ttl": 630720000}"#;
    let written = Written::new("rows.jsonl", rows, &[]);
    let expiry = written.rows()[0]["live"]["ldt"].as_u64().unwrap();
    assert!(expiry > 1 << 31, "{expiry}");
    for version in ["nb", "me", "mt"] {
        let (from, to) = (written.path("out"), written.path(version));
        let convert = ["sstable", "convert", &from, "--to", version, "--output", &to];
        let output = run(&convert);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(complaint.contains("a cell or row expires at second"), "{complaint}");
        assert!(!fs::exists(&to).unwrap());
        let (schema, input) = (written.path("schema.cql"), written.path("rows.jsonl"));
        let line = ["sstable", "write", "--schema", &schema, "--input", &input];
        let output = run(&[&line[..], &["--output", &to, "--version", version]].concat());
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(complaint.contains("rows.jsonl:1: it would expire"), "{complaint}");
    }
}

#[test]
fn rows_that_do_not_fit_in_memory_are_sorted_all_the_same() {
    let filler = "x".repeat(500);
    let mut text = String::new();
    for number in 0..6000u64 {
        // Every row occurs twice, far apart, and the later one wins.
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

/// Rows without timestamps are INSERTs one after the other, whether they are adjacent or not.
#[test]
fn a_later_row_of_one_key_replaces_its_named_columns() {
    let json = r#"
{"id": 1, "at": 1, "v": "z", "d": 2.5, "p": {"a": 1, "b": "q"}, "s": "t"}
{"id": 1, "at": 1, "l": [9, 8, 7], "tags": ["a"], "m": {"1": "x", "2": "y"}}
{"id": 2, "at": 1, "l": [1]}
{"id": 1, "at": 1, "l": [1, 2], "tags": ["b"], "m": {"2": "a"}, "v": "b", "p": {"a": 0}}
{"id": 1, "s": "s"}"#;
    let csv = "id,at,l,tags,m,v,d,p,s\n\
        1,1,\"[9, 8, 7]\",\"[\"\"a\"\"]\",,z,2.5,,t\n\
        1,1,,,\"{\"\"1\"\": \"\"x\"\"}\",,,\"{\"\"b\"\": \"\"q\"\"}\",\n\
        2,1,[1],,,,,,\n\
        1,1,\"[1, 2]\",\"[\"\"b\"\"]\",\"{\"\"2\"\": \"\"a\"\"}\",b,,\"{\"\"a\"\": 0}\",s\n";
    for (name, text) in [("rows.jsonl", json), ("rows.csv", csv)] {
        let rows = Written::new(name, text, &[]).rows();
        assert_eq!(rows.len(), 3, "{rows:?}");
        assert_eq!(rows[0]["values"], json!({"s": "s"}), "{name}");
        let expected = json!({
            "v": "b", "tags": ["b"], "m": {"2": "a"}, "l": [1, 2], "p": {"a": 0}, "d": 2.5
        });
        assert_eq!(rows[1]["values"], expected, "{name}");
        assert_eq!(rows[2]["values"], json!({"l": [1]}), "{name}");
    }
}

/// Rows with one timestamp are INSERTs with that timestamp. Cassandra keeps the elements of the
/// collections of both rows.
#[test]
fn rows_with_one_timestamp_are_reconciled() {
    let text = r#"
{"id": 1, "at": 1, "l": [9, 8, 7], "tags": ["a"], "m": {"1": "x", "2": "y"}, "v": "z"}
{"id": 1, "at": 1, "l": [1, 2], "tags": ["b"], "m": {"2": "a"}, "v": "b"}"#;
    let dated = text.replace(", \"v\"", ", \"$ts\": 5, \"v\"");
    let expected = json!({
        "v": "z", "tags": ["a", "b"], "m": {"1": "x", "2": "y"}, "l": [9, 8, 7, 1, 2]
    });
    for (text, arguments) in [(text, &["--timestamp", "5"][..]), (&dated, &[])] {
        let rows = Written::new("rows.jsonl", text, arguments).rows();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0]["values"], expected);
    }
}

/// The later row wins, also if the rows of one key are in sorted runs of different levels.
#[test]
fn a_later_row_wins_over_those_in_older_runs() {
    let filler = "x".repeat(100_000);
    let mut text = String::new();
    for number in 0..1400u64 {
        let at = number % 14;
        text += &format!(
            "{{\"id\":1,\"at\":{at},\"v\":\"{filler}\",\"d\":{},\"l\":[{number},1]}}\n",
            1400 - number
        );
    }
    let rows = Written::new("rows.jsonl", &text, &["--sort-memory", "1"]).rows();
    assert_eq!(rows.len(), 14);
    for row in rows {
        let number = 1386 + row["clustering"]["at"].as_u64().unwrap();
        assert_eq!(row["values"]["l"], json!([number, 1]));
        assert_eq!(row["values"]["d"], json!((1400 - number) as f64));
    }
}

#[test]
fn a_last_row_that_fills_the_memory_is_written() {
    let filler = "x".repeat(1_100_000);
    let text: String =
        (0..2).map(|at| format!("{{\"id\":1,\"at\":{at},\"v\":\"{filler}\"}}\n")).collect();
    assert_eq!(Written::new("rows.jsonl", &text, &["--sort-memory", "1"]).rows().len(), 2);
}

/// The sort makes more runs than one merge reads, so it first merges runs into longer ones.
#[test]
fn many_runs_make_one_table() {
    let filler = "x".repeat(100_000);
    let mut text = String::new();
    for number in 0..1600u64 {
        let (id, at) = (number * 7919 % 20, number * 997 % 1600);
        text += &format!("{{\"id\":{id},\"at\":{at},\"v\":\"{number} {filler}\"}}\n");
        text += &format!("{{\"id\":{id},\"s\":\"{number:04}\",\"$ts\":{number}}}\n");
    }
    let written = Written::new("rows.jsonl", &text, &["--sort-memory", "1"]);
    let stats = said(&["sstable", "stats", "--json", &written.path("out")]);
    // The number of rows includes static rows.
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!((&stats["partitions"], &stats["rows"]), (&json!(20), &json!(1620)));
    // The last static row of each partition wins; these rows are the last twenty static rows of the
    // input.
    let rows = written.rows();
    let statics: Vec<_> = rows.iter().filter(|row| row["kind"] == "static").collect();
    assert_eq!(statics.len(), 20);
    assert!(statics.iter().all(|row| row["values"]["s"].as_str() >= Some("1580")));
}

#[test]
fn an_interrupted_write_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("schema.cql"), SCHEMA).unwrap();
    let (schema, output) = (path("schema.cql"), path("out"));
    let line = ["sstable", "write", "--schema", &schema, "--input", "-", "--output", &output];
    let more = ["--sort-memory", "1"];
    let mut command = espalier(&[&line[..], &more].concat());
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let filler = "x".repeat(1000);
    for number in 0..4000 {
        writeln!(input, "{{\"id\":1,\"at\":{number},\"v\":\"{filler}\"}}").unwrap();
    }
    // Waits until a run exists, while the command waits for more input.
    let is_run = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().path().is_dir();
    while !fs::read_dir(path("out")).is_ok_and(|mut entries| entries.any(is_run)) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    drop(input);
    assert_eq!(ended.status.code(), Some(130));
    assert!(String::from_utf8(ended.stderr).unwrap().contains("interrupted"));
    assert!(!fs::exists(&output).unwrap(), "the directory that it made is left");
}

#[test]
fn columns_of_csv_may_be_named_as_in_cql() {
    let rows = "\u{feff}ID,At,\"\"\"v\"\"\"\n1,2,x\n";
    let rows = Written::new("rows.csv", rows, &[]).rows();
    assert_eq!((&rows[0]["key"]["id"], &rows[0]["values"]["v"]), (&json!(1), &json!("x")));
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
        ("h.csv", "id,at,nosuch\n", ":1: ", "no column 'nosuch'"),
        ("i.csv", "id,at,ID\n1,1,1", ":1: ", "'ID' twice"),
        ("g.jsonl", "{\"id\":1,\"at\":1,\"$ttl\":-1}", ":1: ", "$ttl"),
        ("j.jsonl", "{\"id\":1,\"at\":1}\n{\"id\":1,\"at\":1,\"id\":2}", ":2: ", "'id' twice"),
        ("k.jsonl", "{\"id\":1,\"at\":1,\"v\":null,\"V\":\"x\"}", ":1: ", "'v' twice"),
        ("l.jsonl", "{\"id\":1,\"at\":1,\"$ts\":1,\"$ts\":2}", ":1: ", "'$ts' twice"),
        ("m.jsonl", "{\"id\":1,\"at\":1,\"m\":{\"1\":\"x\",\"1\":\"y\"}}", ":1: ", "'1' twice"),
        (
            "n.csv",
            "id,at,m\n1,1,\"{\"\"1\"\":\"\"x\"\",\"\"1\"\":\"\"y\"\"}\"",
            ":2: ",
            "'1' twice",
        ),
    ] {
        fs::write(path(name), rows).unwrap();
        let (schema, input, output) = (path("schema.cql"), path(name), path("out"));
        let line =
            ["sstable", "write", "--schema", &schema, "--input", &input, "--output", &output];
        let failed = run(&line);
        let text = String::from_utf8(failed.stderr).unwrap();
        assert_eq!(failed.status.code(), Some(1), "{name}");
        assert!(text.contains(&format!("{input}{place}")) && text.contains(complaint), "{text}");
        let left = fs::read_dir(&output).map_or(0, |entries| entries.count());
        assert_eq!(left, 0, "{name}: something was left");
    }
}

#[test]
fn an_error_after_a_run_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("schema.cql"), SCHEMA).unwrap();
    let filler = "x".repeat(1000);
    let row = |at: u64| format!("{{\"id\":1,\"at\":{at},\"v\":\"{filler}\"}}\n");
    let rows: String = (0..4000).map(row).collect();
    fs::write(path("rows.jsonl"), rows + "{").unwrap();
    let (schema, input, output) = (path("schema.cql"), path("rows.jsonl"), path("out"));
    let line = ["sstable", "write", "--schema", &schema, "--input", &input, "--output", &output];
    let failed = run(&[&line[..], &["--sort-memory", "1"]].concat());
    assert!(String::from_utf8(failed.stderr).unwrap().contains(":4001: "));
    assert!(!fs::exists(&output).unwrap());
}

#[test]
fn directories_that_were_there_before_stay() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("schema.cql"), SCHEMA).unwrap();
    fs::write(path("rows.jsonl"), "\n").unwrap();
    fs::create_dir(path("import")).unwrap();
    let (schema, input, output) = (path("schema.cql"), path("rows.jsonl"), path("import/ks/t"));
    let line = ["sstable", "write", "--schema", &schema, "--input", &input, "--output", &output];
    assert!(said(&line).contains("nothing was written"));
    assert_eq!(fs::read_dir(path("import")).unwrap().count(), 0);

    let (source, output) = (path("source"), path("import/converted/da"));
    fs::create_dir(&source).unwrap();
    for entry in fs::read_dir(written_by_cassandra("ttls")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), path("source") + "/" + entry.file_name().to_str().unwrap()).unwrap();
    }
    let data = path("source/da-1-bti-Data.db");
    let mut bytes = fs::read(&data).unwrap();
    bytes[10] ^= 1;
    fs::write(&data, bytes).unwrap();
    let failed = run(&["sstable", "convert", &source, "--to", "da", "--output", &output]);
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(fs::read_dir(path("import")).unwrap().count(), 0);
}

#[test]
fn the_version_is_that_of_the_schema_unless_another_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let table = "CREATE TABLE t (id int PRIMARY KEY, v text) WITH sstable_format = 'me'";
    fs::write(path("schema.cql"), table).unwrap();
    fs::write(path("rows.jsonl"), "{\"id\": 1, \"v\": \"x\"}\n").unwrap();
    let (schema, input, output) = (path("schema.cql"), path("rows.jsonl"), path("out"));
    let line = ["sstable", "write", "--schema", &schema, "--input", &input, "--output", &output];
    assert!(said(&line).contains("/out/me-1-big: 1 rows"));
    assert!(said(&[&line[..], &["--version", "nb"]].concat()).contains("/out/nb-2-big: 1 rows"));

    // SSTables of version `me` do not store whether they have partition deletions.
    let stats = |name: &str| {
        let text = said(&["sstable", "stats", &format!("{output}/{name}-Data.db")]);
        let line = text.lines().find(|line| line.contains("partition deletions")).unwrap();
        line.trim().trim_start_matches("partition deletions").trim().to_owned()
    };
    assert_eq!(stats("me-1-big"), "not stored in this version");
    let json = said(&["sstable", "stats", "--json", &format!("{output}/me-1-big-Data.db")]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["has_partition_deletions"], Value::Null);
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
    // Another path to the same directory, and a version whose file names do not exist yet.
    let roundabout = format!("{source}/../ttls/.");
    let output = run(&["sstable", "convert", &source, "--to", "nb", "--output", &roundabout]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--output must be another directory"), "{text}");
    let output = run(&["sstable", "convert", &source, "--to", "zz", "--output", "/nowhere"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("'zz' is not a version that can be written: da"), "{text}");
}
