//! `espalier sstable`: looks at files of tables without a node, whoever wrote them. It never changes what it reads.
//!
//! Memory: a row or so, and a small cache of pages.

mod dump;
mod paths;
mod verify;

use std::path::PathBuf;

use espalier_runtime::block_on;
use espalier_sstable::SSTableError;

use crate::command_line::SstableCommand;

/// What went wrong, for people. `Found` was printed already.
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
    /// An SSTable cannot be read.
    #[error(transparent)]
    SSTable(#[from] SSTableError),
    /// Something is wrong with what was looked at.
    #[error("{failed} of {looked_at} SSTables are damaged")]
    Damaged {
        /// How many are.
        failed: usize,
        /// Of how many.
        looked_at: usize,
    },
    /// Nobody reads what we print.
    #[error("the output cannot be written: {0}")]
    Output(#[from] std::io::Error),
}

/// Does what was asked for, printing to stdout.
pub fn run(command: &SstableCommand) -> Result<(), ToolError> {
    match command {
        SstableCommand::Verify { paths } => block_on(verify::verify(paths)),
        SstableCommand::Dump { paths, full_values } => block_on(dump::dump(paths, *full_values)),
    }
}
