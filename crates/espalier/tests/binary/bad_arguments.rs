//! Refused arguments: the exit code, and an error that says what to do.

use std::fs;

use crate::support::{refused, run};

#[test]
fn errors_in_a_configuration_name_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("node.yaml");
    fs::write(&file, "cluster_name: x\nnative_transport_prot: 1\n").unwrap();
    let said = refused(&["--config", file.to_str().unwrap()]);
    let expected = format!(
        "espalier: {}:2: there is no setting \"native_transport_prot\"; did you mean native_transport_port?",
        file.display()
    );
    assert_eq!(said, expected);
    let said = refused(&["serve", "--config", "/no/such/file.yaml"]);
    assert!(said.contains("/no/such/file.yaml: No such file or directory"), "{said}");
}

#[test]
fn a_workdir_that_cannot_be_created_is_an_error() {
    let said = refused(&["--workdir", "/dev/null/data", "--port", "0"]);
    assert!(said.starts_with("espalier: /dev/null/data cannot be used: "), "{said}");
    assert!(said.ends_with("Not a directory; give a directory with --workdir"), "{said}");
}

#[test]
fn a_workdir_that_is_a_file_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let said = refused(&["--workdir", path, "--port", "0"]);
    assert!(said.starts_with(&format!("espalier: {path} cannot be used: ")), "{said}");
    assert!(said.ends_with("; give a directory with --workdir"), "{said}");
}

#[test]
fn an_address_of_another_machine_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let said = refused(&["--workdir", path, "--host", "192.0.2.1", "--port", "0"]);
    assert!(said.contains("give an address that this machine has"), "{said}");
}

#[test]
fn bad_flags_end_with_the_usual_code() {
    assert_eq!(run(&["--prot", "1"]).status.code(), Some(2));
    assert_eq!(run(&["--log", "=:=,,["]).status.code(), Some(1));
    assert_eq!(
        run(&["--version"]).stdout,
        concat!("espalier ", env!("CARGO_PKG_VERSION"), "\n").as_bytes()
    );
}

/// A script passes an empty name if its variable is not set. Without a name, all snapshots would be
/// removed.
#[test]
fn an_empty_name_of_a_snapshot_is_refused() {
    for arguments in [&["-t", ""][..], &["--tag="], &["-t", "monday", ""]] {
        // No node needs to listen at this address, because the command must fail before it
        // connects.
        let node = ["nodetool", "--node", "127.0.0.1:1", "clearsnapshot"];
        let output = run(&[&node[..], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("a value is required for"), "{arguments:?}: {said}");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_measurement_has_a_directory_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let within = directory.path().join("bench");
    let measure = |path: &std::path::Path| {
        let path = path.to_str().unwrap();
        let small =
            ["--partitions=100", "--reads=100", "--rounds=1", "--keys=random", "--kinds=trie"];
        let skipped = "--skip=dominating,readers,raw,cassandra";
        run(&[&["bench", "memtable", "--workdir", path, skipped][..], &small].concat())
    };
    let output = measure(directory.path());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "exists: remove it if an interrupted measurement left it, or choose another directory with --workdir";
    assert!(said.trim_end().ends_with(expected), "{said}");
    let output = measure(&within);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("read miss"));
    assert!(directory.path().exists() && !within.exists());
    assert_eq!(run(&["bench", "nothing"]).status.code(), Some(2));
}
