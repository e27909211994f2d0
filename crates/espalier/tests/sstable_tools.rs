//! `espalier sstable` on files that Cassandra wrote.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use std::fs;

use support::{run, written_by_cassandra};

fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn sound_files_verify() {
    let directory = written_by_cassandra("ttls");
    let (code, said, _) = output(&["sstable", "verify", &directory]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.lines().all(|line| line.contains(": ok, ")) && !said.is_empty(), "{said}");
}

#[test]
fn one_flipped_bit_is_found() {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(written_by_cassandra("wide_range_tombstones")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let data = copy.path().join("da-1-bti-Data.db");
    let mut bytes = fs::read(&data).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&data, bytes).unwrap();
    let (code, said, complaint) = output(&["sstable", "verify", data.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(said.contains("da-1-bti: DAMAGED") && said.contains("Data.db"), "{said}");
    assert_eq!(complaint, "espalier: 1 of 1 SSTables are damaged\n");
}

#[test]
fn what_is_no_sstable_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().to_str().unwrap();
    let (code, _, complaint) = output(&["sstable", "verify", empty]);
    assert_eq!(code, Some(1));
    assert_eq!(complaint, format!("espalier: {empty}: there is no SSTable in it or below\n"));
    let (code, _, complaint) = output(&["sstable", "dump", "/no/such/da-1-bti-Data.db"]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("/no/such/da-1-bti-Data.db: No such file"), "{complaint}");
}
