//! The errors of a commit log. They are cheap to clone, because one failed disk write fails many
//! client writes.

use std::{path::PathBuf, sync::Arc};

use espalier_runtime::file::FileError;

/// A failed operation of the commit log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitLogError {
    /// The mutation is larger than half a segment, or does not fit into a segment together with its
    /// column mappings.
    #[error("a mutation of {bytes} bytes or more is larger than the maximum of {maximum} bytes")]
    MutationTooLarge {
        /// Length of the mutation in the commit log, in bytes. The encoder does not count the rows
        /// after the one that exceeds the maximum.
        bytes: usize,
        /// Maximum length, in bytes.
        maximum: usize,
    },
    /// The commit log could not be written or synced, or has no segment to write to. The write may
    /// or may not survive, and later writes fail too until the disk works again.
    #[error("the commit log cannot be written: {0}")]
    Write(Arc<FileError>),
    /// Damage in the commit log that loses acknowledged writes, or a segment of an unknown version.
    #[error("commit log {path} is corrupt at offset {offset}: {reason}")]
    Corrupt {
        /// Path of the segment.
        path: PathBuf,
        /// Position in the segment, in bytes.
        offset: u64,
        /// Description of the damage.
        reason: String,
    },
    /// A damaged file of discarded intervals.
    #[error(
        "{}: not a valid discarded-intervals file; to start, remove it or set \
         commit_failure_policy: ignore; rows that compactions purged lately may then reappear from \
         the commit log",
        .0.display()
    )]
    DiscardedIntervals(PathBuf),
    /// A file operation failed.
    #[error("{0}")]
    File(Arc<FileError>),
    /// The log is closing, because the database shuts down.
    #[error("the database is shutting down")]
    ShuttingDown,
}

impl From<FileError> for CommitLogError {
    fn from(error: FileError) -> Self {
        Self::File(Arc::new(error))
    }
}
