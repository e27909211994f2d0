//! The guardrail on the usage of the disk with the data (`data_disk_usage_percentage_…`).

use std::time::Duration;

use espalier_runtime::time::Instant;
use espalier_storage::guardrails::Limit;

use super::QueryProcessor;
use crate::{Result, guard::Guard, prepared::Plan};

/// Time for which a shard uses the percentage that it has read. Arbitrary: a disk does not fill up
/// in a second.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl QueryProcessor {
    /// Checks the usage of the disk before a statement that writes rows.
    ///
    /// # Errors
    /// The disk is too full.
    pub(super) async fn check_disk_usage(&self, plan: &Plan, guard: Guard<'_>) -> Result<()> {
        let is_write =
            matches!(plan, Plan::Modification(_) | Plan::Batch(_) | Plan::Transaction(_));
        if !is_write || !guard.guardrails.is_limited(Limit::DataDiskUsage) {
            return Ok(());
        }
        // In a box: few nodes set this guardrail, and the future of every statement would reserve
        // space for the look-up.
        let percentage = Box::pin(self.disk_usage()).await;
        guard.check(Limit::DataDiskUsage, percentage, "")
    }

    /// Returns the used percentage of the disk, as of a second ago at most; 0 if it is unknown.
    async fn disk_usage(&self) -> u8 {
        if let Some((seen, percentage)) = self.inner.disk_usage.get()
            && seen.elapsed() < LOOK_INTERVAL
        {
            return percentage;
        }
        let found = self.inner.database.disk_usage_percentage().await;
        let percentage = found.unwrap_or_else(|error| {
            tracing::warn!(%error, "disk usage is unknown, its guardrail lets writes pass");
            0
        });
        self.inner.disk_usage.set(Some((Instant::now(), percentage)));
        percentage
    }
}
