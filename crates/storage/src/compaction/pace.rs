//! Keeps a compaction from holding the core while others wait for it, to a share of the core while they have much to do, and within
//! `compaction_throughput`.
//!
//! Where others are busy, compactions of a shard have a quarter of the core together, and more as they fall behind, but no more than
//! half beside a flush: writes go no faster than it makes room for them. Where nobody else wants the core they have all of it.

use std::time::Duration;

use espalier_runtime::{
    time::{self, Instant},
    yield_now,
};

use crate::Database;

/// After so many µs of work the others have their turn: less than the budget of a task, for this is nobody's request.
const SLICE_US: u128 = 200;
/// How long it waits between two slices while a flush needs the core.
const FLUSH_PAUSE: Duration = Duration::from_millis(5);
/// Of a slice: if others took less than that when they had their turn, there was nothing to do.
const IDLE_PART: u32 = 4;
/// The share of the core: of compactions that keep up, what each that waits adds, and at most, which is less beside a flush.
const LEAST_SHARE: f64 = 0.25;
const SHARE_OF_WAITING: f64 = 0.125;
const MOST_SHARE: f64 = 0.75;
const MOST_SHARE_BESIDE_FLUSH: f64 = 0.5;
/// How often it is asked how many wait.
const BACKLOG_PERIOD: Duration = Duration::from_secs(1);
/// Bytes between two looks at `compaction_throughput`.
const THROTTLED_BYTES: u64 = 256 << 10;
/// Seconds that were not used and may be made up for.
const BURST_S: f64 = 1.0;

pub(super) struct Pace {
    database: Database,
    slice: Instant,
    /// Of the core, what all of them ask for while others are busy, how many run, and when that was found.
    wanted_share: f64,
    running: f64,
    share_found: Option<Instant>,
    started: Instant,
    /// Bytes a second of all shards, as they were when it was looked last.
    bytes_per_second: Option<u64>,
    /// When what was done so far is paid for, in seconds since the start.
    paid_s: f64,
    bytes: u64,
}

impl Pace {
    pub(super) fn new(database: &Database) -> Self {
        let now = Instant::now();
        Self {
            database: database.clone(),
            slice: now,
            wanted_share: LEAST_SHARE,
            running: 1.0,
            share_found: None,
            started: now,
            bytes_per_second: database.compaction_bytes_per_second(),
            paid_s: 0.0,
            bytes: 0,
        }
    }

    /// Gives way if the slice is over; nearly all of the time to a flush that writes may soon wait for.
    pub(super) async fn keep(&mut self) {
        let worked = self.slice.elapsed();
        if worked.as_micros() >= SLICE_US {
            let left = Instant::now();
            yield_now().await;
            if self.database.is_flush_urgent() {
                time::sleep(FLUSH_PAUSE).await;
            }
            let others = left.elapsed();
            let due = worked.mul_f64(1.0 / self.share() - 1.0);
            if others * IDLE_PART > worked && others < due {
                time::sleep(due - others).await;
            }
            self.slice = Instant::now();
        }
    }

    /// The share of one of the compactions that run.
    fn share(&mut self) -> f64 {
        if self.share_found.is_none_or(|at| at.elapsed() > BACKLOG_PERIOD) {
            let waiting = self.database.pending_compactions_here() as f64;
            self.running = self.database.running_compactions().len().max(1) as f64;
            self.wanted_share = LEAST_SHARE + SHARE_OF_WAITING * waiting;
            self.share_found = Some(Instant::now());
        }
        let most = match self.database.is_flushing() {
            true => MOST_SHARE_BESIDE_FLUSH,
            false => MOST_SHARE,
        };
        self.wanted_share.min(most) / self.running
    }

    /// Waits until so many bytes in all may have been read.
    pub(super) async fn keep_within(&mut self, bytes: u64) {
        let more = bytes.saturating_sub(self.bytes);
        if more < THROTTLED_BYTES {
            return;
        }
        self.bytes = bytes;
        let elapsed_s = self.started.elapsed().as_secs_f64();
        let limit = self.database.compaction_bytes_per_second();
        if limit != self.bytes_per_second {
            self.bytes_per_second = limit;
            // What was read by another limit is neither owed nor saved.
            self.paid_s = elapsed_s;
        }
        let Some(limit) = limit else { return };
        let of_shard = limit as f64 / self.database.shard().count.max(1) as f64;
        let others = self.database.running_compactions().len().max(1) as f64;
        self.paid_s = self.paid_s.max(elapsed_s - BURST_S) + more as f64 * others / of_shard;
        if self.paid_s > elapsed_s {
            let pause = Duration::from_secs_f64((self.paid_s - elapsed_s).min(10.0));
            // Who makes the limit another one need not wait for the end of a pause by this one.
            let _ = time::timeout(pause, self.database.compaction_throughput().changed()).await;
            self.slice = Instant::now();
        }
    }
}
