//! The compaction pace limits the core and the disk bandwidth that compactions take.
//!
//! A compaction yields after each slice of work. While other tasks are busy, it takes no more than
//! its share of the core. While other reads wait for the disk, its own waits for the disk take no
//! more than the same share of the time. It also keeps within `compaction_throughput`.
//!
//! While other tasks are busy, all compactions of a shard together get a quarter of the core. They
//! get more as they fall behind: an additional eighth for each pending compaction, or up to an
//! additional half in proportion to the lag ([`CompactionBacklog::lag`]), whichever is more. The
//! maximum is three quarters. While a flush is under way, the maximum is three eighths without lag
//! and rises with the lag to three quarters: the flush makes room for writes, and needs the core
//! for that. While no other task wants the core, compactions take all of it.

use std::{future::poll_fn, pin::pin, rc::Rc, task::Poll, time::Duration};

use espalier_runtime::{
    background_share::{BackgroundShare, Slice},
    file::DiskWaits,
    time::{self, Instant},
    yield_now,
};

use crate::{CompactionBacklog, Running, ShardLoad, ended::Ended};

/// Pause between two slices while a flush needs the core.
const FLUSH_PAUSE: Duration = Duration::from_millis(5);
/// Share of the core of compactions that keep up.
const MIN_SHARE: f64 = 0.25;
/// Additional share for each pending compaction.
const SHARE_OF_WAITING: f64 = 0.125;
/// Additional share at full lag.
const SHARE_OF_DEPTH: f64 = 0.5;
/// Maximum share.
const MAX_SHARE: f64 = 0.75;
/// Maximum share without lag while a flush is under way.
const MAX_SHARE_BESIDE_FLUSH: f64 = 0.375;
/// Interval in which the backlog is determined.
const BACKLOG_PERIOD: Duration = Duration::from_secs(1);
/// Bytes between two checks of `compaction_throughput`.
const THROTTLED_BYTES: u64 = 256 << 10;
/// Seconds of unused throughput that a compaction may catch up on.
const BURST_S: f64 = 1.0;
/// Interval of the check for a stop while a compaction waits for `compaction_throughput`.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Pace {
    load: Rc<dyn ShardLoad>,
    slices: BackgroundShare,
    waits: Rc<DiskWaits>,
    /// Share of the core that all compactions of the shard want while other tasks are busy.
    wanted_share: f64,
    /// Lag of the shard's compactions, from 0 to 1.
    lag: f64,
    /// Number of running compactions, at least 1.
    running: f64,
    /// Time at which the three values above were determined.
    share_found: Option<Instant>,
    started: Instant,
    /// Last known limit in stored bytes per second, for all shards together.
    bytes_per_second: Option<u64>,
    /// Time in seconds after the start at which the limit allows the bytes read so far.
    paid_s: f64,
    /// Bytes read at the last check, before compression.
    bytes: u64,
    /// Number of times that each byte is read.
    times: u64,
}

impl Pace {
    pub(crate) fn new(load: Rc<dyn ShardLoad>) -> Self {
        let now = Instant::now();
        Self {
            slices: BackgroundShare::new(),
            waits: Rc::default(),
            wanted_share: MIN_SHARE,
            lag: 0.0,
            running: 1.0,
            share_found: None,
            started: now,
            bytes_per_second: load.throughput().bytes_per_second(),
            load,
            paid_s: 0.0,
            bytes: 0,
            times: 1,
        }
    }

    /// Returns the counter of the time for which the compaction waits for the disk.
    pub(crate) fn waits(&self) -> Rc<DiskWaits> {
        self.waits.clone()
    }

    /// Ends the compaction if it was stopped, yields if the slice is over, and waits if it has read
    /// more than `compaction_throughput` allows.
    pub(crate) async fn look(&mut self, running: &Running) -> Result<(), Ended> {
        self.keep(running).await;
        if running.is_stopped() {
            return Err(Ended::Stopped);
        }
        self.keep_within(running).await
    }

