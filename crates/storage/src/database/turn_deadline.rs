//! The time that a statement may wait for its turn. A holder of a turn may be slow, because it
//! reads from the disk or waits for other shards. Without a limit, the statements behind it would
//! be executed long after their clients have given up.

use std::time::Duration;

use espalier_runtime::time::{self, Instant};

use super::Database;
use crate::{
    StorageError,
    turns::{Turn, TurnRows},
};

/// The kind of a statement that takes a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnKind {
    /// A conditional statement or batch, or a transaction.
    Conditional,
    /// A read at SERIAL.
    SerialRead,
    /// A change of counters.
    Counter,
    /// Another write that reads first, such as one of a list element.
    Write,
}

impl TurnKind {
    /// Returns the setting that limits the wait.
    fn setting(self) -> &'static str {
        match self {
            Self::Conditional | Self::SerialRead => "cas_contention_timeout",
            Self::Counter => "counter_write_request_timeout",
            Self::Write => "write_request_timeout",
        }
    }

    /// Returns Cassandra's text for the end of the wait.
    fn timeout_text(self) -> &'static str {
        match self {
            Self::Conditional => {
                "CAS operation timed out: received 0 of 1 required responses after 0 contention \
                 retries"
            }
            Self::SerialRead | Self::Counter | Self::Write => {
                "Operation timed out - received only 0 responses"
            }
        }
    }
}

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
        let configuration = &self.inner.configuration;
        let wait = match kind {
            TurnKind::Conditional | TurnKind::SerialRead => configuration.cas_contention_timeout,
            TurnKind::Counter => configuration.counter_write_timeout,
            TurnKind::Write => configuration.write_timeout,
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
