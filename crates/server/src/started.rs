//! The moment at which the node started, for uptime and generation.

use std::time::Duration;

use espalier_runtime::time::{self, Instant};

/// The moment of the start, by the monotonic clock and by the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    at: Instant,
    second: i64,
}

impl Started {
    pub fn now() -> Self {
        Self { at: Instant::now(), second: time::now_seconds() }
    }

    /// Returns the time since the start.
    pub fn uptime(&self) -> Duration {
        self.at.elapsed()
    }

    /// Returns the second of the start since 1970, which distinguishes this start from earlier
    /// ones, as in Cassandra.
    pub fn generation(&self) -> i64 {
        self.second
    }
}
