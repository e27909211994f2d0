//! `espalier bench`: measures this build on this machine, without sockets.

pub mod arguments;
mod cache;
mod compaction;
mod deletions;
mod index_formats;
mod indexes;
mod machine;
mod memtable;
mod node;
mod progress;
mod scan;
mod simple_query;
mod stalls;
mod vectors;
mod watch;

use std::io::Write as _;

use arguments::BenchCommand;

/// The reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The engine failed.
    #[error(transparent)]
    Storage(#[from] espalier_storage::StorageError),
    /// An SSTable that is used without a node failed.
    #[error(transparent)]
    SSTable(#[from] espalier_sstable::SSTableError),
    /// A statement failed.
    #[error("{0}")]
    Cql(#[from] espalier_cql::Error),
    /// The measurement's directory cannot be used.
    #[error("the directory of the measurement: {0}")]
    Directory(#[from] espalier_runtime::file::FileError),
    /// The measurement's directory exists; it is removed at the end, so it must be new.
    #[error(
        "{} exists: remove it if an interrupted measurement left it, or choose another directory with \
         --workdir",
        .0.display()
    )]
    Exists(std::path::PathBuf),
    /// Standard output cannot be written.
    #[error("the output cannot be written: {0}")]
    Stdout(#[from] std::io::Error),
    /// A report cannot be written.
    #[error("{}: {error}", .path.display())]
    Output {
        /// The report's file.
        path: std::path::PathBuf,
        /// The file system's error.
        error: espalier_runtime::file::FileError,
    },
    /// Another program that is measured for comparison failed.
    #[error("{name}: {reason}")]
    Peer {
        /// The program's name.
        name: &'static str,
        /// The reason why it gave no figures.
        reason: String,
    },
    /// The thread could not be pinned to a processor.
    #[error("--core {core}: {error}")]
    Core {
        /// The processor's number.
        core: usize,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// The threads of the shards could not be started.
    #[error("shards could not be started: {0}")]
    Shards(std::io::Error),
    /// The arguments name something that does not exist, or contradict each other.
    #[error("{0}")]
    Refused(String),
    /// A task held the core for longer than allowed.
    #[error("a task held the core for more than {max_us} us: {what}")]
    TooLong {
        /// The limit, in microseconds.
        max_us: u64,
        /// The work that was done, and how long it held the core.
        what: String,
    },
    /// A figure is on the wrong side of its bound.
    #[error("not met: {0}")]
    NotMet(String),
    /// Rows that were read differ from the rows that were written.
    #[error("{0}")]
    Wrong(String),
}

/// Runs a measurement.
///
/// # Errors
///
/// Fails if the engine, a file operation or another program fails, if an argument cannot be used,
/// if rows that were read differ from those that were written, or if a figure misses a bound.
pub fn run(command: &BenchCommand) -> Result<(), BenchError> {
    match command {
        BenchCommand::Memtable(arguments) => memtable::run(arguments),
        BenchCommand::SimpleQuery(arguments) => simple_query::run(arguments),
        BenchCommand::IndexFormats(arguments) => index_formats::run(arguments),
        BenchCommand::Deletions(arguments) => deletions::run(arguments),
        BenchCommand::Compaction(arguments) => compaction::run(arguments),
        BenchCommand::Cache(arguments) => cache::run(arguments),
        BenchCommand::Scan(arguments) => scan::run(arguments),
        BenchCommand::Vectors(arguments) => vectors::run(arguments),
        BenchCommand::Indexes(arguments) => indexes::run(arguments),
    }
}

/// Prints a line at once.
fn print_line(line: std::fmt::Arguments<'_>) -> Result<(), BenchError> {
    writeln!(std::io::stdout().lock(), "{line}").map_err(BenchError::Stdout)
}
