//! The wall clock.

use super::manual_clock;
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The latest reading of any thread.
static LATEST: AtomicI64 = AtomicI64::new(i64::MIN);

thread_local! {
    static LAST_TIMESTAMP: Cell<i64> = const { Cell::new(i64::MIN) };
    /// What [`now_seconds_coarse`] has read in this turn of the event loop, if it has.
    static SECONDS_OF_TURN: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Microseconds since 1970. Within the process, no reading is less than one that was finished before it.
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
    // Usually a read of a shared cache line; the write only when the clock has moved on since.
    if LATEST.load(Ordering::Relaxed) < now {
        LATEST.fetch_max(now, Ordering::Relaxed).max(now)
    } else {
        LATEST.load(Ordering::Relaxed)
    }
}

/// A write timestamp: [`now_micros`], but every call on one shard gives more than the call before. Two
/// shards may give the same.
pub fn next_timestamp_micros() -> i64 {
    next_timestamp_micros_at(now_micros())
}

/// [`next_timestamp_micros`] for who has just read `now_us` from [`now_micros`].
#[inline]
pub fn next_timestamp_micros_at(now_us: i64) -> i64 {
    LAST_TIMESTAMP.with(|last| {
        let next = now_us.max(last.get().saturating_add(1));
        last.set(next);
        next
    })
}

/// Milliseconds since 1970, like [`now_micros`].
pub fn now_millis() -> i64 {
    now_micros().div_euclid(1_000)
}

/// Seconds since 1970, like [`now_micros`]; for expiry and deletion times.
pub fn now_seconds() -> i64 {
    now_micros().div_euclid(1_000_000)
}

/// [`now_seconds`], read at most once in each turn of the event loop: some hundred microseconds old at most if no
/// task stalls. For whether something has expired; costs next to nothing. Outside of an event loop, and where the
/// clock is a manual one, the same as [`now_seconds`].
#[inline]
pub fn now_seconds_coarse() -> i64 {
    SECONDS_OF_TURN.with(Cell::get).unwrap_or_else(read_seconds_of_turn)
}

#[cold]
fn read_seconds_of_turn() -> i64 {
    let now = now_seconds();
    if crate::event_loop::is_running() && manual_clock().is_none() {
        SECONDS_OF_TURN.with(|seconds| seconds.set(Some(now)));
    }
    now
}

/// Called by the event loop at each turn, and when what time is changes.
pub(crate) fn forget_seconds_of_turn() {
    SECONDS_OF_TURN.with(|seconds| seconds.set(None));
}
