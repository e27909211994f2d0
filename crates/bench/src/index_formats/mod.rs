//! `espalier bench index-formats`: compares legacy indexes with tries, on the same rows with the
//! same memory.
//!
//! The tests are the four of ScyllaDB's published comparison ("How ScyllaDB's Trie-Based Index
//! Delivers Up to 3X More Throughput", appendix), scaled down. For each test, the SSTable writer
//! writes the same rows in each format, and a node of its own reads each format: one shard in this
//! process without sockets, with a page cache that is smaller than the data and has the same size
//! for all formats. A search finds the highest rate at which the 99th percentile stays within its
//! limit.
//! Formats take turns, step by step, so that all of them share the machine's disturbances. Every
//! row that is read is compared with the row that was written. The module `wide` has a further
//! experiment.

mod accesses;
mod arguments;
mod compare;
mod contender;
mod device;
mod figures;
mod files;
mod load;
mod population;
mod published;
mod report;
mod search;
mod wide;

pub use arguments::IndexFormatsArguments;

use espalier_runtime::block_on;
use espalier_runtime::cpu::{allowed_cpus, pin_current_thread};
use espalier_runtime::file::FileSystem;
use espalier_sstable::versions::Version;

use super::BenchError;
use super::machine::Machine;
use super::progress::Progress;
use arguments::Test;
use figures::TestFigure;

/// All figures of a run.
#[derive(Default)]
pub struct Record {
    pub tests: Vec<TestFigure>,
    pub wide: Vec<wide::WideFigure>,
}

/// Measures, prints, and removes all files.
pub fn run(arguments: &IndexFormatsArguments) -> Result<(), BenchError> {
    check(arguments)?;
    let core = arguments.core.or_else(|| allowed_cpus().last().copied()).unwrap_or(0);
    let machine = Machine::this();
    pin_current_thread(core).map_err(|error| BenchError::Core { core, error })?;
    block_on(async {
        let files = FileSystem::real();
        if files.exists(&arguments.workdir).await? {
            return Err(BenchError::Exists(arguments.workdir.clone()));
        }
        files.create_dir_all(&arguments.workdir).await?;
        let mut progress = Progress::new();
        let outcome = Box::pin(measure(arguments, &mut progress)).await;
        progress.clear();
        let removed = files.remove_dir_all(&arguments.workdir).await.map_err(BenchError::from);
        let record = outcome?;
        report::give(&record, &machine, arguments).await?;
        removed
    })
}

fn check(arguments: &IndexFormatsArguments) -> Result<(), BenchError> {
    for (option, name, has_trie) in
        [("--legacy", &arguments.legacy, false), ("--trie", &arguments.trie, true)]
    {
        let features = Version::named(name).filter(|found| found.has_trie_index() == has_trie);
        if features.is_none() {
            let what = if has_trie { "with tries" } else { "with Index.db" };
            return Err(BenchError::Refused(format!("{option} {name}: no version {what}")));
        }
    }
    let is_positive = |value: f64| value.is_finite() && value > 0.0;
    match () {
        () if !is_positive(arguments.seconds) => {
            Err(BenchError::Refused("--seconds must be above 0".into()))
        }
        () if !is_positive(arguments.p99_ms) => {
            Err(BenchError::Refused("--p99-ms must be above 0".into()))
        }
        () if !arguments.memory_percent.is_none_or(is_positive) => {
            Err(BenchError::Refused("--memory-percent must be above 0".into()))
        }
        () => Ok(()),
    }
}

async fn measure(
    arguments: &IndexFormatsArguments,
    progress: &mut Progress,
) -> Result<Record, BenchError> {
    let mut record = Record::default();
    for &test in &arguments.tests {
        match test {
            Test::WidePartition => record.wide = wide::measure(arguments, progress).await?,
            test => record.tests.push(compare::compare(test, arguments, progress).await?),
        }
    }
    Ok(record)
}
