//! Time on the clock, and the time that this thread was on a core: the machine may have other work.

use espalier_runtime::time::Instant;

/// Runs from when it is made.
pub struct Watch {
    started: Instant,
    on_core_ns: u64,
}

/// What a watch showed.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    /// Seconds of the clock.
    pub seconds: f64,
    /// Seconds on a core.
    pub core_seconds: f64,
}

impl Watch {
    /// Starts now.
    pub fn start() -> Self {
        Self { on_core_ns: on_core_ns(), started: Instant::now() }
    }

    /// What has gone by.
    pub fn lap(&self) -> Lap {
        let seconds = self.started.elapsed().as_secs_f64();
        let core_seconds = (on_core_ns() - self.on_core_ns) as f64 / 1e9;
        Lap { seconds, core_seconds }
    }
}

/// Nanoseconds that this thread has run, as Linux counts them; 0 where it does not.
fn on_core_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0)
}
