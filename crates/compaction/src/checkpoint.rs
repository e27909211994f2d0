//! A checkpoint between two steps of a compaction: it yields, ends the compaction if it was
//! stopped, and keeps it within `compaction_throughput`.
//!
//! The scheduling group of the task sets the share of the core and the disk.

use std::{future::poll_fn, pin::Pin, rc::Rc, task::Poll, time::Duration};

use espalier_runtime::{
    maybe_yield,
    time::{self, Instant},
};

use crate::{Running, ShardLoad, ended::Ended};

/// Bytes between two checks of `compaction_throughput`.
const THROTTLED_BYTES: u64 = 256 << 10;
/// Seconds of unused throughput that a compaction may catch up on.
const BURST_S: f64 = 1.0;
/// Interval of the check for a stop while a compaction waits for `compaction_throughput`.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Checkpoint<'a> {
    running: &'a Running,
    load: Rc<dyn ShardLoad>,
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

impl<'a> Checkpoint<'a> {
    pub(crate) fn new(running: &'a Running, load: Rc<dyn ShardLoad>) -> Self {
        Self {
            running,
            started: Instant::now(),
            bytes_per_second: load.throughput().bytes_per_second(),
            load,
            paid_s: 0.0,
            bytes: 0,
            times: 1,
        }
    }

    /// Gives other tasks a turn if it is time, and waits until the bytes read are within the limit.
    /// Fails if the compaction was stopped.
    #[inline]
    pub(crate) async fn pass(&mut self) -> Result<(), Ended> {
        maybe_yield().await;
        self.check().await
    }

    /// Runs work that yields by itself, with a checkpoint after each time that it waits or yields.
    /// The caller pins the work, because this function would copy a future that it gets by value.
    pub(crate) async fn around<T>(
        &mut self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Ended> {
        loop {
            let mut is_begun = false;
            // This future ends when it is polled a second time, so the checkpoint precedes more
            // work.
            let done = poll_fn(|context| {
                if std::mem::replace(&mut is_begun, true) {
                    return Poll::Ready(None);
                }
                work.as_mut().poll(context).map(Some)
            });
            if let Some(done) = done.await {
                return Ok(done);
            }
            self.check().await?;
        }
    }

    /// Sets the number of times that each byte is read.
    pub(crate) fn reads_times(&mut self, times: u64) {
        self.times = times;
    }

    #[inline]
    async fn check(&mut self) -> Result<(), Ended> {
        if self.running.is_stopped() {
            return Err(Ended::Stopped);
        }
        let bytes = self.running.completed_bytes.get().saturating_mul(self.times);
        let more = bytes.saturating_sub(self.bytes);
        if more < THROTTLED_BYTES {
            return Ok(());
        }
        self.bytes = bytes;
        self.wait_for_throughput(more).await
    }

    /// Waits until the bytes read so far are within the limit. `more` of them are new since the
    /// last check.
    async fn wait_for_throughput(&mut self, more: u64) -> Result<(), Ended> {
        let more = self.running.as_stored(more);
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
            if self.running.is_stopped() {
                return Err(Ended::Stopped);
            }
            let pause = Duration::from_secs_f64(left_s.min(POLL_INTERVAL.as_secs_f64()));
            // A change of the limit ends the pause, because its length depends on the old limit.
            let changed = self.load.throughput().changed();
            if time::timeout(pause, changed).await.is_ok() {
                return Ok(());
            }
        }
    }
}
