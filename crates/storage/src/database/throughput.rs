//! `compaction_throughput`: read from the settings at the start, and changed while the node runs.

use super::Database;
use crate::compaction::Throughput;

/// By its name among the settings.
const SETTING: &str = "compaction_throughput";
const MEBIBYTE: u64 = 1 << 20;

impl Database {
    /// Bytes a second that compactions of all shards may read; `None`: as many as they can.
    pub fn compaction_bytes_per_second(&self) -> Option<u64> {
        self.inner.compaction_throughput.bytes_per_second()
    }

    /// Changes that, 0 for as many as they can, on all shards and for compactions that run as well. It is not kept: the next start reads
    /// the settings again.
    pub async fn set_compaction_throughput(&self, mebibytes_per_second: u64) {
        let bytes = mebibytes_per_second.saturating_mul(MEBIBYTE);
        self.on_all_shards(move |database| async move {
            database.inner.compaction_throughput.set(Some(bytes).filter(|bytes| *bytes > 0));
        })
        .await;
        self.inner.shared.change_setting(SETTING, format!("{mebibytes_per_second}MiB/s"));
    }

    pub(crate) fn compaction_throughput(&self) -> &Throughput {
        &self.inner.compaction_throughput
    }
}
