//! The time that a statement may wait for its turn. A holder of a turn may be slow, because it
//! reads from the disk or waits for other shards. Without a limit, the statements behind it would
//! be executed long after their clients have given up.

use std::time::Duration;

use espalier_runtime::time::{self, Instant};

use crate::{StorageError, TurnKind};

/// The moment at which a statement gives up waiting for its turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnDeadline {
    kind: TurnKind,
    wait: Duration,
    /// `None` for a deadline that never comes.
    at: Option<Instant>,
}

impl TurnDeadline {
    /// Returns a deadline that never comes, for work that no client waits for.
    pub(crate) fn never() -> Self {
        Self { kind: TurnKind::Write, wait: Duration::MAX, at: None }
    }

    /// Returns the deadline of a statement that may wait this long from now.
    pub(crate) fn after(kind: TurnKind, wait: Duration) -> Self {
        Self { kind, wait, at: Some(Instant::now() + wait) }
    }

    /// Returns the earlier of this deadline and the end of the time `left` from now.
    #[must_use]
    pub fn within(self, left: Duration) -> Self {
        let wait = self.wait.min(left);
        let at = Instant::now() + wait;
        Self { wait, at: Some(self.at.map_or(at, |earlier| earlier.min(at))), ..self }
    }

    /// Waits for `turn` until the deadline. `reason` is the cause that a timeout error gives.
    pub(crate) async fn limit<F: Future>(
        self,
        turn: F,
        reason: &str,
    ) -> Result<F::Output, StorageError> {
        let Some(at) = self.at else { return Ok(turn.await) };
        time::timeout_at(at, turn).await.map_err(|_| {
            let Self { kind, wait, .. } = self;
            let (text, setting) = (kind.timeout_text(), kind.setting());
            let message = format!(
                "{text}. {reason} for {wait:?} ({setting}), so it was not executed on them"
            );
            StorageError::TurnTimedOut { kind, message }
        })
    }
}
