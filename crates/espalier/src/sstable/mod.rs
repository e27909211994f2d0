//! `espalier sstable`: reads, checks, converts and writes SSTables without a node, including those
//! of Cassandra and ScyllaDB, and imports them into a running node. No command changes its input.
//!
//! Memory bound: a row, some batches of rows and a small page cache; `write` also sorts rows in at
//! most `--sort-memory`.

pub mod arguments;
mod convert;
mod dump;
mod failures;
mod import;
mod index;
mod interrupt;
mod made_directories;
mod output;
mod paths;
mod printer;
mod progress;
mod schema;
mod selection;
mod stats;
mod values;
mod verify;
mod worker_pool;
mod write;

use std::io::ErrorKind;
use std::path::PathBuf;

use espalier_runtime::block_on;
use espalier_sstable::{SSTableError, components::NotAnSSTable};

use crate::admin_client::NodeError;
use arguments::SstableCommand;
use failures::Shortfall;
pub use interrupt::INTERRUPTED;
pub use output::{print_line, report};
pub use progress::Progress;

/// The error of a command, for people.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A path cannot be used.
    #[error("{}: {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A path names a file that is not part of an SSTable. The error names the path.
    #[error(transparent)]
    NotAnSSTable(#[from] NotAnSSTable),
    /// A record of the input cannot be written, or a statement of a schema cannot be used.
    #[error("{}:{line}: {reason}", path.display())]
    Input {
        /// The input.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// The reason.
        reason: String,
    },
    /// An argument cannot be used.
    #[error("--{name}: {reason}")]
    Argument {
        /// The argument's name without hyphens.
        name: &'static str,
        /// The reason.
        reason: String,
    },
    /// A node refused a request, failed, or could not be reached.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The schema lacks information that the command needs.
    #[error("{0}")]
    Schema(String),
    /// An SSTable cannot be read or written.
    #[error(transparent)]
    SSTable(#[from] SSTableError),
    /// Some SSTables are damaged or could not be checked, or some directories could not be listed.
    #[error("{}", .0.in_words("is damaged", "are damaged"))]
    Damaged(Shortfall),
    /// Some of several SSTables failed, or some directories could not be listed. Each failure was
    /// reported when it happened.
    #[error("{}", .0.in_words("failed", "failed"))]
    Failed(Shortfall),
    /// A signal stopped the command.
    #[error("interrupted; incomplete output was removed")]
    Interrupted,
    /// Signals cannot be caught, so that Ctrl-C would leave incomplete files.
    #[error("cannot catch signals: {0}")]
    Signals(std::io::Error),
    /// Standard output cannot be written, because its reader is gone or the disk is full.
    #[error("the output cannot be written: {0}")]
    Output(#[from] std::io::Error),
}

/// Runs the command and prints its result to stdout.
///
/// # Errors
/// Fails if an argument, a path, a schema or an input record cannot be used, if an SSTable is
/// damaged or cannot be read or written, if a node refuses an import or cannot be reached, if the
/// output cannot be written, or if a signal arrives. A closed pipe is not an error.
pub fn run(command: &SstableCommand) -> Result<(), ToolError> {
    let done = block_on(async {
        match command {
            SstableCommand::Verify(arguments) => verify::verify(arguments).await,
            SstableCommand::Dump(arguments) => dump::dump(arguments).await,
            SstableCommand::Stats(arguments) => stats::stats(arguments).await,
            SstableCommand::Index(arguments) => index::index(arguments).await,
            SstableCommand::Convert(arguments) => convert::convert(arguments).await,
            SstableCommand::Write(arguments) => write::write(arguments).await,
            SstableCommand::Import(arguments) => import::import(arguments).await,
        }
    });
    match done {
        // The reader of a pipe, such as `head`, needs no more output.
        Err(ToolError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
