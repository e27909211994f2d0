//! Stops, enables and limits compactions, and reports running and pending ones.

use std::{rc::Rc, sync::Arc};

use espalier_compaction::{CompactionKind, CompactionProgress};
use espalier_mutation::schema::TableId;
use futures_util::future::LocalBoxFuture;

use super::{Compactions, Node};
use crate::{
    FirstFailure, StorageError,
    compaction::{RequestedCompactions, pending_of, progress},
    table::Table,
};

const MEBIBYTE: u64 = 1 << 20;

impl Node {
    /// Calls `work` for the tables on all shards; one shard works on its tables one after another.
    /// A failure does not stop the work on the following tables, unless it is a stop request or a
    /// shutdown. Returns the first failure.
    pub(super) async fn for_tables<F>(
        &self,
        ids: Vec<TableId>,
        work: impl Fn(Node, Rc<Table>) -> F + Clone + Send + 'static,
    ) -> Result<(), StorageError>
    where
        F: Future<Output = Result<(), StorageError>> + 'static,
    {
        let outcomes = self.on_all_shards(move |node| async move {
            let mut failure = FirstFailure::none();
            for id in ids {
                // Skip a table that was dropped meanwhile or that only another shard has.
                if let Ok(table) = node.store().tables.get(id) {
                    failure.keep(work(node.clone(), table).await)?;
                }
            }
            failure.into_result()
        });
        FirstFailure::of_shards(outcomes.await)
    }
}

