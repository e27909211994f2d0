//! Metrics and maintenance of the caches: limits, balance, invalidation.

use std::{sync::Arc, time::Duration};

use espalier_mutation::{DecoratedKey, schema::TableMetadata};
use espalier_runtime::time;

use super::Database;
use crate::{CacheExplanation, RowCacheMetrics, StorageError};

/// Period at which memory is rebalanced between the row cache and the page cache.
const SPLIT_PERIOD: Duration = Duration::from_secs(1);

impl Database {
    /// Returns the counters and gauges of this shard's row cache.
    pub fn row_cache_metrics(&self) -> RowCacheMetrics {
        self.inner.row_cache.metrics()
    }

    /// Changes the limit of this shard's row cache, in bytes, and evicts the excess at once.
    pub fn set_row_cache_limit(&self, limit_bytes: usize) {
        self.inner.row_cache.set_limit(limit_bytes);
    }

    /// Rebalances the memory that this shard's row cache and page cache share; the node does so
    /// every second.
    pub async fn split_cache_memory(&self) {
        self.inner.row_cache.split_memory().await;
    }

    /// Rebalances until the database closes.
    pub(super) async fn keep_cache_memory_split(self) {
        while !self.is_closing() {
            time::sleep(SPLIT_PERIOD).await;
            self.split_cache_memory().await;
        }
    }

    /// Explains which rows and ranges of a partition are cached, on the shard that owns it.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown.
    pub async fn explain_cached(
        &self,
        table: &Arc<TableMetadata>,
        key: DecoratedKey,
    ) -> Result<CacheExplanation, StorageError> {
        let (shard, id) = (self.shard_of(table, &key), table.id);
        let explain = move |database: Database| async move {
            let table = database.table(id)?;
            Ok(table.cache().explain(&table.metadata(), &key).await)
        };
        self.on_shard(shard, explain).await
    }

    /// Drops all cached rows, and all cached pages of data and indexes, on all shards. Memtables
    /// are not touched.
    pub async fn drop_caches(&self) {
        self.forget_cached_rows().await;
        self.on_all_shards(|database| async move {
            let pages = database.inner.page_cache.clone();
            pages.forget_pages().await;
        })
        .await;
    }

    /// Drops all cached rows, on all shards. Their memory is freed in steps.
    pub async fn forget_cached_rows(&self) {
        self.on_all_shards(|database| async move {
            for table in database.inner.tables.borrow().values() {
                table.cache().forget();
            }
        })
        .await;
    }
}
