//! Limits background work to a share of core and disk. The task yields after each slice. While
//! other tasks keep the core busy, it rests until its work is no more than its share of the time.
//! While other reads wait for the disk, it also rests until its waits for the disk are no more than
//! its share of the time.

use std::time::Duration;

use crate::time::{self, Instant};

/// Duration of a slice. It is shorter than the budget of a task, because no request waits for
/// background work.
const SLICE: Duration = Duration::from_micros(200);
/// Maximum work counted for a slice. More time between two checks means that other tasks ran.
/// Arbitrary: several times the work between two checks.
const MAX_WORK: Duration = Duration::from_millis(1);
/// Maximum wait for the disk counted for a slice. A disk that stalls for a minute must not cause a
/// rest of many minutes.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Minimum poll interval: a rest notices its end only this often.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The core is idle if other tasks took less than this fraction (1/4) of the slice in their
/// iteration.
const IDLE_PART: u32 = 4;

/// Limits one task to a share of core and disk.
pub struct BackgroundShare {
    slice_began: Instant,
}

/// The use of core and disk in one slice.
#[derive(Clone, Copy)]
pub struct Slice {
    /// Time for which the task worked.
    pub worked: Duration,
    /// Time for which the task waited for the disk while other reads waited, too.
    pub waited: Duration,
}

impl BackgroundShare {
    /// Starts the first slice.
    #[allow(clippy::new_without_default)] // A default would read the clock.
    pub fn new() -> Self {
        Self { slice_began: Instant::now() }
    }

    /// Returns how long the task has worked, or `None` if its slice is not over. `waited` is the
    /// part of the slice that it waited for the disk.
    #[inline]
    pub fn worked(&self, waited: Duration) -> Option<Duration> {
        let elapsed = self.slice_began.elapsed();
        (elapsed >= SLICE).then(|| elapsed.saturating_sub(waited).min(MAX_WORK))
    }

    /// Rests after a slice, until the task has had no more than `share` of the time. `left` is the
    /// time at which it left the core to others. Ends early if no other task wants the core, or if
    /// `is_ended` returns true.
    pub async fn rest(
        &mut self,
        slice: Slice,
        left: Instant,
        share: f64,
        is_ended: impl Fn() -> bool,
    ) {
        let others = left.elapsed();
        let is_core_wanted = others * IDLE_PART > slice.worked;
        let had = if is_core_wanted { slice.worked } else { Duration::ZERO };
        let due = had.max(slice.waited.min(MAX_WAIT)).mul_f64(1.0 / share - 1.0);
        let mut rest = due.saturating_sub(others);
        while !rest.is_zero() && !is_ended() {
            let part = rest.min(POLL_INTERVAL);
            time::sleep(part).await;
            rest -= part;
        }
        self.begin_slice();
    }

    /// Starts a slice, after a wait that does not count.
    pub fn begin_slice(&mut self) {
        self.slice_began = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use crate::{block_on, time::ManualClock};

    use super::*;

    /// Returns the fraction of the time that a task of 250 µs slices and a share of 1/4 gets, if
    /// other tasks take `others` in each iteration.
    fn had(others: Duration) -> f64 {
        let clock = ManualClock::new(0).moving_when_idle();
        let _installed = clock.install();
        block_on(async move {
            let (began, mut core) = (Instant::now(), BackgroundShare::new());
            let slice = Duration::from_micros(250);
            for _ in 0..1000 {
                clock.advance(slice / 2);
                assert_eq!(core.worked(Duration::ZERO), None);
                clock.advance(slice / 2);
                let (worked, left) = (core.worked(Duration::ZERO).unwrap(), Instant::now());
                clock.advance(others);
                core.rest(Slice { worked, waited: Duration::ZERO }, left, 0.25, || false).await;
            }
            slice.as_secs_f64() * 1000.0 / began.elapsed().as_secs_f64()
        })
    }

    #[test]
    fn a_share_is_kept_where_others_are_busy_and_only_there() {
        let close = |share: f64, expected: f64| (share - expected).abs() < 0.001;
        assert!(close(had(Duration::from_micros(100)), 0.25));
        // The other tasks had their due time and more.
        assert!(close(had(Duration::from_millis(2)), 0.111));
        // No other task wants the core.
        assert!(close(had(Duration::from_micros(50)), 0.833));
        assert!(close(had(Duration::ZERO), 1.0));
    }

    /// Returns the fraction of the time that a task waits for the disk, with slices of 200 µs work
    /// and 10 ms wait, a share of 1/4, and no other task on the core.
    fn had_of_disk(do_others_wait: bool) -> f64 {
        let clock = ManualClock::new(0).moving_when_idle();
        let _installed = clock.install();
        block_on(async move {
            let (began, mut core) = (Instant::now(), BackgroundShare::new());
            let wait = Duration::from_millis(10);
            for _ in 0..100 {
                clock.advance(SLICE + wait);
                let worked = core.worked(wait).unwrap();
                assert_eq!(worked, SLICE);
                let waited = if do_others_wait { wait } else { Duration::ZERO };
                core.rest(Slice { worked, waited }, Instant::now(), 0.25, || false).await;
            }
            wait.as_secs_f64() * 100.0 / began.elapsed().as_secs_f64()
        })
    }

    #[test]
    fn a_disk_that_stands_still_makes_no_rest_of_minutes() {
        let clock = ManualClock::new(0).moving_when_idle();
        let _installed = clock.install();
        block_on(async move {
            let slice = Slice { worked: SLICE, waited: Duration::from_secs(100) };
            let (left, share) = (Instant::now(), 0.25 / 4.0);
            BackgroundShare::new().rest(slice, left, share, || false).await;
            assert_eq!(left.elapsed(), MAX_WAIT * 15);
            // A rest that is ended stops within the poll interval.
            let left = Instant::now();
            let is_ended = || left.elapsed() > POLL_INTERVAL * 3;
            BackgroundShare::new().rest(slice, left, share, is_ended).await;
            assert_eq!(left.elapsed(), POLL_INTERVAL * 4);
        });
    }

    #[test]
    fn the_disk_is_shared_where_others_wait_for_it() {
        assert!((had_of_disk(true) - 0.249).abs() < 0.001);
        assert!((had_of_disk(false) - 0.980).abs() < 0.001);
    }
}
