//! Replays every input of every corpus with the targets that fuzzing calls: no input may panic,
//! take long, or take much memory.
#![allow(clippy::disallowed_methods, reason = "corpora are read before anything runs")]
#![allow(clippy::unwrap_used)]

use std::{path::PathBuf, time::Duration};

use espalier_fuzz_targets::{TARGETS, run};
use espalier_runtime::time::Instant;

/// Maximum time of an input; a fuzzer reports a longer run as a hang.
const MAX_LENGTH: Duration = Duration::from_secs(10);

fn corpora() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

/// One test, because the count of memory is that of the process.
#[test]
fn every_corpus_is_replayed() {
    for target in TARGETS {
        let folder = corpora().join(target.name);
        let entries = std::fs::read_dir(&folder);
        let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        assert!(!paths.is_empty(), "{} has no corpus", target.name);
        for path in &paths {
            let input = std::fs::read(path).unwrap();
            let began = Instant::now();
            let outcome = std::panic::catch_unwind(|| run(target, &input));
            assert!(outcome.is_ok(), "{}", path.display());
            assert!(began.elapsed() < MAX_LENGTH, "{} took {:?}", path.display(), began.elapsed());
        }
        println!("{}: {} inputs", target.name, paths.len());
    }
}

/// Every folder of the corpus belongs to a target: the inputs of another folder would never run.
#[test]
fn every_corpus_has_a_target() {
    for entry in std::fs::read_dir(corpora()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(TARGETS.iter().any(|target| target.name == name), "{name} is no target");
    }
}

/// Each target has its program, and each program its target.
#[test]
fn every_target_has_a_program() {
    let folder = corpora().join("../fuzz_targets");
    let mut programs: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    programs.sort();
    let targets: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(programs, targets);
}
