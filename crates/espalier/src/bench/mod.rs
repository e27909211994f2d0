//! `espalier bench`: measures this build on this machine, without sockets between.

pub mod arguments;
mod cache;
mod compaction;
mod deletions;
mod index_formats;
mod machine;
mod memtable;
mod node;
mod progress;
mod simple_query;
mod watch;

use arguments::BenchCommand;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The engine.
    #[error(transparent)]
    Storage(#[from] espalier_storage::StorageError),
    /// Files without a node.
    #[error(transparent)]
    SSTable(#[from] espalier_sstable::SSTableError),
    /// A statement.
    #[error("{0}")]
    Cql(#[from] espalier_cql::Error),
    /// The directory of the measurement.
    #[error("the directory of the measurement: {0}")]
    Directory(#[from] espalier_runtime::file::FileError),
    /// The directory would be removed in the end.
    #[error(
        "{} exists: remove it if a measurement that was interrupted has left it, or give this one another with --workdir",
        .0.display()
    )]
    Exists(std::path::PathBuf),
    /// Nobody takes what we print.
    #[error("the output cannot be written: {0}")]
    Stdout(#[from] std::io::Error),
    /// A report.
    #[error("{}: {error}", .path.display())]
    Output {
        /// Where it was to go.
        path: std::path::PathBuf,
        /// Why it did not.
        error: espalier_runtime::file::FileError,
    },
    /// Another program.
    #[error("{name}: {reason}")]
    Peer {
        /// Which.
        name: &'static str,
        /// Why there is nothing from it.
        reason: String,
    },
    /// The thread could not be kept on a processor.
    #[error("--core {core}: {error}")]
    Core {
        /// Which.
        core: usize,
        /// Why not.
        error: std::io::Error,
    },
    /// Its threads could not be started.
    #[error("shards could not be started: {0}")]
    Shards(std::io::Error),
    /// What was asked for does not exist or makes no sense.
    #[error("{0}")]
    Refused(String),
    /// Tasks held the core for longer than they may.
    #[error("a task held the core for more than {most_us} us: {what}")]
    TooLong {
        /// What is allowed.
        most_us: u64,
        /// What was done, and how long it was.
        what: String,
    },
    /// A figure is on the wrong side of its bound.
    #[error("not met: {0}")]
    NotMet(String),
    /// What was read is not what was written.
    #[error("{0}")]
    Wrong(String),
}

/// Runs a measurement.
pub fn run(command: &BenchCommand) -> Result<(), BenchError> {
    match command {
        BenchCommand::Memtable(arguments) => memtable::run(arguments),
        BenchCommand::SimpleQuery(arguments) => simple_query::run(arguments),
        BenchCommand::IndexFormats(arguments) => index_formats::run(arguments),
        BenchCommand::Deletions(arguments) => deletions::run(arguments),
        BenchCommand::Compaction(arguments) => compaction::run(arguments),
        BenchCommand::Cache(arguments) => cache::run(arguments),
    }
}

/// Prints a line at once.
fn print_line(line: std::fmt::Arguments<'_>) -> Result<(), BenchError> {
    crate::sstable::print_line(line).map_err(BenchError::Stdout)
}
