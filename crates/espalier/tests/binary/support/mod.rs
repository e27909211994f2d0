//! Runs the espalier binary as a process.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub fn espalier(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_espalier"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Runs the binary to its end.
pub fn run(arguments: &[&str]) -> Output {
    espalier(arguments).output().unwrap()
}

/// Runs the binary, which must fail. Returns its one line on standard error.
pub fn refused(arguments: &[&str]) -> String {
    let output = run(&[arguments, &["--log", "error"]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(output.stdout, b"");
    said.trim_end().to_owned()
}

/// Runs the binary, which must succeed and report nothing. Returns its standard output.
pub fn said(arguments: &[&str]) -> String {
    let output = run(arguments);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && complaint.is_empty(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the directory of a test case that Cassandra wrote.
pub fn written_by_cassandra(case: &str) -> String {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sstables/da");
    all.join(case).to_str().unwrap().to_owned()
}

/// Copies a test case, so that the test may damage it.
pub fn copied(case: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_to(case, copy.path());
    copy
}

/// Copies a test case to a directory, which is created.
pub fn copy_to(case: &str, directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    for entry in fs::read_dir(written_by_cassandra(case)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
    }
}

/// Runs the binary. Returns exit code, standard output and standard error.
pub fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A running node. Dropping the value kills the node.
pub struct Serving {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    pub ready: String,
}

impl Serving {
    /// Starts a small node and waits for its first line.
    pub fn start(directory: &Path, arguments: &[&str]) -> Self {
        let directory = directory.to_str().unwrap();
        let small = ["--workdir", directory, "--smp", "2", "--memory", "64M", "--log", "error"];
        let mut command = espalier(&[&small, arguments].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        output.read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready"), "{ready}");
        Self { child, output, ready }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the CQL port of the ready line.
    pub fn port(&self) -> u16 {
        let address = self.ready.split("CQL on ").nth(1).unwrap().split(',').next().unwrap();
        address.rsplit(':').next().unwrap().parse().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the node. Returns its exit status and the rest of its output.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap(), rest)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
