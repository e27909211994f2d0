//! The times that decide whether a memtable is flushed although memory is free.

use std::{cell::Cell, time::Duration};

use espalier_runtime::time::Instant;

/// The times at which a table's memtable became dirty and idle, as the checks have seen them.
#[derive(Default)]
pub(crate) struct FlushClock {
    /// Number of the memtable, and the time of the first check at which it held data.
    dirty: Cell<Option<(u64, Instant)>>,
    /// Number of writes, and the time of the first check at which it had this value.
    written: Cell<Option<(u64, Instant)>>,
}

impl FlushClock {
    /// Returns the time since a check first saw data in the memtable of this number.
    pub(crate) fn dirty_time(&self, memtable: u64, now: Instant) -> Duration {
        since(&self.dirty, memtable, now)
    }

    /// Returns the time since a check first saw this number of writes.
    pub(crate) fn idle_time(&self, writes: u64, now: Instant) -> Duration {
        since(&self.written, writes, now)
    }

    /// Records that the memtable holds no data.
    pub(crate) fn record_empty(&self) {
        self.dirty.set(None);
    }
}

/// Returns the time since `clock` first saw `value`; zero if the value is new.
fn since(clock: &Cell<Option<(u64, Instant)>>, value: u64, now: Instant) -> Duration {
    let first = match clock.get() {
        Some((met, first)) if met == value => first,
        _ => now,
    };
    clock.set(Some((value, first)));
    now.since(first)
}
