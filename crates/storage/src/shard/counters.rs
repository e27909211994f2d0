//! Counts of a shard since its start, for metrics.

use std::{cell::Cell, time::Duration};

use espalier_compaction::CompactionOutcome;

/// The counts of a shard.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) reads: ReadCounters,
    pub(crate) writes: WriteCounters,
    pub(crate) flushes: FlushCounters,
    pub(crate) compactions: CompactionCounters,
}

#[derive(Default)]
pub(crate) struct ReadCounters {
    pub(crate) all: Cell<u64>,
    /// Reads that found their rows by an index.
    pub(crate) by_index: Cell<u64>,
    pub(crate) passed_entries: Cell<u64>,
}

#[derive(Default)]
pub(crate) struct WriteCounters {
    pub(crate) all: Cell<u64>,
    /// Writes whose acknowledgement the write pace delayed.
    pub(crate) slowed: Cell<u64>,
    pub(crate) replayed: Cell<u64>,
    pub(crate) replay_skipped: Cell<u64>,
}

#[derive(Default)]
pub(crate) struct FlushCounters {
    pub(crate) done: Cell<u64>,
    pub(crate) failed: Cell<u64>,
    pub(crate) bytes: Cell<u64>,
    pub(crate) delayed: Cell<u64>,
    pub(crate) delay_us: Cell<u64>,
}

#[derive(Default)]
pub(crate) struct CompactionCounters {
    pub(crate) done: Cell<u64>,
    pub(crate) failed: Cell<u64>,
    pub(crate) stopped: Cell<u64>,
    pub(crate) bytes_in: Cell<u64>,
    pub(crate) bytes_out: Cell<u64>,
}

#[inline]
pub(crate) fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

impl FlushCounters {
    /// Counts the flush of a memtable of `bytes` bytes.
    pub(crate) fn count(&self, bytes: usize) {
        add(&self.done, 1);
        add(&self.bytes, bytes as u64);
    }

    /// Counts a flush that has waited for compactions.
    pub(crate) fn count_delay(&self, delay: Duration) {
        add(&self.delayed, 1);
        add(&self.delay_us, u64::try_from(delay.as_micros()).unwrap_or(u64::MAX));
    }
}

impl CompactionCounters {
    /// Counts a finished compaction.
    pub(crate) fn count(&self, outcome: &CompactionOutcome) {
        add(&self.done, 1);
        add(&self.bytes_in, outcome.bytes_in);
        add(&self.bytes_out, outcome.bytes_out);
    }
}
