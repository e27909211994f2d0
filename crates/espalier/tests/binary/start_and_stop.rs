//! A node starts, prints its ready line, and stops. Two nodes never share a directory or a port.

use std::fs;
use std::net::{TcpListener, TcpStream};

use crate::support::{Serving, refused};
use rustix::process::Signal;

const FREE_PORTS: [&str; 4] = ["--port", "0", "--set", "api_port=0"];

#[test]
fn ready_is_the_only_line_and_both_signals_end_it_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = tempfile::tempdir().unwrap();
        let node = Serving::start(directory.path(), &FREE_PORTS);
        TcpStream::connect(("127.0.0.1", node.port())).unwrap();
        node.signal(signal);
        let (status, rest) = node.wait();
        assert_eq!(status.code(), Some(0));
        assert_eq!(rest, "");
    }
}

#[test]
fn a_stopped_node_leaves_no_commit_log_and_keeps_its_id() {
    let directory = tempfile::tempdir().unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let node = Serving::start(directory.path(), &FREE_PORTS);
        node.signal(Signal::TERM);
        node.wait();
        ids.push(fs::read_to_string(directory.path().join("data/host_id")).unwrap());
        let left = fs::read_dir(directory.path().join("commitlog")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["espalier.lock"]);
    }
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn a_restart_writes_no_new_files_when_nothing_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let mut counts = Vec::new();
    // Other runs of this test on the machine have other ports. The kernel gives higher ports to
    // connections.
    let port = (10_000 + std::process::id() % 20_000).to_string();
    for _ in 0..3 {
        let arguments: [&str; 6] =
            ["--port", &port, "--set", "rpc_address=127.0.0.7", "--set", "api_port=0"];
        let node = Serving::start(directory.path(), &arguments);
        node.signal(Signal::TERM);
        node.wait();
        let tables = fs::read_dir(directory.path().join("data/system")).unwrap();
        let files = tables.map(|table| fs::read_dir(table.unwrap().path()).unwrap().count());
        counts.push(files.sum::<usize>());
    }
    assert!(counts[0] > 0);
    assert_eq!(counts, [counts[0]; 3]);
}

#[test]
fn a_directory_has_one_node() {
    let directory = tempfile::tempdir().unwrap();
    let node = Serving::start(directory.path(), &FREE_PORTS);
    let path = directory.path().to_str().unwrap();
    let arguments = ["--workdir", path, "--port", "0", "--set", "api_port=0"];
    let said = refused(&arguments);
    let expected = format!(
        "espalier: {path} is in use by another espalier (process {}); stop that one, or give another directory with --workdir",
        node.id()
    );
    assert_eq!(said, expected);
    // A lock ends with its process, after a kill too.
    drop(node);
    Serving::start(directory.path(), &FREE_PORTS);
}

#[test]
fn a_data_directory_elsewhere_has_one_node_too() {
    let (one, other, data) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = format!("data_file_directories={}", data.path().display());
    let elsewhere = ["--set", &data, "--port", "0", "--set", "api_port=0"];
    let _node = Serving::start(one.path(), &elsewhere);
    let path = other.path().to_str().unwrap();
    let said = refused(&[&["--workdir", path], &elsewhere[..]].concat());
    assert!(said.contains("with --set data_file_directories="), "{said}");
}

#[test]
fn a_taken_port_is_reported_before_the_data_is_opened() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let said = refused(&["--workdir", path, "--port", &port, "--set", "api_port=0"]);
    let expected = format!(
        "espalier: cannot listen on 127.0.0.1:{port} for CQL: Address already in use; stop the program that uses this port, or \
         give another one with --port or --host"
    );
    assert_eq!(said, expected);
    let api = format!("api_port={port}");
    let said = refused(&["--workdir", path, "--port", "0", "--set", &api]);
    assert!(said.contains("the admin API") && said.contains("--set api_port="), "{said}");
    // The directories are made and locked, and nothing in them is opened.
    assert!(!directory.path().join("data/host_id").exists());
}

/// The shards of a node share their port, but a second node must not share it.
#[test]
fn two_nodes_do_not_share_a_port() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let node = Serving::start(one.path(), &FREE_PORTS);
    let port = node.port().to_string();
    let path = other.path().to_str().unwrap();
    let said = refused(&["--workdir", path, "--port", &port, "--set", "api_port=0"]);
    assert!(said.contains("Address already in use"), "{said}");
}
