//! `espalier sstable`: looks at files of tables without a node, whoever wrote them, and makes such files. It never changes
//! what it reads.
//!
//! Memory: a row or so, and a small cache of pages; `write` also sorts in memory, as much as it is told.

pub mod arguments;
mod convert;
mod crew;
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
mod write;

use std::io::ErrorKind;
use std::path::PathBuf;

use espalier_runtime::block_on;
use espalier_sstable::SSTableError;

use crate::admin_client::NodeError;
use arguments::SstableCommand;
use failures::Shortfall;
pub use interrupt::INTERRUPTED;
pub use output::{print_line, tell};
pub use progress::Progress;

/// What went wrong, for people.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A path cannot be used.
    #[error("{}: {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A record of the input cannot be written, or a statement of a schema be used.
    #[error("{}:{line}: {reason}", path.display())]
    Input {
        /// The input.
        path: PathBuf,
        /// Where, from 1.
        line: u64,
        /// Why not.
        reason: String,
    },
    /// An argument cannot be used.
    #[error("--{name}: {reason}")]
    Argument {
        /// Its name without hyphens.
        name: &'static str,
        /// Why not.
        reason: String,
    },
    /// A node does not do what it was asked for.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The schema does not say what is needed.
    #[error("{0}")]
    Schema(String),
    /// An SSTable cannot be read or written.
    #[error(transparent)]
    SSTable(#[from] SSTableError),
    /// Something is wrong with what was looked at.
    #[error("{}", .0.in_words("is damaged", "are damaged"))]
    Damaged(Shortfall),
    /// Some of several could not be dealt with, which was told when it happened.
    #[error("{}", .0.in_words("failed", "failed"))]
    Failed(Shortfall),
    /// A signal came.
    #[error("interrupted; what was not yet complete has been removed")]
    Interrupted,
    /// Ctrl-C would leave half files.
    #[error("signals cannot be caught: {0}")]
    Signals(std::io::Error),
    /// Nobody reads what we print.
    #[error("the output cannot be written: {0}")]
    Output(#[from] std::io::Error),
}

/// Does what was asked for, printing to stdout.
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
        // `| head` has seen enough.
        Err(ToolError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
