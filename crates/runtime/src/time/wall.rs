//! The wall clock.

use super::manual_clock;
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The latest reading of any thread.
static LATEST: AtomicI64 = AtomicI64::new(i64::MIN);

thread_local! {
    static LAST_TIMESTAMP: Cell<i64> = const { Cell::new(i64::MIN) };
}

/// Microseconds since 1970. Within the process, no reading is less than one that was finished before it.
pub fn now_micros() -> i64 {
    if let Some(clock) = manual_clock() {
        return clock.now_micros();
    }
    let now = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
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
    LAST_TIMESTAMP.with(|last| {
        let next = now_micros().max(last.get().saturating_add(1));
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