    /// Runs work that yields by itself, and calls [`Self::look`] after each of its yields. Ends
    /// early if the compaction is stopped.
    pub(crate) async fn paced<T>(
        &mut self,
        work: impl Future<Output = T>,
        running: &Running,
    ) -> Result<T, Ended> {
        let mut work = pin!(work);
        loop {
            let mut is_begun = false;
            // The future ends when it is polled again, so the pause precedes more work.
            let done = poll_fn(|context| {
                if std::mem::replace(&mut is_begun, true) {
                    return Poll::Ready(None);
                }
                work.as_mut().poll(context).map(Some)
            });
            if let Some(done) = done.await {
                return Ok(done);
            }
            self.look(running).await?;
        }
    }

    /// Yields if the slice is over, and rests to keep the share. While a flush is under way and
    /// memory is short, it also sleeps for [`FLUSH_PAUSE`], which leaves nearly all of the core to
    /// the flush.
    async fn keep(&mut self, running: &Running) {
        let Some(worked) = self.slices.worked(self.waits.all()) else { return };
        let slice = Slice { worked, waited: self.waits.take_contended() };
        let left = Instant::now();
        yield_now().await;
        if self.load.is_flush_urgent() {
            time::sleep(FLUSH_PAUSE).await;
        }
        let share = self.share();
        self.slices.rest(slice, left, share, || running.is_stopped()).await;
    }

    /// Returns the share of the core for one of the running compactions.
    fn share(&mut self) -> f64 {
        if self.share_found.is_none_or(|at| at.elapsed() > BACKLOG_PERIOD) {
            let backlog = self.load.backlog();
            self.running = self.load.running_compactions().max(1) as f64;
            (self.wanted_share, self.lag) = (wanted_share(backlog), backlog.lag());
            self.share_found = Some(Instant::now());
        }
        let most = if self.load.is_flushing() {
            MAX_SHARE_BESIDE_FLUSH + (MAX_SHARE - MAX_SHARE_BESIDE_FLUSH) * self.lag
        } else {
            MAX_SHARE
        };
        self.wanted_share.min(most) / self.running
    }

    /// Sets the number of times that each byte is read.
    pub(crate) fn reads_times(&mut self, times: u64) {
        self.times = times;
    }

    /// Waits until the bytes read so far are within the limit.
    async fn keep_within(&mut self, running: &Running) -> Result<(), Ended> {
        let bytes = running.completed_bytes.get().saturating_mul(self.times);
        let more = bytes.saturating_sub(self.bytes);
        if more < THROTTLED_BYTES {
            return Ok(());
        }
        self.bytes = bytes;
        let more = running.as_stored(more);
        let elapsed_s = self.started.elapsed().as_secs_f64();
        let limit = self.load.throughput().bytes_per_second();
        if limit != self.bytes_per_second {
            self.bytes_per_second = limit;
            // Bytes read under the previous limit count neither as debt nor as credit.
            self.paid_s = elapsed_s;
        }
        let Some(limit) = limit else { return Ok(()) };
        let of_shard = limit as f64 / self.load.shard_count().max(1) as f64;
        let others = self.load.running_compactions().max(1) as f64;
        self.paid_s = self.paid_s.max(elapsed_s - BURST_S) + more as f64 * others / of_shard;
        loop {
            let left_s = self.paid_s - self.started.elapsed().as_secs_f64();
            if left_s <= 0.0 {
                return Ok(());
            }
            if running.is_stopped() {
                return Err(Ended::Stopped);
            }
            let pause = Duration::from_secs_f64(left_s.min(POLL_INTERVAL.as_secs_f64()));
            // A change of the limit ends the pause, because its length depends on the old limit.
            let changed = self.load.throughput().changed();
            let is_changed = time::timeout(pause, changed).await.is_ok();
            self.slices.begin_slice();
            if is_changed {
                return Ok(());
            }
        }
    }
}

/// Returns the share of the core that all compactions of a shard want.
fn wanted_share(backlog: CompactionBacklog) -> f64 {
    let of_waiting = SHARE_OF_WAITING * backlog.pending as f64;
    MIN_SHARE + of_waiting.max(SHARE_OF_DEPTH * backlog.lag())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_follows_what_waits_and_how_deep_files_lie() {
        let share = |pending, score| wanted_share(CompactionBacklog { pending, score });
        assert_eq!(share(0, 0), 0.25);
        assert_eq!(share(2, 24), 0.5);
        assert_eq!(share(1, 36), 0.5);
        assert_eq!(share(1, 48), MAX_SHARE);
        assert_eq!(share(1, 1000), MAX_SHARE);
    }
}
