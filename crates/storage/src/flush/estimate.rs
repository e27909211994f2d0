//! When memory comes back: how fast flushes give it back, and how much is left of those under way.

use std::{cell::Cell, time::Duration};

use espalier_runtime::time::Instant;

/// Progress is looked at so often at most.
const SAMPLE: Duration = Duration::from_millis(50);
/// What lies so far back counts a third of what is now.
const MEMORY_S: f64 = 2.0;

/// What is known of the flushes of a shard.
#[derive(Default)]
pub(crate) struct FlushEstimate {
    /// Flushes under way, those among them that wait for compactions.
    active: Cell<usize>,
    /// Bytes of the memtables that are being written, less what is done of them.
    left_bytes: Cell<f64>,
    /// All that was done so far.
    done_bytes: Cell<f64>,
    /// When progress was looked at last, and what was done by then.
    sampled: Cell<Option<(Instant, f64)>>,
    bytes_per_second: Cell<Option<f64>>,
}

impl FlushEstimate {
    /// A flush of a memtable of so many bytes begins, or the pause before it (of none); it lasts until what this gives is dropped.
    pub(crate) fn begin(&self, bytes: usize) -> FlushProgress<'_> {
        if self.active.replace(self.active.get() + 1) == 0 {
            self.sampled.set(Some((Instant::coarse(), self.done_bytes.get())));
        }
        let bytes = bytes as f64;
        self.left_bytes.set(self.left_bytes.get() + bytes);
        FlushProgress { estimate: self, bytes, done_share: Cell::new(0.0) }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.get() > 0
    }

    /// How many bytes of memtables flushes give back in a second, here and lately; `None` before the first one has got anywhere.
    pub(crate) fn bytes_per_second(&self) -> Option<f64> {
        self.bytes_per_second.get()
    }

    /// Bytes that are still to be written of the memtables whose flush has begun.
    pub(crate) fn left_bytes(&self) -> f64 {
        self.left_bytes.get()
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
            // The mean over time, of which the first part has the weight of all that it stands for.
            let weight = 1.0 - (-passed.as_secs_f64() / MEMORY_S).exp();
            let before = self.bytes_per_second.get().unwrap_or(rate);
            self.bytes_per_second.set(Some(before + (rate - before) * weight));
        }
    }
}

/// How far a flush is.
pub(crate) struct FlushProgress<'a> {
    estimate: &'a FlushEstimate,
    bytes: f64,
    done_share: Cell<f64>,
}

impl FlushProgress<'_> {
    /// Tells that a share of the work is done; less than was told before counts as nothing.
    pub(crate) fn advance_to(&self, share: f64) {
        let share = share.clamp(self.done_share.get(), 1.0);
        let more = share - self.done_share.replace(share);
        self.estimate.note(more * self.bytes);
    }

    /// It failed: what was done of it gives no memory back.
    pub(crate) fn fail(self) {
        let undone = self.done_share.replace(1.0) * self.bytes;
        let estimate = self.estimate;
        estimate.done_bytes.set(estimate.done_bytes.get() - undone);
        let left = self.bytes - undone;
        estimate.left_bytes.set((estimate.left_bytes.get() - left).max(0.0));
    }
}

impl Drop for FlushProgress<'_> {
    fn drop(&mut self) {
        self.advance_to(1.0);
        let active = self.estimate.active.get().saturating_sub(1);
        self.estimate.active.set(active);
        if active == 0 {
            // What is not written now, and sums of parts never are nothing again.
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
    fn the_rate_follows_what_is_done_and_stands_still_between_flushes() {
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
    fn what_fails_has_given_nothing_back() {
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
}
