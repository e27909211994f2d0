//! Measures time by the clock, and the time that this thread was on a core: the machine may have
//! other work.

use std::ops::AddAssign;
use std::time::Duration;

use espalier_runtime::{cpu::thread_time, time::Instant};

/// Time that has passed on a [`Watch`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Lap {
    /// Time by the clock.
    pub clock: Duration,
    /// Time that this thread was on a core.
    pub core: Duration,
}

impl AddAssign for Lap {
    fn add_assign(&mut self, other: Self) {
        self.clock += other.clock;
        self.core += other.core;
    }
}

/// A stopwatch that runs from its creation.
pub struct Watch {
    core: Duration,
    clock: Instant,
}

impl Watch {
    /// Starts a watch.
    #[inline]
    pub fn start() -> Self {
        Self { core: thread_time(), clock: Instant::now() }
    }

    /// Returns the time since the start.
    #[inline]
    pub fn lap(&self) -> Lap {
        let core = thread_time().saturating_sub(self.core);
        Lap { clock: self.clock.elapsed(), core }
    }
}

/// Work done and the time it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Number of operations, or of bytes.
    pub operations: u64,
    /// The time of all operations.
    pub lap: Lap,
}

impl Round {
    /// Adds work to the same round.
    #[inline]
    pub fn add(&mut self, operations: u64, watch: &Watch) {
        self.lap += watch.lap();
        self.operations += operations;
    }

    /// Returns operations a second by the clock.
    pub fn per_s(&self) -> f64 {
        self.operations as f64 / self.lap.clock.as_secs_f64().max(1e-9)
    }

    /// Returns operations for each second of the thread on a core.
    pub fn per_core_s(&self) -> f64 {
        self.operations as f64 / self.lap.core.as_secs_f64().max(1e-9)
    }

    /// Returns the part of the time that the thread was on a core.
    pub fn busy(&self) -> f64 {
        self.lap.core.as_secs_f64() / self.lap.clock.as_secs_f64().max(1e-9)
    }
}
