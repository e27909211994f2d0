//! Timers: sleeping, timeouts, regular ticks.

use super::{Instant, manual_clock};
use futures_util::future::{Either, select};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

/// The time allowed had passed before the future was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time allowed for it has passed")]
pub struct Elapsed;

/// Waits for `duration`.
pub async fn sleep(duration: Duration) {
    sleep_until(Instant::now() + duration).await;
}

/// Waits until `deadline`.
pub async fn sleep_until(deadline: Instant) {
    match manual_clock() {
        Some(clock) => clock.sleep_until(deadline).await,
        None => compio::runtime::time::sleep_until(deadline.to_std()).await,
    }
}

/// Runs `future` for at most `duration`, then drops it. Kernel operations for which the future
/// waits are cancelled: bytes on their way into a read's buffer may be lost.
///
/// # Errors
/// Returns [`Elapsed`] if the future was not done in time.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    timeout_at(Instant::now() + duration, future).await
}

/// Runs `future` until `deadline` at most; see [`timeout`].
///
/// # Errors
/// Returns [`Elapsed`] if the future was not done in time.
pub async fn timeout_at<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
    match select(pin!(future), pin!(sleep_until(deadline))).await {
        Either::Left((output, _)) => Ok(output),
        Either::Right(((), _)) => Err(Elapsed),
    }
}

/// Creates an interval that ticks every `period`, for the first time after one period. Panics if
/// `period` is zero.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval of zero would never yield");
    Interval { next: Instant::now() + period, period }
}

/// Regular ticks, made by [`interval`].
#[derive(Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
}

impl Interval {
    /// Waits for the next tick and returns its instant. Missed ticks are skipped, not made up for.
    pub async fn tick(&mut self) -> Instant {
        sleep_until(self.next).await;
        let tick = self.next;
        let late = Instant::now().since(tick);
        let missed = u32::try_from(late.as_nanos() / self.period.as_nanos()).unwrap_or(u32::MAX);
        self.next = tick + self.period.saturating_mul(missed.saturating_add(1));
        tick
    }
}
