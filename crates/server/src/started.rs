//! When the node started.

use std::time::Duration;

use espalier_runtime::time::{self, Instant};

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    at: Instant,
    second: i64,
}

impl Started {
    pub fn now() -> Self {
        Self { at: Instant::now(), second: time::now_seconds() }
    }

    /// The time since then.
    pub fn uptime(&self) -> Duration {
        self.at.elapsed()
    }

    /// What tells this start from earlier ones, as Cassandra does it: its second since 1970.
    pub fn generation(&self) -> i64 {
        self.second
    }
}
