//! Truncates a table together with its views.
//!
//! Writes to the table share a key of the turns. The truncation takes this key exclusively on all
//! shards, so that no write has stored its base row but not its view rows. The truncation marks the
//! views as stale before it empties them: if the node stops half-way, the next start builds the
//! views again.

use std::sync::Arc;

use espalier_mutation::schema::{TableId, TableMetadata};
use futures_util::future::LocalBoxFuture;

use crate::{
    Node, StorageError,
    node::{Truncation, ViewBuilds, Views},
    turns::TurnRows,
};

impl Views<'_> {
    /// Truncates a table and its views. The caller is on shard 0 and holds `schema_lock`.
    pub(in super::super) async fn truncate_with_views(
        self,
        base: &TableMetadata,
    ) -> Result<(), StorageError> {
        let views = ViewBuilds::of(self.node).dependent_views(base);
        ViewBuilds::of(self.node).mark_views_stale(&views).await?;
        let ids = views.iter().map(|view| view.id).chain([base.id]).collect();
        let truncated = self.alone_on(0, base.id, ids).await;
        // The views are empty now. The build task notices that at its next run.
        ViewBuilds::of(self.node).build_views();
        truncated
    }

    /// Takes the turn on a whole table on `shard` and all later shards, then truncates tables.
    fn alone_on(
        self,
        shard: usize,
        base: TableId,
        tables: Arc<[TableId]>,
    ) -> LocalBoxFuture<'static, Result<(), StorageError>> {
        let node = self.node.clone();
        Box::pin(async move {
            if shard == node.store().shard().count {
                let truncate = move |node: Node| async move {
                    for id in tables.iter() {
                        Box::pin(Truncation::of(&node).truncate_locked(*id, None)).await?;
                    }
                    Ok(())
                };
                return node.on_shard(0, truncate).await;
            }
            let next = move |node: Node| async move {
                let turn = node.store().turns.take(TurnRows::of_table(base)).await;
                let truncated = Views::of(&node).alone_on(shard + 1, base, tables).await;
                drop(turn);
                truncated
            };
            node.on_shard(shard, next).await
        })
    }
}
