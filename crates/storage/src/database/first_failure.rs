//! Works that follow each other: one that fails does not keep those behind it from their turn.

use crate::StorageError;

/// The failure that is told when all is done, and is logged by who is told. Those that are not told are logged here.
#[derive(Debug)]
pub struct FirstFailure(Result<(), StorageError>);

impl FirstFailure {
    /// Nothing has failed yet.
    pub fn none() -> Self {
        Self(Ok(()))
    }

    /// Keeps a failure; an error if what follows is not wanted any more, either: somebody stopped it, or the node ends.
    pub fn keep(&mut self, outcome: Result<(), StorageError>) -> Result<(), StorageError> {
        let Err(error) = outcome else { return Ok(()) };
        if ends_all(&error) {
            return Err(error);
        }
        match self.0.is_ok() {
            true => self.0 = Err(error),
            false => log_untold(Err(error)),
        }
        Ok(())
    }

    /// The first of those that were kept.
    pub fn told(mut self) -> Result<(), StorageError> {
        self.take()
    }

    fn take(&mut self) -> Result<(), StorageError> {
        std::mem::replace(&mut self.0, Ok(()))
    }

    /// What all shards have come to, each of which has told its own: that somebody stopped one of them before all else.
    pub(super) fn of_shards(
        mut outcomes: Vec<Result<(), StorageError>>,
    ) -> Result<(), StorageError> {
        let at = outcomes.iter().position(|outcome| outcome.as_ref().is_err_and(ends_all));
        let at = at.or_else(|| outcomes.iter().position(Result::is_err));
        let told = at.map_or(Ok(()), |at| outcomes.swap_remove(at));
        outcomes.into_iter().for_each(log_untold);
        told
    }
}

impl Drop for FirstFailure {
    fn drop(&mut self) {
        log_untold(self.take());
    }
}

fn log_untold(outcome: Result<(), StorageError>) {
    match outcome {
        // One that ends all is nothing that has failed.
        Err(error) if !ends_all(&error) => {
            tracing::warn!(%error, "a failure beside the one that is told");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Somebody stopped it, or the node ends.
fn ends_all(error: &StorageError) -> bool {
    matches!(error, StorageError::CompactionStopped(_) | StorageError::ShuttingDown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_it_was_stopped_is_told_before_what_has_failed() {
        let failed = |name: &str| Err(StorageError::UnknownKeyspace(name.to_owned()));
        let mut failure = FirstFailure::none();
        assert!(failure.keep(Ok(())).is_ok());
        assert!(failure.keep(failed("a")).is_ok() && failure.keep(failed("b")).is_ok());
        let stopped = failure.keep(Err(StorageError::ShuttingDown));
        assert!(matches!(stopped, Err(StorageError::ShuttingDown)), "{stopped:?}");
        let told = failure.told();
        assert!(
            matches!(&told, Err(StorageError::UnknownKeyspace(name)) if name == "a"),
            "{told:?}"
        );

        let of_all = FirstFailure::of_shards(vec![failed("a"), Err(StorageError::ShuttingDown)]);
        assert!(matches!(of_all, Err(StorageError::ShuttingDown)), "{of_all:?}");
        let of_all = FirstFailure::of_shards(vec![Ok(()), failed("a"), failed("b")]);
        assert!(matches!(&of_all, Err(StorageError::UnknownKeyspace(name)) if name == "a"));
        assert!(FirstFailure::of_shards(vec![Ok(())]).is_ok());
    }
}
