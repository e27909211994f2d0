//! Truncates a table together with its views.
//!
//! Writes to the table share a key of the turns. The truncation takes this key exclusively on all
//! shards, so that no write has stored its base row but not its view rows. The truncation marks the
//! views as stale before it empties them: if the node stops half-way, the next start builds the
//! views again.

use std::{sync::Arc, time::Duration};

use espalier_mutation::schema::{TableId, TableMetadata};
use espalier_runtime::time::{self, Instant};
use futures_util::future::LocalBoxFuture;

use crate::{Node, StorageError, node::truncate::truncate_locked, turns::TurnRows};

/// Truncates a table and its views. The caller is on shard 0 and holds `schema_lock`. `limit`
/// is the time by which the truncation has to begin, and the wait until then.
pub(in super::super) async fn truncate_with_views(
    node: &Node,
    base: &TableMetadata,
    limit: Option<(Instant, Duration)>,
) -> Result<(), StorageError> {
    let views = node.view_builds().dependent_views(base);
    let truncated = alone_on(node, 0, base.id, views.into(), limit).await;
    // If the truncation began, the views are empty and stale, and the build task builds them.
    node.view_builds().build_views();
    truncated
}

/// Takes the turn on a whole table on `shard` and all later shards, then truncates the table
/// and its views.
fn alone_on(
    node: &Node,
    shard: usize,
    base: TableId,
    views: Arc<[Arc<TableMetadata>]>,
    limit: Option<(Instant, Duration)>,
) -> LocalBoxFuture<'static, Result<(), StorageError>> {
    let node = node.clone();
    Box::pin(async move {
        if shard == node.store().shard().count {
            let truncate = move |node: Node| async move {
                node.view_builds().mark_views_stale(&views).await?;
                let ids = views.iter().map(|view| view.id).chain([base]);
                // The limit is for the first table. Then the truncation has begun, and later
                // writes wait for its turns, so it removes none of them.
                let mut limit = limit;
                for id in ids {
                    Box::pin(truncate_locked(&node, id, limit.take())).await?;
                }
                Ok(())
            };
            return node.on_shard(0, truncate).await;
        }
        let next = move |node: Node| async move {
            let turn = node.store().turns.take(TurnRows::of_table(base));
            let turn = match limit {
                Some((deadline, wait)) => time::timeout_at(deadline, turn)
                    .await
                    .map_err(|_| StorageError::TruncationTimedOut(wait))?,
                None => turn.await,
            };
            let truncated = alone_on(&node, shard + 1, base, views, limit).await;
            drop(turn);
            truncated
        };
        node.on_shard(shard, next).await
    })
}
