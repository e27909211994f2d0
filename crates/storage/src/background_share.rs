//! Work in the background that leaves core and disk to others: the core for a moment after each slice, and while these are busy for as long as it takes
//! to keep to a share; the disk where their reads wait for it, too, for as long as it takes to wait for it for no more than a share of the time.

use std::time::Duration;

use espalier_runtime::time::{self, Instant};

/// After so much work the others have their turn: less than the budget of a task, for this is nobody's request.
const SLICE: Duration = Duration::from_micros(200);
/// What is longer than this between two looks was spent while others had their turn: an arbitrary bound, several times what
/// is done between two looks.
const LONGEST_WORK: Duration = Duration::from_millis(1);
/// Of the waits for the disk in a slice, what counts: a disk that stood still for a minute makes no rest of many.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long nobody is heard who ends a rest.
const DEAF: Duration = Duration::from_millis(100);
/// Of a slice: if others took less than that when they had their turn, there was nothing to do.
const IDLE_PART: u32 = 4;

/// Keeps one task to a share of core and disk.
pub(crate) struct BackgroundShare {
    slice_began: Instant,
}

/// What it has had of them in a slice.
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    /// It worked.
    pub(crate) worked: Duration,
    /// It waited for the disk, while others did.
    pub(crate) waited: Duration,
}

impl BackgroundShare {
    pub(crate) fn new() -> Self {
        Self { slice_began: Instant::now() }
    }

    /// How long it has worked, if its slice is over, in which it has waited for the disk for so long.
    #[inline]
    pub(crate) fn worked(&self, waited: Duration) -> Option<Duration> {
        let elapsed = self.slice_began.elapsed();
        (elapsed >= SLICE).then(|| elapsed.saturating_sub(waited).min(LONGEST_WORK))
    }

    /// To be called when it may go on, and left the core to others at some moment: waits until it has had no more than a
    /// share, unless nobody else wants it, or it is to end.
    pub(crate) async fn rest(
        &mut self,
        slice: Slice,
        left: Instant,
        share: f64,
        is_ended: impl Fn() -> bool,
    ) {
        let others = left.elapsed();
        let is_core_wanted = others * IDLE_PART > slice.worked;
        let had = if is_core_wanted { slice.worked } else { Duration::ZERO };
        let due = had.max(slice.waited.min(LONGEST_WAIT)).mul_f64(1.0 / share - 1.0);
        let mut rest = due.saturating_sub(others);
        while !rest.is_zero() && !is_ended() {
            let part = rest.min(DEAF);
            time::sleep(part).await;
            rest -= part;
        }
        self.begin_slice();
    }

    /// It waited for something else.
    pub(crate) fn begin_slice(&mut self) {
        self.slice_began = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{block_on, time::ManualClock};

    use super::*;

    /// What of the time is had by a task that works 250 µs at a time for a quarter of it, where others take so much in their turn.
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
        // They had as much as they are due, and more.
        assert!(close(had(Duration::from_millis(2)), 0.111));
        // Nobody wants the core.
        assert!(close(had(Duration::from_micros(50)), 0.833));
        assert!(close(had(Duration::ZERO), 1.0));
    }

    /// What of the time is had by a task that works 200 µs and waits 10 ms for the disk, a quarter of both at most, where nobody else wants the core.
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
            assert_eq!(left.elapsed(), LONGEST_WAIT * 15);
            // Nor does it keep anybody waiting who ends it.
            let left = Instant::now();
            let is_ended = || left.elapsed() > DEAF * 3;
            BackgroundShare::new().rest(slice, left, share, is_ended).await;
            assert_eq!(left.elapsed(), DEAF * 4);
        });
    }

    #[test]
    fn the_disk_is_shared_where_others_wait_for_it() {
        assert!((had_of_disk(true) - 0.249).abs() < 0.001);
        assert!((had_of_disk(false) - 0.980).abs() < 0.001);
    }
}
