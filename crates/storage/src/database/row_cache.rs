//! The row cache from outside.

use super::Database;
use crate::RowCacheMetrics;

impl Database {
    /// What the row cache of this shard did and holds.
    pub fn row_cache_metrics(&self) -> RowCacheMetrics {
        self.inner.row_cache.metrics()
    }

    /// Changes the limit of this shard's row cache, in bytes; evicts at once what is too much.
    pub fn set_row_cache_limit(&self, limit_bytes: usize) {
        self.inner.row_cache.set_limit(limit_bytes);
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
