//! The reasons why a compaction ends before it has read all its inputs.

use crate::CompactionError;

/// The reason why the merge ended early.
pub(crate) enum Ended {
    Stopped,
    Failed(CompactionError),
}

impl<E: Into<CompactionError>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
