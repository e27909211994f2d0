//! The errors of compactions.

use std::sync::Arc;

use espalier_runtime::file::FileError;
use espalier_sstable::SSTableError;

/// A failed compaction.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CompactionError {
    /// An input cannot be read, or an output cannot be written.
    #[error("{0}")]
    SSTable(#[from] SSTableError),
    /// Another file operation failed.
    #[error("{0}")]
    File(Arc<FileError>),
    /// An input is damaged; the text may name the partition.
    #[error("{0}")]
    Damaged(String),
    /// Inconsistent data on disk or in memory.
    #[error("{what}: {reason}")]
    Corrupt {
        /// The damaged file or structure.
        what: String,
        /// Description of the damage.
        reason: String,
    },
}

impl From<FileError> for CompactionError {
    fn from(error: FileError) -> Self {
        Self::File(Arc::new(error))
    }
}
