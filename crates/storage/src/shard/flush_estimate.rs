//! The flush estimate measures how fast flushes free memory, and how much the flushes under way
//! have still to write.

use std::{cell::Cell, time::Duration};

use espalier_runtime::time::Instant;

/// Minimum time between two samples of the progress.
const SAMPLE: Duration = Duration::from_millis(50);
/// Time constant of the mean rate in seconds: an older sample of this age weighs 1/e, about a
/// third.
const MEMORY_S: f64 = 2.0;
/// Initial guess of the share of a flush's time that writing rows takes. The rest of the time goes
/// to the end of the SSTable's files and to the update of the row cache.
const FIRST_WRITTEN_SHARE: f64 = 0.9;
/// Weight of the last flush in the estimate of this share, against the earlier flushes.
const WEIGHT_OF_LAST: f64 = 0.5;
/// Upper limit of the estimated progress of a flush's end, until the flush reports that it is done.
const MAX_SHARE_OF_END: f64 = 0.95;

/// The state of a shard's flushes, and their measured speed.
pub(crate) struct FlushEstimate {
    /// Number of flushes under way; a flush that waits for compactions counts.
    active: Cell<usize>,
    /// Bytes of the memtables that flushes are writing.
    begun_bytes: Cell<f64>,
    /// Bytes of these memtables that are not written yet.
    left_bytes: Cell<f64>,
    /// Bytes written by all flushes so far.
    done_bytes: Cell<f64>,
    /// Time of the last sample, and `done_bytes` at that time.
    sampled: Cell<Option<(Instant, f64)>>,
    bytes_per_second: Cell<Option<f64>>,
    /// Share of a flush's time that writing rows has taken lately.
    written_share: Cell<f64>,
    /// The flush that has written its rows last and is not done.
    ending: Cell<Option<Ending>>,
}

#[derive(Clone, Copy)]
struct Ending {
    since: Instant,
    expected: Duration,
    bytes: f64,
}

impl Default for FlushEstimate {
    fn default() -> Self {
        Self {
            active: Cell::default(),
            begun_bytes: Cell::default(),
            left_bytes: Cell::default(),
            done_bytes: Cell::default(),
            sampled: Cell::default(),
            bytes_per_second: Cell::default(),
            written_share: Cell::new(FIRST_WRITTEN_SHARE),
            ending: Cell::default(),
        }
    }
}

impl FlushEstimate {
    /// Reports that the flush of a memtable of `bytes` bytes begins, or (with zero bytes) that a
    /// flush pauses. The flush or pause ends when the result is dropped.
    pub(crate) fn begin(&self, bytes: usize) -> FlushProgress<'_> {
        if self.active.replace(self.active.get() + 1) == 0 {
            self.sampled.set(Some((Instant::coarse(), self.done_bytes.get())));
        }
        let bytes = bytes as f64;
        self.begun_bytes.set(self.begun_bytes.get() + bytes);
        self.left_bytes.set(self.left_bytes.get() + bytes);
        FlushProgress {
            estimate: self,
            bytes,
            done_share: Cell::new(0.0),
            began: Instant::coarse(),
            written: Cell::new(None),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.get() > 0
    }

    /// Returns the number of bytes of memtables that flushes have written per second lately; `None`
    /// before the first flush has made progress.
    pub(crate) fn bytes_per_second(&self) -> Option<f64> {
        self.bytes_per_second.get()
    }

    /// Returns the bytes of the memtables that flushes have begun to write.
    pub(crate) fn begun_bytes(&self) -> f64 {
        self.begun_bytes.get()
    }

    /// Returns the bytes of these memtables that are not written yet.
    pub(crate) fn left_bytes(&self) -> f64 {
        let left = self.left_bytes.get();
        let Some(Ending { since, expected, bytes }) = self.ending.get() else { return left };
        let passed = Instant::coarse().since(since).as_secs_f64();
        let share = (passed / expected.as_secs_f64().max(1e-6)).min(MAX_SHARE_OF_END);
        (left - bytes * share).max(0.0)
    }

    fn note(&self, bytes: f64) {
        self.left_bytes.set((self.left_bytes.get() - bytes).max(0.0));
        let done = self.done_bytes.get() + bytes;
        self.done_bytes.set(done);
        let Some((then, done_then)) = self.sampled.get() else { return };
        let now = Instant::coarse();
        let passed = now.since(then);
        if passed >= SAMPLE {
            self.sampled.set(Some((now, done)));
            let rate = (done - done_then) / passed.as_secs_f64();
            // Exponential mean over time; the weight of a sample is the time that it covers.
            let weight = 1.0 - (-passed.as_secs_f64() / MEMORY_S).exp();
            let before = self.bytes_per_second.get().unwrap_or(rate);
            self.bytes_per_second.set(Some(before + (rate - before) * weight));
        }
    }
}

/// Reports the progress of one flush.
pub(crate) struct FlushProgress<'a> {
    estimate: &'a FlushEstimate,
    bytes: f64,
    done_share: Cell<f64>,
    began: Instant,
    /// Time at which all rows of the flush were written.
    written: Cell<Option<Instant>>,
}

