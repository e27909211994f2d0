//! `espalier sstable`: the meaning of paths, schemas and node addresses.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

use crate::support::{copy_to, output, said, written_by_cassandra};

/// Creates a node's data directory with a table, and a snapshot and a backup of the table. Returns
/// the directory and the table's path.
fn data_directory() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("ks/orders-5a1c395eb41f11e59f22ba0be0483c18");
    for place in ["", "backups", "snapshots/now"] {
        copy_to("kv_one", &table.join(place));
    }
    let table = table.to_str().unwrap().to_owned();
    (directory, table)
}

#[test]
fn snapshots_and_backups_are_looked_at_if_they_are_named() {
    let (directory, table) = data_directory();
    let verified = |path: &str| said(&["sstable", "verify", path]).lines().count();
    for path in [directory.path().to_str().unwrap(), &table] {
        assert_eq!(verified(path), 1, "{path}");
        assert!(said(&["sstable", "verify", path]).starts_with(&format!("{table}/da-1-bti: ok")));
    }
    for place in ["backups", "snapshots", "snapshots/now"] {
        assert_eq!(verified(&format!("{table}/{place}")), 1, "{place}");
    }
    // A keyspace may be called `snapshots`. Snapshots are only below the directory of a table.
    let named_so = directory.path().join("snapshots/t-5a1c395eb41f11e59f22ba0be0483c18");
    copy_to("ttls", &named_so);
    assert_eq!(verified(directory.path().to_str().unwrap()), 2);
}

#[test]
fn a_dump_reports_that_only_snapshots_are_left() {
    let (_directory, table) = data_directory();
    for entry in fs::read_dir(&table).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let (code, _, complaint) = output(&["sstable", "dump", &table]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("but snapshots or backups, which are left out"), "{complaint}");
}

#[test]
fn a_schema_of_other_types_is_refused_with_both() {
    let directory = tempfile::tempdir().unwrap();
    let schema = directory.path().join("schema.cql");
    let schema = schema.to_str().unwrap();
    let wide = written_by_cassandra("wide_range_tombstones");
    let described = said(&["sstable", "stats", "--json", &wide]);
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    let columns = described["columns"].as_array().unwrap();
    let create = |types: &[&str]| {
        let mut names = Vec::new();
        let (mut key, mut clusterings) = (Vec::new(), Vec::new());
        for (index, (column, ty)) in columns.iter().zip(types).enumerate() {
            let name = match column["kind"].as_str().unwrap() {
                "partition_key" => {
                    key.push(format!("c{index}"));
                    format!("c{index}")
                }
                "clustering" => {
                    clusterings.push(format!("c{index}"));
                    format!("c{index}")
                }
                _ => column["name"].as_str().unwrap().to_owned(),
            };
            names.push(format!("{name} {ty}"));
        }
        let key = [vec![format!("({})", key.join(", "))], clusterings].concat();
        format!("CREATE TABLE ks.t ({}, PRIMARY KEY ({}));", names.join(", "), key.join(", "))
    };
    let right: Vec<&str> = columns.iter().map(|column| column["type"].as_str().unwrap()).collect();
    fs::write(schema, create(&right)).unwrap();
    let dump = ["sstable", "dump", "--schema", schema, &wide];
    let expected = said(&dump);
    assert!(expected.contains("\"c0\":"), "{expected}");
    for (index, column) in columns.iter().enumerate() {
        let mut types = right.clone();
        types[index] = "boolean";
        fs::write(schema, create(&types)).unwrap();
        let (code, found, complaint) = output(&dump);
        assert_eq!((code, found.as_str()), (Some(1), ""), "{column}");
        let reported = format!("is boolean in ks.t of the schema, and {} here", right[index]);
        assert!(complaint.contains(&reported), "{complaint}");
        // Beside the files this schema is ignored, because the user did not ask for it.
        let copy = tempfile::tempdir().unwrap();
        copy_to("wide_range_tombstones", copy.path());
        fs::copy(schema, copy.path().join("schema.cql")).unwrap();
        let invented = said(&["sstable", "dump", copy.path().to_str().unwrap()]);
        assert!(invented.contains("\"key\":") && !invented.contains("\"c0\":"), "{invented}");
    }
    // After the files were written, ALTER may have changed columns to these types.
    let altered: Vec<&str> =
        right.iter().map(|&ty| if ty == "text" { "blob" } else { ty }).collect();
    fs::write(schema, create(&altered)).unwrap();
    assert_eq!(said(&dump), expected);
}

#[test]
fn a_node_may_be_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let node = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") {
            assert_eq!(stream.read(&mut byte).unwrap(), 1);
            request.push(byte[0]);
        }
        let body = "{\"sstables\": 1, \"partitions\": 2}";
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    let address = format!("localhost:{port}");
    let directory = written_by_cassandra("kv_one");
    let line = ["sstable", "import", &directory, "--into", "ks.t", "--node", &address];
    assert_eq!(said(&line), "ks.t: 1 SSTables with 2 partitions imported\n");
    let request = node.join().unwrap();
    let head = request.to_ascii_lowercase();
    assert!(head.contains(&format!("\r\nhost: {address}\r\n")), "{request}");

    let (code, _, complaint) =
        output(&["sstable", "import", &directory, "--into", "ks.t", "--node", "localhost:x"]);
    assert_ne!(code, Some(0));
    assert!(complaint.contains("'localhost:x' is not a host and a port"), "{complaint}");
}

/// Two SSTables with the same id and different versions cannot both be converted to a third
/// version. The error names the SSTable that failed.
#[test]
fn a_conversion_names_the_sstable_that_failed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (source, converted) = (path("a"), path("ab"));
    copy_to("kv_one", Path::new(&source));
    said(&["sstable", "convert", &source, "--to", "nb", "--output", &path("nb")]);
    for entry in fs::read_dir(path("nb")).unwrap() {
        let entry = entry.unwrap();
        fs::rename(entry.path(), Path::new(&source).join(entry.file_name())).unwrap();
    }
    let convert = ["sstable", "convert", &source, "--to", "oa", "--output", &converted];
    let (code, reported, complaint) = output(&convert);
    assert_eq!(code, Some(1));
    assert!(
        reported.starts_with(&format!("{source}/da-1-bti -> {converted}/oa-1-big: ")),
        "{reported}"
    );
    assert!(complaint.contains(&format!("{source}/nb-1-big: cannot write ")), "{complaint}");
    assert!(complaint.ends_with("1 of 2 SSTables failed\n"), "{complaint}");
    assert!(
        said(&["sstable", "verify", &converted]).starts_with(&format!("{converted}/oa-1-big: ok"))
    );
}
