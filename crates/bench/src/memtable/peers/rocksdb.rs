//! Measures RocksDB with db_bench: its skip-list memtable without a log and without flushes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::BenchError;
use crate::memtable::raw::{KEY_BYTES, VALUE_BYTES};
use crate::watch::{Lap, Round};

/// Puts and gets a second of db_bench 7.8 in an earlier run on two cores of a virtual machine. The
/// settings of that run are not on record.
const STORED: (u64, u64) = (390_000, 398_000);

/// Finds db_bench: at the given path, else in the search path.
pub fn find(reported: Option<&Path>) -> Option<PathBuf> {
    if let Some(reported) = reported {
        return Some(reported.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join("db_bench")).find(|at| at.is_file())
}

/// Returns the note for a run without db_bench.
pub fn stored_figures() -> String {
    format!(
        "db_bench is not in PATH and was not named with --db-bench, so RocksDB was not measured in \
         this run; an earlier run on such \
         a machine gave {} puts and {} gets a second",
        STORED.0, STORED.1
    )
}

/// The figures of a run.
pub struct Figures {
    /// The puts.
    pub put: Round,
    /// The gets.
    pub get: Round,
    /// db_bench's warning about its own figures, such as a slow build.
    pub warning: Option<String>,
}

/// Runs puts and gets.
pub fn run(
    program: &Path,
    directory: &Path,
    entries: u64,
    reads: u64,
) -> Result<Figures, BenchError> {
    let failed = |reason: String| BenchError::Peer { name: "db_bench", reason };
    let output = Command::new(program)
        .args([
            "--benchmarks=filluniquerandom,readrandom",
            "--threads=1",
            "--memtablerep=skip_list",
        ])
        .args(["--disable_wal=1", "--compression_type=none", "--use_existing_db=0"])
        // A write buffer of 64 GiB is never full, so nothing is flushed.
        .args(["--write_buffer_size=68719476736", "--db_write_buffer_size=0"])
        .arg(format!("--num={entries}"))
        .arg(format!("--reads={reads}"))
        .arg(format!("--key_size={KEY_BYTES}"))
        .arg(format!("--value_size={VALUE_BYTES}"))
        .arg(format!("--db={}", directory.display()))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| failed(format!("{}: {error}", program.display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        return Err(failed(format!("{}: {last}", output.status)));
    }
    let line = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.ok_or_else(|| failed(format!("its output has no figure of {name}")))
    };
    let (put, get) = (line("filluniquerandom")?, line("readrandom")?);
    if !get.contains(&format!("({reads} of {reads} found)")) {
        return Err(failed(format!("it did not find what it wrote: {get}")));
    }
    let round = |line: &str, operations| {
        micros(line)
            .map(|each_us| Round {
                operations,
                lap: Lap {
                    clock: Duration::from_secs_f64(each_us * operations as f64 / 1e6),
                    core: Duration::ZERO,
                },
            })
            .ok_or_else(|| failed(format!("cannot parse its line: {line}")))
    };
    let warning = text.lines().find_map(|line| line.strip_prefix("WARNING: ")).map(str::to_owned);
    Ok(Figures { put: round(put, entries)?, get: round(get, reads)?, warning })
}

/// Returns the µs of an operation from `name : 2.564 micros/op 390000 ops/sec ...`, computed from
/// the operations a second, because that number is more exact.
fn micros(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "ops/sec" || *word == "ops/sec;")?;
    let per_s: f64 = words.get(at.checked_sub(1)?)?.parse().ok()?;
    (per_s > 0.0).then(|| 1e6 / per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_versions_are_understood() {
        let old = "fillrandom   :       2.564 micros/op 390015 ops/sec;   43.1 MB/s";
        let new = "readrandom   :       2.512 micros/op 398089 ops/sec 2.512 seconds 1000000 \
                   operations;   44.0 MB/s (1000000 of 1000000 found)";
        assert_eq!(micros(old), Some(1e6 / 390_015.0));
        assert_eq!(micros(new), Some(1e6 / 398_089.0));
        assert_eq!(micros("fillrandom : Not implemented"), None);
        assert_eq!(micros("ops/sec"), None);
    }

    #[test]
    fn a_missing_db_bench_is_an_error_that_names_its_path() {
        let (nowhere, directory) = (Path::new("/nowhere/db_bench"), Path::new("/nowhere"));
        let error = run(nowhere, directory, 1, 1).err().unwrap().to_string();
        assert!(error.starts_with("db_bench: /nowhere/db_bench: "), "{error}");
    }
}
