//! Points in monotonic time.

use super::manual_clock;
use std::cell::Cell;
use std::ops::{Add, AddAssign, Sub};
use std::sync::OnceLock;
use std::time::Duration;

/// A point in monotonic time, comparable across threads of the process. Arithmetic saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Nanoseconds since the first reading of the process, or since the start of the manual clock.
    nanoseconds: u64,
}

thread_local! {
    static COARSE: Cell<Option<Instant>> = const { Cell::new(None) };
}

fn base() -> std::time::Instant {
    static BASE: OnceLock<std::time::Instant> = OnceLock::new();
    *BASE.get_or_init(std::time::Instant::now)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Instant {
    /// Returns the current instant. Costs about 25 ns.
    pub fn now() -> Self {
        match manual_clock() {
            Some(clock) => clock.now(),
            None => Instant { nanoseconds: nanoseconds(base().elapsed()) },
        }
    }

    /// Returns the instant at which the event loop of this thread began its latest iteration: at
    /// most some hundred microseconds ago if no task stalls. Costs next to nothing. On a thread
    /// that has run no event loop, it is [`Instant::now`].
    pub fn coarse() -> Self {
        COARSE.with(Cell::get).unwrap_or_else(Instant::now)
    }

    /// Returns the time from `earlier` to this, or zero.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.nanoseconds.saturating_sub(earlier.nanoseconds))
    }

    /// Returns the time from this until now, or zero.
    pub fn elapsed(self) -> Duration {
        Instant::now().since(self)
    }

    pub(super) fn from_nanoseconds(nanoseconds: u64) -> Self {
        Instant { nanoseconds }
    }

    pub(super) fn to_std(self) -> std::time::Instant {
        // Centuries ahead is as good as never.
        const FAR: u64 = 1 << 62;
        base() + Duration::from_nanos(self.nanoseconds.min(FAR))
    }
}

/// Records the instant of [`Instant::coarse`]. The event loop calls this at each iteration.
pub(crate) fn refresh_coarse() {
    COARSE.with(|coarse| coarse.set(Some(Instant::now())));
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant { nanoseconds: self.nanoseconds.saturating_add(nanoseconds(duration)) }
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant { nanoseconds: self.nanoseconds.saturating_sub(nanoseconds(duration)) }
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}
