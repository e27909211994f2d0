//! Orderly shutdown: all memtables are flushed, so the next start has no commit log to replay.

use futures_util::future::LocalBoxFuture;

use super::Database;
use crate::StorageError;

impl Database {
    /// Refuses new writes, flushes all tables on all shards, and closes the logs. If every flush
    /// succeeds the log's files are removed; otherwise they stay, synced, for the next start.
    ///
    /// # Errors
    ///
    /// Fails with the first failure of a flush or of a log.
    pub fn shutdown(&self) -> LocalBoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move {
            let outcomes =
                self.on_all_shards(|database| async move { database.shut_down_here().await });
            outcomes.await.into_iter().collect()
        })
    }

    async fn shut_down_here(&self) -> Result<(), StorageError> {
        if self.inner.is_closing.replace(true) {
            return Ok(());
        }
        self.inner.write_pace.end();
        self.inner.budget.wake_waiters();
        self.inner.compaction_wanted.notify_one();
        self.inner.empty_ranges_queued.notify_one();
        for table in self.tables_here() {
            drop(table.compactions.pause().await);
        }
        let flushed = self.flush_here().await;
        self.inner.flush_wanted.notify_one();
        self.inner.index_wanted.notify_one();
        self.inner.view_build_wanted.notify_one();
        for log in self.logs() {
            log.close().await;
            if flushed.is_ok() {
                log.remove_files().await?;
            }
        }
        flushed
    }
}