impl<'n> Compactions<'n> {
    /// Rewrites each SSTable of a keyspace, or of one table of it. With `only_others`, rewrites
    /// only SSTables of another version than the current one. A file that cannot be read does not
    /// keep the others from being rewritten.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or table is unknown, if the rewrite is stopped, or with the first
    /// failure of a file.
    pub fn upgrade_sstables(
        self,
        keyspace: &'n str,
        table: Option<&'n str>,
        only_others: bool,
    ) -> LocalBoxFuture<'n, Result<(), StorageError>> {
        Box::pin(async move {
            let ids = self.node.store().tables.named(keyspace, table)?;
            let seen = self.stop_requests().await;
            let upgrade = async move |requests: RequestedCompactions<'_>| {
                requests.upgrade_all(only_others).await
            };
            self.perform(ids, &seen, upgrade).await
        })
    }

    /// Stops the running compactions of these kinds and removes their output. Later compactions
    /// start as usual.
    pub async fn stop(self, kinds: &'static [CompactionKind]) {
        self.node
            .on_all_shards(move |node| async move {
                let request = node.store().compactions.count_stop_request();
                for table in node.store().tables.all() {
                    table.compactions.stop(request, kinds);
                }
            })
            .await;
    }

    /// Stops the running compactions of these kinds in a keyspace, or in some tables of it.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or a table is unknown.
    pub async fn stop_of(
        self,
        keyspace: &str,
        tables: &[&str],
        kinds: &'static [CompactionKind],
    ) -> Result<(), StorageError> {
        let ids = self.node.store().tables.listed(keyspace, tables)?;
        self.node
            .on_all_shards(move |node| async move {
                let request = node.store().compactions.count_stop_request();
                for table in ids.into_iter().filter_map(|id| node.store().tables.get(id).ok()) {
                    table.compactions.stop(request, kinds);
                }
            })
            .await;
        Ok(())
    }

    /// Enables or disables automatic compactions of a keyspace, or of some tables of it. The
    /// setting holds until the node stops or the table's `compaction` is altered. Running
    /// compactions continue.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or a table is unknown.
    pub async fn set_auto_enabled(
        self,
        keyspace: &str,
        tables: &[&str],
        is_enabled: bool,
    ) -> Result<(), StorageError> {
        let ids = self.node.store().tables.listed(keyspace, tables)?;
        self.node
            .on_all_shards(move |node| async move {
                for table in ids.into_iter().filter_map(|id| node.store().tables.get(id).ok()) {
                    table.set_compacted_by_itself(is_enabled);
                }
                node.store().wakers.compaction.notify_one();
            })
            .await;
        Ok(())
    }

    /// Returns whether compactions of a table start automatically.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or the table is unknown.
    pub fn is_auto_enabled(self, keyspace: &str, table: &str) -> Result<bool, StorageError> {
        let mut ids = self.node.store().tables.listed(keyspace, &[table])?.into_iter();
        let Some(id) = ids.next() else { return Ok(false) };
        // Every shard has the same setting.
        Ok(self.node.store().tables.get(id)?.compaction_strategy().is_enabled())
    }

    /// Returns the bytes per second that compactions of all shards may read; `None` means no limit.
    pub fn bytes_per_second(self) -> Option<u64> {
        self.node.store().compactions.throughput.bytes_per_second()
    }

    /// Changes the limit on all shards, also for running compactions; 0 means no limit. The new
    /// limit is not persisted: the next start reads the setting `compaction_throughput` again.
    pub async fn set_throughput(self, mebibytes_per_second: u64) {
        let bytes = mebibytes_per_second.saturating_mul(MEBIBYTE);
        self.node
            .on_all_shards(move |node| async move {
                node.store().compactions.throughput.set(Some(bytes).filter(|bytes| *bytes > 0));
            })
            .await;
        let value = format!("{mebibytes_per_second}MiB/s");
        self.node.store().shared.change_setting("compaction_throughput", value);
    }

    /// Returns the number of stop requests so far, by shard. A caller that starts a compaction
    /// keeps the result and ends the compaction when the number grows.
    pub(super) async fn stop_requests(self) -> StopRequests {
        let seen = self
            .node
            .on_all_shards(|node| async move { node.store().compactions.stop_requests.get() });
        StopRequests(seen.await.into())
    }

    /// Performs compactions on request for the tables on all shards, as [`Node::for_tables`] does.
    /// The compactions end if a stop is requested after the requests `seen`.
    pub(super) async fn perform(
        self,
        ids: Vec<TableId>,
        seen: &StopRequests,
        work: impl AsyncFn(RequestedCompactions<'_>) -> Result<(), StorageError>
        + Clone
        + Send
        + 'static,
    ) -> Result<(), StorageError> {
        let seen = seen.clone();
        let of_table = move |node: Node, table: Rc<Table>| {
            let (seen, work) = (seen.clone(), work.clone());
            async move { work(seen.requests(&node, &table)).await }
        };
        self.node.for_tables(ids, of_table).await
    }

    /// Returns the progress of the compactions that run on all shards.
    pub async fn running(self) -> Vec<CompactionProgress> {
        let all = self.node.on_all_shards(|node| async move { progress(node.store()) });
        all.await.concat()
    }

    /// Returns the number of pending compactions on all shards, by keyspace and table.
    pub async fn pending(self) -> Vec<(String, String, usize)> {
        let counts = self.node.on_all_shards(|node| async move {
            let count = |table: Rc<Table>| {
                let (metadata, pending) = (table.metadata(), pending_of(node.store(), &table));
                (metadata.keyspace.clone(), metadata.name.clone(), pending)
            };
            node.store().tables.all().into_iter().map(count).collect::<Vec<_>>()
        });
        let mut counts = counts.await.concat();
        counts.retain(|(_, _, pending)| *pending > 0);
        counts.sort();
        counts.dedup_by(|right, left| {
            let is_same = (&left.0, &left.1) == (&right.0, &right.1);
            left.2 += if is_same { right.2 } else { 0 };
            is_same
        });
        counts
    }
}

/// The number of stop requests of each shard, taken when a compaction on demand starts.
#[derive(Clone)]
pub(super) struct StopRequests(Arc<[u64]>);

impl StopRequests {
    /// Returns the compactions of a table on request, which end if they are asked to stop after
    /// these requests.
    pub(super) fn requests<'s>(
        &self,
        node: &'s Node,
        table: &'s Rc<Table>,
    ) -> RequestedCompactions<'s> {
        let store = node.store();
        let seen = self.0.get(store.shard().index).copied().unwrap_or_default();
        RequestedCompactions { store, table, seen }
    }
}
