//! Keeps a compaction from holding the core while others wait for it, to a share of the core while they have much to do, to the same share of the time
//! in waiting for the disk while their reads wait, too, and within `compaction_throughput`.
//!
//! Where others are busy, compactions of a shard have a quarter of the core together, and more as they fall behind: an eighth for each that waits,
//! and where files lie over each other half as deep as flushes wait for them, by depth up to half of the core more. Three quarters are the most, and beside
//! a flush three eighths, up to three quarters by depth, too: writes go no faster than it makes room for them. Where nobody else wants the core they have all of it.

use std::{future::poll_fn, pin::pin, rc::Rc, task::Poll, time::Duration};

use espalier_runtime::{
    file::DiskWaits,
    time::{self, Instant},
    yield_now,
};

use super::{backlog::CompactionBacklog, copy::Ended, progress::Running};
use crate::{
    Database,
    background_share::{BackgroundShare, Slice},
};

/// How long it waits between two slices while a flush needs the core.
const FLUSH_PAUSE: Duration = Duration::from_millis(5);
/// The share of the core: of compactions that keep up, what each that waits adds, what depth does, and at most, which is less beside a flush.
const LEAST_SHARE: f64 = 0.25;
const SHARE_OF_WAITING: f64 = 0.125;
const SHARE_OF_DEPTH: f64 = 0.5;
const MOST_SHARE: f64 = 0.75;
const MOST_SHARE_BESIDE_FLUSH: f64 = 0.375;
/// How often it is asked how many wait.
const BACKLOG_PERIOD: Duration = Duration::from_secs(1);
/// Bytes between two looks at `compaction_throughput`.
const THROTTLED_BYTES: u64 = 256 << 10;
/// Seconds that were not used and may be made up for.
const BURST_S: f64 = 1.0;
/// How long nobody is heard who stops a compaction that reads too fast.
const DEAF: Duration = Duration::from_millis(100);

pub(super) struct Pace {
    database: Database,
    slices: BackgroundShare,
    waits: Rc<DiskWaits>,
    /// Of the core, what all of them ask for while others are busy, how far behind they are, how many run, and when that was found.
    wanted_share: f64,
    lag: f64,
    running: f64,
    share_found: Option<Instant>,
    started: Instant,
    /// Bytes a second of all shards, as files have them, as it was looked last.
    bytes_per_second: Option<u64>,
    /// When what was done so far is paid for, in seconds since the start.
    paid_s: f64,
    /// Before compression.
    bytes: u64,
    /// How often each byte is read.
    times: u64,
}

impl Pace {
    pub(super) fn new(database: &Database) -> Self {
        let now = Instant::now();
        Self {
            database: database.clone(),
            slices: BackgroundShare::new(),
            waits: Rc::default(),
            wanted_share: LEAST_SHARE,
            lag: 0.0,
            running: 1.0,
            share_found: None,
            started: now,
            bytes_per_second: database.compaction_bytes_per_second(),
            paid_s: 0.0,
            bytes: 0,
            times: 1,
        }
    }

    /// Where the waits for the disk are counted of what is done at this pace.
    pub(super) fn waits(&self) -> Rc<DiskWaits> {
        self.waits.clone()
    }

    /// Looks around: ends if it was stopped, gives way if the slice is over, and waits if more was read than `compaction_throughput` says.
    pub(super) async fn look(&mut self, running: &Running) -> Result<(), Ended> {
        self.keep(running).await;
        if running.is_stopped() {
            return Err(Ended::Stopped);
        }
        self.keep_within(running).await
    }

    /// Does work that gives way by itself, with the pauses of a compaction; not to its end if that is stopped.
    pub(super) async fn paced<T>(
        &mut self,
        work: impl Future<Output = T>,
        running: &Running,
    ) -> Result<T, Ended> {
        let mut work = pin!(work);
        loop {
            let mut is_begun = false;
            // Ends when the work goes on, so that a pause comes before that.
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

    /// Gives way if the slice is over; nearly all of the time to a flush that writes may soon wait for.
    async fn keep(&mut self, running: &Running) {
        let Some(worked) = self.slices.worked(self.waits.all()) else { return };
        let slice = Slice { worked, waited: self.waits.take_contended() };
        let left = Instant::now();
        yield_now().await;
        if self.database.is_flush_urgent() {
            time::sleep(FLUSH_PAUSE).await;
        }
        let share = self.share();
        self.slices.rest(slice, left, share, || running.is_stopped()).await;
    }

    /// The share of one of the compactions that run.
    fn share(&mut self) -> f64 {
        if self.share_found.is_none_or(|at| at.elapsed() > BACKLOG_PERIOD) {
            let backlog = self.database.compaction_backlog_here();
            self.running = self.database.running_compactions().len().max(1) as f64;
            (self.wanted_share, self.lag) = (wanted_share(backlog), backlog.lag());
            self.share_found = Some(Instant::now());
        }
        let most = match self.database.is_flushing() {
            true => MOST_SHARE_BESIDE_FLUSH + (MOST_SHARE - MOST_SHARE_BESIDE_FLUSH) * self.lag,
            false => MOST_SHARE,
        };
        self.wanted_share.min(most) / self.running
    }

    /// Each byte is read so many times.
    pub(super) fn reads_times(&mut self, times: u64) {
        self.times = times;
    }

    /// Waits until as much as was read by now may have been.
    async fn keep_within(&mut self, running: &Running) -> Result<(), Ended> {
        let bytes = running.completed_bytes.get().saturating_mul(self.times);
        let more = bytes.saturating_sub(self.bytes);
        if more < THROTTLED_BYTES {
            return Ok(());
        }
        self.bytes = bytes;
        let more = running.as_stored(more);
        let elapsed_s = self.started.elapsed().as_secs_f64();
        let limit = self.database.compaction_bytes_per_second();
        if limit != self.bytes_per_second {
            self.bytes_per_second = limit;
            // What was read by another limit is neither owed nor saved.
            self.paid_s = elapsed_s;
        }
        let Some(limit) = limit else { return Ok(()) };
        let of_shard = limit as f64 / self.database.shard().count.max(1) as f64;
        let others = self.database.running_compactions().len().max(1) as f64;
        self.paid_s = self.paid_s.max(elapsed_s - BURST_S) + more as f64 * others / of_shard;
        loop {
            let left_s = self.paid_s - self.started.elapsed().as_secs_f64();
            if left_s <= 0.0 {
                return Ok(());
            }
            if running.is_stopped() {
                return Err(Ended::Stopped);
            }
            let pause = Duration::from_secs_f64(left_s.min(DEAF.as_secs_f64()));
            // Who makes the limit another one need not wait for the end of a pause by this one.
            let changed = self.database.compaction_throughput().changed();
            let is_changed = time::timeout(pause, changed).await.is_ok();
            self.slices.begin_slice();
            if is_changed {
                return Ok(());
            }
        }
    }
}

/// Of the core, what all compactions of a shard ask for.
fn wanted_share(backlog: CompactionBacklog) -> f64 {
    let of_waiting = SHARE_OF_WAITING * backlog.pending as f64;
    LEAST_SHARE + of_waiting.max(SHARE_OF_DEPTH * backlog.lag())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_follows_what_waits_and_how_deep_files_lie() {
        let share = |pending, surplus| wanted_share(CompactionBacklog { pending, surplus });
        assert_eq!(share(0, 0), 0.25);
        assert_eq!(share(2, 24), 0.5);
        assert_eq!(share(1, 36), 0.5);
        assert_eq!(share(1, 48), MOST_SHARE);
        assert_eq!(share(1, 1000), MOST_SHARE);
    }
}
