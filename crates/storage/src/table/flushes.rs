//! The flushes of a table on one shard.

use std::cell::{Cell, RefCell};

use espalier_runtime::{sync::Semaphore, time::Instant};

use super::flush_clock::FlushClock;

/// The state of a table's flushes.
pub(crate) struct TableFlushes {
    /// Held by a flush, a truncation or a drop of the table: one at a time.
    pub(crate) lock: Semaphore,
    pub(crate) clock: FlushClock,
    /// The time at which the scheduler may retry a failed flush.
    pub(crate) retry_at: Cell<Option<Instant>>,
    /// Mean of the stored bytes of Data.db that a flush makes.
    mean_bytes: Cell<u64>,
    /// The error of the last flush, if it failed.
    failure: RefCell<Option<String>>,
}

impl Default for TableFlushes {
    fn default() -> Self {
        Self {
            lock: Semaphore::new(1),
            clock: FlushClock::default(),
            retry_at: Cell::default(),
            mean_bytes: Cell::new(0),
            failure: RefCell::default(),
        }
    }
}

impl TableFlushes {
    /// Returns the error of the last flush, if it failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    pub(crate) fn set_failure(&self, reason: Option<String>) {
        *self.failure.borrow_mut() = reason;
    }

    /// Returns the mean of the stored bytes of Data.db that recent flushes made; 0 before the first
    /// one.
    pub(crate) fn mean_bytes(&self) -> u64 {
        self.mean_bytes.get()
    }

    /// Records the stored bytes of Data.db that a flush has made.
    pub(crate) fn record(&self, bytes: u64) {
        let mean = match self.mean_bytes.get() {
            0 => bytes,
            mean => (3 * mean + bytes) / 4,
        };
        self.mean_bytes.set(mean);
    }
}
