//! Explains the cached rows of a partition, and drops the caches of all shards.

use std::sync::Arc;

use espalier_mutation::{DecoratedKey, schema::TableMetadata};

use super::Node;
use crate::{CacheExplanation, StorageError};

impl Node {
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
        let (shard, id) = (self.store().routing.shard_of(table, &key), table.id);
        let explain = move |node: Node| async move {
            let table = node.store().tables.get(id)?;
            Ok(table.cache().explain(&table.metadata(), &key).await)
        };
        self.on_shard(shard, explain).await
    }

    /// Drops all cached rows, and all cached pages of data and indexes, on all shards. Memtables
    /// are not touched.
    pub async fn drop_caches(&self) {
        self.forget_cached_rows().await;
        self.on_all_shards(|node| async move {
            let pages = node.store().caches.pages.clone();
            pages.forget_pages().await;
        })
        .await;
    }

    /// Drops all cached rows, on all shards. Their memory is freed in steps.
    pub async fn forget_cached_rows(&self) {
        self.on_all_shards(|node| async move {
            for table in node.store().tables.by_id.borrow().values() {
                table.cache().forget();
            }
        })
        .await;
    }
}
