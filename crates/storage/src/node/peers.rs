//! Connects the background work of each shard's store with the other shards and the node.

use std::rc::{Rc, Weak};

use espalier_compaction::CompactionOutcome;
use espalier_mutation::schema::TableId;
use espalier_runtime::spawn_local;
use espalier_sstable::Descriptor;
use futures_util::future::LocalBoxFuture;
use uuid::Uuid;

use super::{Inner, Node, indexes::record_built_indexes};
use crate::{
    StorageError,
    compaction::{history_update, reserved_bytes},
    shard::{Peers, split_parts},
    table::Table,
};

/// The node of a store. The reference is weak, because the node owns the store.
pub(super) struct NodePeers(Weak<Inner>);

impl NodePeers {
    pub(super) fn of(node: &Node) -> Box<dyn Peers> {
        Box::new(Self(Rc::downgrade(&node.inner)))
    }

    fn node(&self) -> Option<Node> {
        Some(Node { inner: self.0.upgrade()? })
    }
}

impl Peers for NodePeers {
    fn reserved_bytes(&self, device: u64, before: Option<Uuid>) -> LocalBoxFuture<'_, u64> {
        Box::pin(async move {
            let Some(node) = self.node() else { return 0 };
            let bytes = node.on_all_shards(move |node| async move {
                reserved_bytes(node.store(), device, before).await
            });
            bytes.await.into_iter().sum()
        })
    }

    fn stage(
        &self,
        table: TableId,
        split: Uuid,
        parts: Vec<Descriptor>,
    ) -> LocalBoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move {
            let node = self.node().ok_or(StorageError::ShuttingDown)?;
            let staged = node.on_all_shards(move |node| async move {
                split_parts::stage(node.store(), table, split, parts).await
            });
            staged.await.into_iter().collect()
        })
    }

    fn unstage(&self, table: TableId, split: Uuid) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(node) = self.node() else { return };
            node.on_all_shards(move |node| async move {
                split_parts::unstage(node.store(), table, split);
            })
            .await;
        })
    }

    fn exchange(
        &self,
        table: TableId,
        split: Uuid,
        removed: Vec<Descriptor>,
        has_left_out: bool,
    ) -> LocalBoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move {
            let node = self.node().ok_or(StorageError::ShuttingDown)?;
            let exchanged = node.on_all_shards(move |node| async move {
                split_parts::exchange(node.store(), table, split, &removed, has_left_out)
            });
            exchanged.await.into_iter().collect()
        })
    }

    fn wake_index_builds(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(node) = self.node() else { return };
            node.on_all_shards(|node| async move {
                node.store().wakers.indexes.notify_one();
            })
            .await;
        })
    }

    fn record_compaction(&self, outcome: &CompactionOutcome) {
        let (Some(node), Some(update)) = (self.node(), history_update(outcome)) else { return };
        spawn_local(async move {
            if !node.store().is_closing()
                && let Err(error) = node.apply(update).await
            {
                tracing::debug!(%error, "compaction history lacks a compaction");
            }
        })
        .detach();
    }

    fn record_built_indexes<'a>(
        &'a self,
        table: &'a Rc<Table>,
    ) -> LocalBoxFuture<'a, Result<(), StorageError>> {
        Box::pin(async move {
            match self.node() {
                Some(node) => record_built_indexes(&node, table).await,
                None => Ok(()),
            }
        })
    }
}
