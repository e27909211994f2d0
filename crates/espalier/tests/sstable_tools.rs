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

/// A lost table of contents may also be one that is not yet written.
#[test]
fn what_has_no_table_of_contents_is_passed_over_aloud() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for entry in fs::read_dir(written_by_cassandra("ttls")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        fs::copy(entry.path(), directory.path().join(&name)).unwrap();
        if !name.to_str().unwrap().ends_with("TOC.txt") {
            let second = name.to_str().unwrap().replace("da-1-", "da-2-");
            fs::copy(entry.path(), directory.path().join(second)).unwrap();
        }
    }
    let (code, said, complaint) = output(&["sstable", "verify", path]);
    assert_eq!((code, said.lines().count()), (Some(0), 1), "{said}");
    assert!(complaint.contains("da-2-bti: passed over, as it has no TOC.txt"), "{complaint}");
    let (code, said, _) = output(&["sstable", "verify", &format!("{path}/da-2-bti-Data.db")]);
    assert_eq!(code, Some(1));
    assert!(said.contains("TOC.txt: No such file"), "{said}");
}

#[test]
fn one_that_is_damaged_keeps_no_other_from_being_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for entry in fs::read_dir(written_by_cassandra("ttls")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let number =
            |number: u32| directory.path().join(name.replace("-1-", &format!("-{number}-")));
        fs::copy(entry.path(), number(2)).unwrap();
        match name.ends_with("Statistics.db") {
            true => fs::write(number(1), "").unwrap(),
            false => drop(fs::copy(entry.path(), number(1)).unwrap()),
        }
    }
    let converted = format!("{path}/converted");
    let convert = ["sstable", "convert", path, "--to", "nb", "--output", &converted];
    for arguments in [&["sstable", "stats", path][..], &convert] {
        let (code, said, complaint) = output(arguments);
        assert_eq!(code, Some(1));
        assert!(said.contains("da-2-bti"), "{said}");
        let complaints: Vec<_> = complaint.lines().collect();
        assert!(complaints[0].contains("da-1-bti-Statistics.db"), "{complaint}");
        assert_eq!(complaints[1..], ["espalier: 1 of 2 SSTables failed"]);
    }
    assert!(output(&["sstable", "verify", &converted]).1.contains("nb-2-big: ok"));
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
