//! Checks the decision documents: decision 2 lists all dependencies of the workspace, and the
//! numbers of the documents count up from 1.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_dependency_has_its_line() {
    let manifest = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("[workspace.dependencies]\n").unwrap();
    let section = rest.split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let needed: BTreeSet<&str> = names.filter(|name| !name.starts_with("espalier-")).collect();
    let decision = repository().join("docs/decisions/0002-dependencies.md");
    let decision = fs::read_to_string(decision).unwrap();
    let rows = decision.lines().filter_map(|line| line.strip_prefix("| "));
    let names = rows.filter_map(|row| row.split(" |").next()).flat_map(|name| name.split(", "));
    let described: BTreeSet<&str> =
        names.filter(|name| *name != "crate" && *name != "---").collect();
    assert!(needed.len() > 20);
    assert_eq!(needed, described);
}

#[test]
fn every_decision_is_numbered_once() {
    let files = fs::read_dir(repository().join("docs/decisions")).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for (index, name) in names.iter().enumerate() {
        assert!(name.starts_with(&format!("{:04}-", index + 1)), "{name}");
    }
}
