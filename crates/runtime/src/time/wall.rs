//! The wall clock and the write timestamps made from it.

use super::manual_clock;
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The latest reading of any thread.
static LATEST: AtomicI64 = AtomicI64::new(i64::MIN);

thread_local! {
    static LAST_TIMESTAMP: Cell<i64> = const { Cell::new(i64::MIN) };
    /// The reading of [`now_seconds_coarse`] in this iteration of the event loop, if there was one.
    static SECONDS_OF_ITERATION: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Returns microseconds since 1970. Within the process, no reading is less than one that was
/// finished before it.
pub fn now_micros() -> i64 {
    if let Some(clock) = manual_clock() {
        return clock.now_micros();
    }
    let micros = |duration: Duration| {
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        seconds.saturating_mul(1_000_000).saturating_add(i64::from(duration.subsec_micros()))
    };
    let now = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    };
    // Usually this reads a shared cache line; it writes only when the clock has moved on.
    if LATEST.load(Ordering::Relaxed) < now {
        LATEST.fetch_max(now, Ordering::Relaxed).max(now)
    } else {
        LATEST.load(Ordering::Relaxed)
    }
}

/// Returns a write timestamp: [`now_micros`], but every call on one shard returns more than the
/// call before. Two shards may return the same timestamp.
pub fn next_timestamp_micros() -> i64 {
    next_timestamp_micros_at(now_micros())
}

/// Returns a write timestamp like [`next_timestamp_micros`], for a caller that has just read
/// `now_us` from [`now_micros`].
#[inline]
pub fn next_timestamp_micros_at(now_us: i64) -> i64 {
    LAST_TIMESTAMP.with(|last| {
        let next = now_us.max(last.get().saturating_add(1));
        last.set(next);
        next
    })
}

/// Returns milliseconds since 1970, like [`now_micros`].
pub fn now_millis() -> i64 {
    now_micros().div_euclid(1_000)
}

/// Returns seconds since 1970, like [`now_micros`]; for expiry and deletion times.
pub fn now_seconds() -> i64 {
    now_micros().div_euclid(1_000_000)
}

/// Returns [`now_seconds`], read at most once in each iteration of the event loop: at most some
/// hundred microseconds old if no task stalls. Costs next to nothing; use it to check whether
/// something has expired. Outside of an event loop, and with a manual clock, it is [`now_seconds`].
#[inline]
pub fn now_seconds_coarse() -> i64 {
    SECONDS_OF_ITERATION.with(Cell::get).unwrap_or_else(read_seconds_of_iteration)
}

#[cold]
fn read_seconds_of_iteration() -> i64 {
    let now = now_seconds();
    if crate::event_loop::is_running() && manual_clock().is_none() {
        SECONDS_OF_ITERATION.with(|seconds| seconds.set(Some(now)));
    }
    now
}

/// Discards the reading of [`now_seconds_coarse`]. The event loop calls this at each iteration, and
/// `ManualClock::install` calls it.
pub(crate) fn forget_seconds_of_iteration() {
    SECONDS_OF_ITERATION.with(|seconds| seconds.set(None));
}
