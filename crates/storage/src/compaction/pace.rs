//! Keeps a compaction from holding the core while others wait for it, and within `compaction_throughput`.

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
/// Bytes between two looks at `compaction_throughput`.
const THROTTLED_BYTES: u64 = 256 << 10;
/// Seconds that were not used and may be made up for.
const BURST_S: f64 = 1.0;

pub(super) struct Pace {
    database: Database,
    slice: Instant,
    started: Instant,
    /// Bytes a second of all compactions of this shard.
    bytes_per_second: Option<f64>,
    /// When what was done so far is paid for, in seconds since the start.
    paid_s: f64,
    bytes: u64,
}

impl Pace {
    pub(super) fn new(database: &Database) -> Self {
        let limit = database.configuration().compaction_bytes_per_second;
        let shards = database.shard().count.max(1) as f64;
        let now = Instant::now();
        Self {
            database: database.clone(),
            slice: now,
            started: now,
            bytes_per_second: limit.map(|bytes| bytes as f64 / shards),
            paid_s: 0.0,
            bytes: 0,
        }
    }

    /// Gives way if the slice is over; nearly all of the time to a flush that writes may soon wait for.
    pub(super) async fn keep(&mut self) {
        if self.slice.elapsed().as_micros() >= SLICE_US {
            yield_now().await;
            if self.database.is_flush_urgent() {
                time::sleep(FLUSH_PAUSE).await;
            }
            self.slice = Instant::now();
        }
    }

    /// Waits until so many bytes in all may have been read.
    pub(super) async fn keep_within(&mut self, bytes: u64) {
        let Some(limit) = self.bytes_per_second else { return };
        let more = bytes.saturating_sub(self.bytes);
        if more < THROTTLED_BYTES {
            return;
        }
        self.bytes = bytes;
        let others = self.database.running_compactions().len().max(1) as f64;
        let elapsed_s = self.started.elapsed().as_secs_f64();
        self.paid_s = self.paid_s.max(elapsed_s - BURST_S) + more as f64 * others / limit;
        if self.paid_s > elapsed_s {
            time::sleep(Duration::from_secs_f64((self.paid_s - elapsed_s).min(10.0))).await;
            self.slice = Instant::now();
        }
    }
}