impl FlushProgress<'_> {
    /// Reports that `share` of the rows is written.
    pub(crate) fn rows_written(&self, share: f64) {
        self.advance_to(share.min(1.0) * self.estimate.written_share.get());
    }

    /// Reports that all rows are written. From here on, the progress is estimated by the time that
    /// the ends of earlier flushes took.
    pub(crate) fn all_rows_written(&self) {
        let share = self.estimate.written_share.get();
        self.advance_to(share);
        let (since, bytes) = (Instant::coarse(), self.bytes * (1.0 - share));
        let expected = since.since(self.began).mul_f64((1.0 - share) / share);
        self.estimate.ending.set(Some(Ending { since, expected, bytes }));
        self.written.set(Some(since));
    }

    /// Ends the flush, and updates the share of a flush's time that writing rows takes.
    fn end(&self) {
        let Some(written) = self.written.take() else { return };
        self.estimate.ending.set(None);
        let all_s = Instant::coarse().since(self.began).as_secs_f64();
        if all_s > 0.0 {
            let share = written.since(self.began).as_secs_f64() / all_s;
            let before = self.estimate.written_share.get();
            // The limits keep an odd flush from hiding the progress of the next one.
            let share = before + (share.clamp(0.1, 0.99) - before) * WEIGHT_OF_LAST;
            self.estimate.written_share.set(share);
        }
    }

    /// Reports that `share` of the flush is done. A smaller share than before has no effect.
    pub(crate) fn advance_to(&self, share: f64) {
        let share = share.clamp(self.done_share.get(), 1.0);
        let more = share - self.done_share.replace(share);
        self.estimate.note(more * self.bytes);
    }

    /// Reports that the flush failed: its progress frees no memory.
    pub(crate) fn fail(self) {
        if self.written.take().is_some() {
            self.estimate.ending.set(None);
        }
        let undone = self.done_share.replace(1.0) * self.bytes;
        let estimate = self.estimate;
        estimate.done_bytes.set(estimate.done_bytes.get() - undone);
        // Begin a new sample, so that the correction counts neither as progress nor as negative
        // progress.
        if estimate.sampled.get().is_some() {
            estimate.sampled.set(Some((Instant::coarse(), estimate.done_bytes.get())));
        }
        let left = self.bytes - undone;
        estimate.left_bytes.set((estimate.left_bytes.get() - left).max(0.0));
    }
}

impl Drop for FlushProgress<'_> {
    fn drop(&mut self) {
        self.end();
        self.advance_to(1.0);
        let active = self.estimate.active.get().saturating_sub(1);
        self.estimate.active.set(active);
        self.estimate.begun_bytes.set(self.estimate.begun_bytes.get() - self.bytes);
        if active == 0 {
            self.estimate.begun_bytes.set(0.0);
            // No flush is under way, so no bytes are left. Rounding errors must not add up.
            self.estimate.left_bytes.set(0.0);
            self.estimate.sampled.set(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{
        block_on,
        time::{self, ManualClock},
    };

    use super::*;

    #[test]
    fn the_flush_rate_follows_progress_and_stays_between_flushes() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            let estimate = FlushEstimate::default();
            assert!(!estimate.is_active() && estimate.bytes_per_second().is_none());
            let progress = estimate.begin(1_000_000);
            for step in 1..=10 {
                time::sleep(Duration::from_millis(100)).await;
                progress.advance_to(f64::from(step) * 0.05);
            }
            assert!((estimate.left_bytes() - 500_000.0).abs() < 1.0);
            let rate = estimate.bytes_per_second().unwrap();
            assert!((rate - 500_000.0).abs() < 1.0, "{rate}");
            drop(progress);
            assert!(!estimate.is_active() && estimate.left_bytes() == 0.0);
            time::sleep(Duration::from_secs(100)).await;
            assert_eq!(estimate.bytes_per_second(), Some(rate));
        });
    }

    #[test]
    fn the_end_of_a_flush_goes_by_the_time_that_it_took_before() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            let estimate = FlushEstimate::default();
            for _ in 0..12 {
                let progress = estimate.begin(1_000_000);
                time::sleep(Duration::from_secs(6)).await;
                progress.rows_written(1.0);
                progress.all_rows_written();
                time::sleep(Duration::from_secs(2)).await;
                drop(progress);
            }
            assert!((estimate.written_share.get() - 0.75).abs() < 0.001);
            let progress = estimate.begin(1_000_000);
            time::sleep(Duration::from_secs(3)).await;
            progress.rows_written(1.0);
            progress.all_rows_written();
            time::sleep(Duration::from_millis(500)).await;
            // Half of the second in which a quarter of the flush happens has passed.
            assert!((estimate.left_bytes() - 125_000.0).abs() < 500.0);
            time::sleep(Duration::from_secs(10)).await;
            assert!((estimate.left_bytes() - 12_500.0).abs() < 500.0);
            drop(progress);
            assert!(estimate.left_bytes() == 0.0);
        });
    }

    #[test]
    fn a_failed_flush_counts_no_bytes_as_done() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            let estimate = FlushEstimate::default();
            let other = estimate.begin(1000);
            let failing = estimate.begin(1_000_000);
            failing.advance_to(0.5);
            failing.fail();
            assert!((estimate.left_bytes() - 1000.0).abs() < 0.001);
            assert!(estimate.done_bytes.get().abs() < 0.001);
            drop(other);
            assert!(!estimate.is_active());
        });
    }

    #[test]
    fn a_failed_flush_does_not_lower_the_rate() {
        let _clock = ManualClock::new(0).moving_when_idle().install();
        block_on(async {
            let estimate = FlushEstimate::default();
            let failing = estimate.begin(1_000_000);
            for step in 1..=9 {
                time::sleep(Duration::from_millis(100)).await;
                failing.advance_to(f64::from(step) * 0.1);
            }
            time::sleep(Duration::from_millis(100)).await;
            let rate = estimate.bytes_per_second().unwrap();
            failing.fail();
            let after = estimate.bytes_per_second().unwrap();
            assert!(after > rate * 0.9, "{rate} and then {after}");
        });
    }
}
