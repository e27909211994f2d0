//! Data-driven tests: text files of cases, which a reviewer reads as a diff.
//!
//! Cases are separated by blank lines. A case is lines of input (lines that begin with `#` are
//! comments), a line `----`, and lines of output. With `REWRITE=1` in the environment, the test
//! rewrites the outputs; a reviewer reads the diff.

use std::path::{Path, PathBuf};

/// Runs `output` on the input of every case of `testdata/cql/name` and compares.
#[allow(clippy::disallowed_methods)] // A test reads its data as it likes.
pub fn check(name: &str, output: impl Fn(&str) -> String) {
    let path = folder().join(name);
    let text = std::fs::read_to_string(&path).expect("the cases");
    let mut rewritten = Vec::new();
    let mut differences = Vec::new();
    for case in
        text.split("\n\n").map(|case| case.trim_matches('\n')).filter(|case| !case.is_empty())
    {
        let (head, expected) = case.split_once("\n----").unwrap_or((case, ""));
        let input = input(head);
        if input.is_empty() {
            rewritten.push(head.to_owned());
            continue;
        }
        let actual = output(&input);
        if actual != expected.trim_start_matches('\n') {
            differences.push(format!("{input}\nexpected:{expected}\nactual:\n{actual}\n"));
        }
        rewritten.push(format!("{head}\n----\n{actual}"));
    }
    assert!(!rewritten.is_empty(), "{name} has no cases");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, rewritten.join("\n\n") + "\n").expect("to write the cases");
    } else {
        let count = differences.len();
        assert!(differences.is_empty(), "{name}: {count} differ\n{}", differences.join("\n"));
    }
}

/// Returns the inputs of all cases of all files.
#[allow(clippy::disallowed_methods)] // A test reads its data as it likes.
pub fn all_inputs() -> Vec<String> {
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(folder()).expect("the folder of cases") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("the cases");
        let heads = text.split("\n\n").filter_map(|case| case.split_once("\n----"));
        inputs.extend(heads.map(|(head, _)| input(head)));
    }
    assert!(inputs.len() > 100);
    inputs
}

fn input(head: &str) -> String {
    let lines = head.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cql")
}
