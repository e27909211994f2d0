//! Time on the clock, and the time that this thread was on a core: the machine may have other work.

use std::ops::AddAssign;
use std::time::Duration;

use espalier_runtime::{cpu::thread_time, time::Instant};

/// What a watch showed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lap {
    /// Of the clock.
    pub clock: Duration,
    /// Of this thread on a core.
    pub core: Duration,
}

impl AddAssign for Lap {
    fn add_assign(&mut self, other: Self) {
        self.clock += other.clock;
        self.core += other.core;
    }
}

/// Runs from when it is made.
pub struct Watch {
    core: Duration,
    clock: Instant,
}

impl Watch {
    /// Starts now.
    #[inline]
    pub fn start() -> Self {
        Self { core: thread_time(), clock: Instant::now() }
    }

    /// What has gone by.
    #[inline]
    pub fn lap(&self) -> Lap {
        let core = thread_time().saturating_sub(self.core);
        Lap { clock: self.clock.elapsed(), core }
    }
}

/// Work done and the time it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Operations, or bytes.
    pub operations: u64,
    /// In all of them.
    pub lap: Lap,
}

impl Round {
    /// More work of the same round.
    #[inline]
    pub fn add(&mut self, operations: u64, watch: &Watch) {
        self.lap += watch.lap();
        self.operations += operations;
    }

    /// Operations a second by the clock.
    pub fn per_s(&self) -> f64 {
        self.operations as f64 / self.lap.clock.as_secs_f64().max(1e-9)
    }

    /// Operations for each second of the thread on a core.
    pub fn per_core_s(&self) -> f64 {
        self.operations as f64 / self.lap.core.as_secs_f64().max(1e-9)
    }

    /// The part of the time that the thread was on a core.
    pub fn busy(&self) -> f64 {
        self.lap.core.as_secs_f64() / self.lap.clock.as_secs_f64().max(1e-9)
    }
}
