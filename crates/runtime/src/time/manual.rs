//! A manual clock, which only moves when a test moves it.

use super::Instant;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// A clock under the control of a test. While it is installed on a thread, everything in
/// [`crate::time`] there uses it. Clones are the same clock; install it on every shard of a
/// simulation.
#[derive(Clone, Debug)]
pub struct ManualClock {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    start_micros: i64,
    now: Duration,
    timers: BTreeMap<(Instant, u64), Option<Waker>>,
    next_timer: u64,
    moves_when_idle: bool,
}

thread_local! {
    static INSTALLED: RefCell<Option<ManualClock>> = const { RefCell::new(None) };
}

/// Returns the clock of the calling thread, if it is a manual one.
pub(crate) fn installed() -> Option<ManualClock> {
    INSTALLED.with(|installed| installed.borrow().clone())
}

/// Moves the installed clock to the next timer if the clock moves when idle. Returns false if the
/// thread may sleep.
pub(crate) fn advance_when_idle() -> bool {
    let Some(clock) = installed() else { return false };
    let next = {
        let shared = clock.lock();
        if !shared.moves_when_idle {
            return false;
        }
        shared.timers.keys().next().copied()
    };
    match next {
        Some((deadline, _)) => {
            clock.advance_to(deadline);
            true
        }
        None => false,
    }
}

impl ManualClock {
    /// Creates a clock that stands at `start_micros` microseconds since 1970.
    pub fn new(start_micros: i64) -> Self {
        let shared = Shared {
            start_micros,
            now: Duration::ZERO,
            timers: BTreeMap::new(),
            next_timer: 0,
            moves_when_idle: false,
        };
        ManualClock { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Makes the clock jump to the next timer whenever the event loop has nothing else to do. Only
    /// for programs that do not wait for the real world: simulated disk, no sockets, one thread.
    pub fn moving_when_idle(self) -> Self {
        self.lock().moves_when_idle = true;
        self
    }

    /// Installs the clock on the calling thread until the guard is dropped.
    pub fn install(&self) -> ManualClockGuard {
        super::forget_seconds_of_iteration();
        let before = INSTALLED.with(|installed| installed.borrow_mut().replace(self.clone()));
        ManualClockGuard { before }
    }

    /// Moves the clock and wakes the timers that are due.
    pub fn advance(&self, by: Duration) {
        let to = self.now() + by;
        self.advance_to(to);
    }

    fn advance_to(&self, to: Instant) {
        let mut shared = self.lock();
        shared.now = shared.now.max(to.since(Instant::from_nanoseconds(0)));
        let later = shared.timers.split_off(&(to, u64::MAX));
        let due = std::mem::replace(&mut shared.timers, later);
        drop(shared);
        due.into_values().flatten().for_each(Waker::wake);
    }

    /// Returns the clock's instant.
    pub fn now(&self) -> Instant {
        Instant::from_nanoseconds(0) + self.lock().now
    }

    /// Returns the clock's wall time, in microseconds since 1970.
    pub fn now_micros(&self) -> i64 {
        let shared = self.lock();
        let passed = i64::try_from(shared.now.as_micros()).unwrap_or(i64::MAX);
        shared.start_micros.saturating_add(passed)
    }

    pub(super) fn sleep_until(self, deadline: Instant) -> impl Future<Output = ()> {
        let mut timer = None;
        poll_fn(move |context| {
            let entry = timer.get_or_insert_with(|| Timer::new(&self, deadline));
            let mut shared = entry.clock.lock();
            let now = Instant::from_nanoseconds(0) + shared.now;
            if now >= deadline {
                return Poll::Ready(());
            }
            shared.timers.insert((deadline, entry.number), Some(context.waker().clone()));
            Poll::Pending
        })
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A timer, which removes its entry when the sleeping future is dropped.
struct Timer {
    clock: ManualClock,
    deadline: Instant,
    number: u64,
}

impl Timer {
    fn new(clock: &ManualClock, deadline: Instant) -> Self {
        let mut shared = clock.lock();
        shared.next_timer += 1;
        Timer { clock: clock.clone(), deadline, number: shared.next_timer }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let removed = self.clock.lock().timers.remove(&(self.deadline, self.number));
        drop(removed);
    }
}

/// Keeps a [`ManualClock`] installed; dropping it restores the previous clock.
#[must_use = "dropping the guard removes the clock"]
pub struct ManualClockGuard {
    before: Option<ManualClock>,
}

impl Drop for ManualClockGuard {
    fn drop(&mut self) {
        let before = self.before.take();
        INSTALLED.with(|installed| *installed.borrow_mut() = before);
    }
}
