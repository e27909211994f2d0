//! Replay of the commit log at start, including writes that other shards own now.

use espalier_commitlog::FoundSegment;
use espalier_mutation::{Mutation, schema::Schema};

use super::Node;
use crate::{
    StorageError,
    recovery::{Recovered, ReplaySummary},
    shard::{apply_replayed, replay},
};

/// Mutations of other shards that are sent as one batch when the number of shards has changed.
const BATCH: usize = 256;

/// Replays segments on this shard. Writes that another shard owns are sent there. That happens
/// only if the number of shards has changed. Then the SSTables of the replayed writes do not
/// name the old segments, which the start removes after a flush.
pub(super) async fn replay_here(
    node: &Node,
    segments: Vec<FoundSegment>,
    schema: &Schema,
    recovered: &Recovered,
    is_resharded: bool,
) -> Result<ReplaySummary, StorageError> {
    let store = node.store();
    let mut others: Vec<Vec<Mutation>> = vec![Vec::new(); store.shard().count];
    let apply = async |mutation, position| {
        if !is_resharded {
            return apply_replayed(store, &mutation, Some(position)).await;
        }
        for (shard, part) in node.split_by_shard(mutation) {
            if shard == store.shard().index {
                apply_replayed(store, &part, None).await?;
                continue;
            }
            others[shard].push(part);
            if others[shard].len() >= BATCH {
                send_replayed(node, shard, std::mem::take(&mut others[shard])).await?;
            }
        }
        Ok(())
    };
    let summary = replay(store, segments, schema, recovered, apply).await?;
    for (shard, rest) in others.into_iter().enumerate() {
        if !rest.is_empty() {
            send_replayed(node, shard, rest).await?;
        }
    }
    Ok(summary)
}

async fn send_replayed(
    node: &Node,
    shard: usize,
    batch: Vec<Mutation>,
) -> Result<(), StorageError> {
    node.on_shard(shard, move |node| async move {
        for mutation in &batch {
            apply_replayed(node.store(), mutation, None).await?;
        }
        Ok(())
    })
    .await
}
