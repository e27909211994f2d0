//! This module holds the limit `compaction_throughput` for a shard. Operators change it while the
//! node runs.

use std::cell::Cell;

use espalier_runtime::sync::Notify;

/// A shard's view of the limit of the node.
pub struct Throughput {
    bytes_per_second: Cell<Option<u64>>,
    changed: Notify,
}

impl Throughput {
    /// Creates the limit in bytes per second for all shards together; `None` means no limit.
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second: Cell::new(bytes_per_second), changed: Notify::new() }
    }

    /// Returns the limit in bytes per second for all shards together; `None` means no limit.
    pub fn bytes_per_second(&self) -> Option<u64> {
        self.bytes_per_second.get()
    }

    /// Changes the limit, also for running compactions.
    pub fn set(&self, bytes_per_second: Option<u64>) {
        self.bytes_per_second.set(bytes_per_second);
        self.changed.notify_all();
    }

    /// Waits until the limit changes.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}
