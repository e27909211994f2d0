//! The row cache and the page cache of a shard, which share one limit.

use std::{rc::Rc, time::Duration};

use espalier_cache::RowCache;
use espalier_memtable::MemtableBudget;
use espalier_runtime::{ShardContext, time};
use espalier_sstable::PageCache;

use super::ShardStore;
use crate::StorageConfiguration;

/// Period at which memory is rebalanced between the row cache and the page cache.
const SPLIT_PERIOD: Duration = Duration::from_secs(1);

/// The caches of a shard.
pub(crate) struct Caches {
    pub(crate) rows: RowCache,
    pub(crate) pages: PageCache,
}

impl Caches {
    pub(super) fn new(
        context: ShardContext,
        configuration: &StorageConfiguration,
        memtables: &MemtableBudget,
    ) -> Self {
        let bytes = configuration.caches.page_cache_bytes / context.count.max(1);
        let pages = PageCache::new(bytes);
        pages.keep_index_pages(configuration.caches.enable_index_cache);
        let row_bytes = configuration.caches.row_cache_bytes / context.count.max(1);
        let rows = RowCache::new(row_bytes.min(bytes), pages.clone(), bytes, memtables.clone());
        Self { rows, pages }
    }
}

/// Rebalances the memory of the caches until the store closes.
pub(crate) async fn keep_memory_split(store: Rc<ShardStore>) {
    while !store.is_closing() {
        time::sleep(SPLIT_PERIOD).await;
        store.caches.rows.split_memory().await;
    }
}
