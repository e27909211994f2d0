//! The row cache from outside.

use super::Database;
use crate::RowCacheMetrics;

impl Database {
    /// What the row cache of this shard did and holds.
    pub fn row_cache_metrics(&self) -> RowCacheMetrics {
        self.inner.row_cache.metrics()
    }

    /// Forgets all cached rows, on all shards. What they took is given back in steps.
    pub async fn forget_cached_rows(&self) {
        self.on_all_shards(|database| async move {
            for table in database.inner.tables.borrow().values() {
                table.cache().forget();
            }
        })
        .await;
    }
}
