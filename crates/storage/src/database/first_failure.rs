//! Works that follow each other: one that fails does not keep those behind it from their turn.

use crate::StorageError;

/// The failure that is told when all is done.
pub(super) struct FirstFailure(Result<(), StorageError>);

impl FirstFailure {
    pub(super) fn none() -> Self {
        Self(Ok(()))
    }

    /// Keeps a failure; an error if what follows is not wanted any more, either.
    pub(super) fn keep(&mut self, outcome: Result<(), StorageError>) -> Result<(), StorageError> {
        if let Err(StorageError::CompactionStopped(_) | StorageError::ShuttingDown) = outcome {
            return outcome;
        }
        if self.0.is_ok() {
            self.0 = outcome;
        }
        Ok(())
    }

    pub(super) fn told(self) -> Result<(), StorageError> {
        self.0
    }
}
