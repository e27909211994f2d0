//! Orderly shutdown: all memtables are flushed, so the next start has no commit log to replay.

use futures_util::future::LocalBoxFuture;

use super::Node;
use crate::StorageError;

impl Node {
    /// Refuses new writes, flushes all tables on all shards, and closes the logs. If every flush
    /// succeeds the log's files are removed; otherwise they stay, synced, for the next start.
    ///
    /// # Errors
    ///
    /// Fails with the first failure of a flush or of a log.
    pub fn shutdown(&self) -> LocalBoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move {
            let outcomes = self.on_all_shards(|node| async move {
                let closed = node.store().close().await;
                node.inner.views.build_wanted.notify_one();
                closed
            });
            outcomes.await.into_iter().collect()
        })
    }
}
