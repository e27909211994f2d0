//! Clocks and timers: wall clock in microseconds, monotonic instants, sleeping; or a clock that
//! tests move.
//!
//! Wall-clock readings never go backwards within the process, even if the machine's clock is set
//! back; they then stand still until the machine's clock has caught up.

mod instant;
mod manual;
mod timer;
mod wall;

pub use instant::Instant;
pub(crate) use instant::refresh_coarse;
pub use manual::{ManualClock, ManualClockGuard};
pub(crate) use manual::{advance_when_idle, installed as manual_clock};
pub use timer::{Elapsed, Interval, interval, sleep, sleep_until, timeout, timeout_at};
pub(crate) use wall::forget_seconds_of_iteration;
pub use wall::{
    next_timestamp_micros, next_timestamp_micros_at, now_micros, now_millis, now_seconds,
    now_seconds_coarse,
};
