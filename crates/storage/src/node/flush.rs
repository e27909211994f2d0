//! Flushes on demand, on all shards.

use espalier_mutation::schema::TableId;
use futures_util::future::LocalBoxFuture;

use super::Node;
use crate::{FirstFailure, StorageError, flush::flush_tables};

impl Node {
    /// Flushes the memtables of a keyspace, or of one table of it, on all shards.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or table is unknown, or with the first failure of a flush.
    pub fn flush<'a>(
        &'a self,
        keyspace: &'a str,
        table: Option<&'a str>,
    ) -> LocalBoxFuture<'a, Result<(), StorageError>> {
        Box::pin(async move {
            let ids = self.store().tables.named(keyspace, table)?;
            self.flush_tables(ids).await
        })
    }

    /// Flushes the memtables of tables on all shards.
    pub(super) async fn flush_tables(&self, ids: Vec<TableId>) -> Result<(), StorageError> {
        let outcomes = self.on_all_shards(move |node| async move {
            // Tables that were dropped meanwhile, or that only another shard has, are left out.
            let store = node.store();
            let tables = ids.into_iter().filter_map(|id| store.tables.get(id).ok()).collect();
            flush_tables(store, tables).await
        });
        FirstFailure::of_shards(outcomes.await)
    }
}
