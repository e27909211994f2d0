//! Runs a target on files, or on all files of folders, without libFuzzer: `replay TARGET PATH...`.
#![allow(clippy::disallowed_methods, reason = "a tool for developers, without an event loop")]

use std::{
    fs,
    io::{Error, Result},
    path::PathBuf,
};

use espalier_fuzz_targets::{TARGETS, run};
use espalier_runtime::time::Instant;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default();
    let target = TARGETS.iter().find(|target| name == target.name);
    let target = target.ok_or_else(|| Error::other("usage: replay TARGET PATH..."))?;
    let mut waiting: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    let mut failed = 0;
    let mut count = 0;
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path)?.flatten().map(|entry| entry.path()));
            continue;
        }
        let input = fs::read(&path)?;
        let began = Instant::now();
        count += 1;
        if std::panic::catch_unwind(|| run(target, &input)).is_err() {
            println!("{} FAILED", path.display());
            failed += 1;
        } else if began.elapsed().as_millis() > 1000 {
            println!("{} took {:?}", path.display(), began.elapsed());
        }
    }
    println!("{}: {count} inputs, {failed} failed", target.name);
    match failed {
        0 => Ok(()),
        _ => Err(Error::other("a target failed")),
    }
}
