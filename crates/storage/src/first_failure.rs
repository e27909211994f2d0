//! Collects the outcomes of tasks that run one after another, so that a failure does not stop the
//! following tasks.

use crate::StorageError;

/// The first failure of several tasks, which the caller reports when all are done. Later failures
/// are logged here.
#[derive(Debug)]
pub struct FirstFailure(Result<(), StorageError>);

impl FirstFailure {
    /// Starts without a failure.
    pub fn none() -> Self {
        Self(Ok(()))
    }

    /// Keeps a failure.
    ///
    /// # Errors
    ///
    /// Returns the error if no task should follow: a stop request, or the node shuts down.
    pub fn keep(&mut self, outcome: Result<(), StorageError>) -> Result<(), StorageError> {
        let Err(error) = outcome else { return Ok(()) };
        if ends_all(&error) {
            return Err(error);
        }
        if self.0.is_ok() {
            self.0 = Err(error)
        } else {
            log_unreported(Err(error))
        }
        Ok(())
    }

    /// Returns the first failure that was kept.
    ///
    /// # Errors
    ///
    /// Fails with that failure, if there is one.
    pub fn into_result(mut self) -> Result<(), StorageError> {
        self.take()
    }

    fn take(&mut self) -> Result<(), StorageError> {
        std::mem::replace(&mut self.0, Ok(()))
    }

    /// Joins the outcomes of all shards, each of which is the first failure of its shard. A stop
    /// request comes before any other failure.
    pub(crate) fn of_shards(
        mut outcomes: Vec<Result<(), StorageError>>,
    ) -> Result<(), StorageError> {
        let at = outcomes.iter().position(|outcome| outcome.as_ref().is_err_and(ends_all));
        let at = at.or_else(|| outcomes.iter().position(Result::is_err));
        let reported = at.map_or(Ok(()), |at| outcomes.swap_remove(at));
        outcomes.into_iter().for_each(log_unreported);
        reported
    }
}

impl Drop for FirstFailure {
    fn drop(&mut self) {
        log_unreported(self.take());
    }
}

fn log_unreported(outcome: Result<(), StorageError>) {
    match outcome {
        // A stop request or a shutdown is no failure.
        Err(error) if !ends_all(&error) => {
            tracing::warn!(%error, "further failure, after the one that is reported");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Returns whether an error ends all tasks: a stop request, or the node shuts down.
fn ends_all(error: &StorageError) -> bool {
    matches!(error, StorageError::CompactionStopped(_) | StorageError::ShuttingDown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shutdown_is_reported_before_the_first_failure() {
        let failed = |name: &str| Err(StorageError::UnknownKeyspace(name.to_owned()));
        let mut failure = FirstFailure::none();
        assert!(failure.keep(Ok(())).is_ok());
        assert!(failure.keep(failed("a")).is_ok() && failure.keep(failed("b")).is_ok());
        let stopped = failure.keep(Err(StorageError::ShuttingDown));
        assert!(matches!(stopped, Err(StorageError::ShuttingDown)), "{stopped:?}");
        let reported = failure.into_result();
        assert!(
            matches!(&reported, Err(StorageError::UnknownKeyspace(name)) if name == "a"),
            "{reported:?}"
        );

        let of_all = FirstFailure::of_shards(vec![failed("a"), Err(StorageError::ShuttingDown)]);
        assert!(matches!(of_all, Err(StorageError::ShuttingDown)), "{of_all:?}");
        let of_all = FirstFailure::of_shards(vec![Ok(()), failed("a"), failed("b")]);
        assert!(matches!(&of_all, Err(StorageError::UnknownKeyspace(name)) if name == "a"));
        assert!(FirstFailure::of_shards(vec![Ok(())]).is_ok());
    }
}
