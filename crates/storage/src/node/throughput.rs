//! `compaction_throughput`: read from the settings at start, changeable while the node runs.

use super::Compactions;

/// Name of the setting.
const SETTING: &str = "compaction_throughput";

const MEBIBYTE: u64 = 1 << 20;

impl Compactions<'_> {
    /// Returns the bytes per second that compactions of all shards may read; `None` means no limit.
    pub fn bytes_per_second(self) -> Option<u64> {
        self.node.store().compactions.throughput.bytes_per_second()
    }

    /// Changes the limit on all shards, also for running compactions; 0 means no limit. The new
    /// limit is not persisted: the next start reads the settings again.
    pub async fn set_throughput(self, mebibytes_per_second: u64) {
        let bytes = mebibytes_per_second.saturating_mul(MEBIBYTE);
        self.node
            .on_all_shards(move |node| async move {
                node.store().compactions.throughput.set(Some(bytes).filter(|bytes| *bytes > 0));
            })
            .await;
        self.node.store().shared.change_setting(SETTING, format!("{mebibytes_per_second}MiB/s"));
    }
}
