//! The row cache from outside.

use std::{sync::Arc, time::Duration};

use espalier_mutation::{DecoratedKey, schema::TableMetadata};
use espalier_runtime::time;

use super::Database;
use crate::{CacheExplanation, RowCacheMetrics, StorageError};

/// How often rows and pages are compared.
const BALANCE_PERIOD: Duration = Duration::from_secs(1);

impl Database {
    /// What the row cache of this shard did and holds.
    pub fn row_cache_metrics(&self) -> RowCacheMetrics {
        self.inner.row_cache.metrics()
    }

    /// Changes the limit of this shard's row cache, in bytes; evicts at once what is too much.
    pub fn set_row_cache_limit(&self, limit_bytes: usize) {
        self.inner.row_cache.set_limit(limit_bytes);
    }

    /// Gives rows and pages of this shard what they need of the memory that they share; the node does so every second.
    pub async fn balance_caches(&self) {
        self.inner.row_cache.balance().await;
    }

    /// Does it until the database closes.
    pub(super) async fn keep_caches_balanced(self) {
        while !self.is_closing() {
            time::sleep(BALANCE_PERIOD).await;
            self.balance_caches().await;
        }
    }

    /// What the row cache knows of a partition, on the shard that has it.
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

    /// Forgets all that is held of files, on all shards: cached rows, and pages of data and indexes. What memtables hold is not touched.
    pub async fn drop_caches(&self) {
        self.forget_cached_rows().await;
        self.on_all_shards(|database| async move {
            let pages = database.inner.page_cache.clone();
            pages.forget_pages().await;
        })
        .await;
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
