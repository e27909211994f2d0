//! The time that a statement may wait for its turn. A holder of a turn may be slow, because it
//! reads from the disk or waits for other shards. Without a limit, the statements behind it would
//! be executed long after their clients have given up.

use std::time::Duration;

use espalier_runtime::time::{self, Instant};

use super::Database;
use crate::{
    StorageError, TurnKind,
    turns::{Turn, TurnRows},
};

/// The moment at which a statement gives up waiting for its turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnDeadline {
    kind: TurnKind,
    wait: Duration,
    /// `None` never comes.
    at: Option<Instant>,
}

impl Database {
    /// Returns the deadline of a statement that begins to wait now.
    pub fn turn_deadline(&self, kind: TurnKind) -> TurnDeadline {
        let timeouts = &self.inner.configuration.timeouts;
        let wait = match kind {
            TurnKind::Conditional | TurnKind::SerialRead => timeouts.cas_contention,
            TurnKind::Counter => timeouts.counter_write,
            TurnKind::Write => timeouts.write,
        };
        TurnDeadline { kind, wait, at: Some(Instant::now() + wait) }
    }

    /// Waits for a turn on rows of a partition that this shard owns.
    ///
    /// # Errors
    /// [`StorageError::TurnTimedOut`] at the deadline.
    pub async fn take_turn_until(
        &self,
        rows: TurnRows,
        deadline: TurnDeadline,
    ) -> Result<Turn, StorageError> {
        deadline.limit(self.take_turn(rows)).await
    }
}

impl TurnDeadline {
    /// Returns a deadline that never comes, for work that no client waits for.
    pub(super) fn never() -> Self {
        Self { kind: TurnKind::Write, wait: Duration::MAX, at: None }
    }

    /// Returns the earlier of this deadline and that in `left`.
    #[must_use]
    pub fn within(self, left: Duration) -> Self {
        let wait = self.wait.min(left);
        let at = Instant::now() + wait;
        Self { wait, at: Some(self.at.map_or(at, |earlier| earlier.min(at))), ..self }
    }

    /// Waits for `turn` until the deadline.
    pub(super) async fn limit<F: Future>(self, turn: F) -> Result<F::Output, StorageError> {
        let Some(at) = self.at else { return Ok(turn.await) };
        time::timeout_at(at, turn).await.map_err(|_| {
            let Self { kind, wait, .. } = self;
            let (text, setting) = (kind.timeout_text(), kind.setting());
            let message = format!(
                "{text}. Other statements held its rows for {wait:?} ({setting}), so it was not \
                 executed on them"
            );
            StorageError::TurnTimedOut { kind, message }
        })
    }
}
