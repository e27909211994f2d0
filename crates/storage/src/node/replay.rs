//! Replay of the commit log at start, including writes that other shards own now.

use espalier_commitlog::FoundSegment;
use espalier_mutation::{LogPosition, Mutation, schema::Schema};

use super::Node;
use crate::{
    StorageError,
    recovery::{Recovered, ReplaySummary},
    shard::{apply_replayed, replay},
};

/// Maximum number of mutations in a batch (arbitrary).
const MAX_BATCH: usize = 256;
/// Bytes of the log after which all batches are sent (arbitrary).
const MAX_BATCH_LOG_BYTES: u32 = 1 << 20;

/// Mutations of other shards that wait to be sent, if the number of shards has changed.
///
/// A mutation refers to the part of the log that was read with it. So the part of the log between
/// the first mutation and the last one is the memory bound, not the sizes of the mutations: 1 MiB,
/// and two records, which may have 16 MiB each.
struct Batches {
    by_shard: Vec<Vec<Mutation>>,
    /// Position behind the mutations that were sent last.
    start: LogPosition,
}

impl Batches {
    fn new(shards: usize) -> Self {
        Self { by_shard: vec![Vec::new(); shards], start: LogPosition::NONE }
    }

    /// Returns the batches to send before a mutation at `position` is added, with their shards.
    fn take_due(&mut self, position: LogPosition) -> Vec<(usize, Vec<Mutation>)> {
        if position.segment == self.start.segment
            && position.offset.saturating_sub(self.start.offset) < MAX_BATCH_LOG_BYTES
        {
            return Vec::new();
        }
        self.start = position;
        self.take_all()
    }

    fn take_all(&mut self) -> Vec<(usize, Vec<Mutation>)> {
        let batches = self.by_shard.iter_mut().map(std::mem::take).enumerate();
        batches.filter(|(_, batch)| !batch.is_empty()).collect()
    }
}

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
    let mut batches = Batches::new(store.shard().count);
    let apply = async |mutation, position| {
        if !is_resharded {
            return apply_replayed(store, &mutation, Some(position)).await;
        }
        for (shard, batch) in batches.take_due(position) {
            send_replayed(node, shard, batch).await?;
        }
        for (shard, part) in node.split_by_shard(mutation) {
            if shard == store.shard().index {
                apply_replayed(store, &part, None).await?;
                continue;
            }
            let batch = &mut batches.by_shard[shard];
            batch.push(part);
            if batch.len() >= MAX_BATCH {
                send_replayed(node, shard, std::mem::take(batch)).await?;
            }
        }
        Ok(())
    };
    let summary = replay(store, segments, schema, recovered, apply).await?;
    for (shard, batch) in batches.take_all() {
        send_replayed(node, shard, batch).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_refer_to_a_mebibyte_of_one_segment() {
        let mut batches = Batches::new(3);
        let mut held = Vec::new();
        for number in 0..100u32 {
            let (segment, offset) = (1 + u64::from(number / 50), number % 50 * 300_000);
            let position = LogPosition { segment, offset };
            let sent: usize = batches.take_due(position).iter().map(|(_, batch)| batch.len()).sum();
            held.drain(..sent);
            batches.by_shard[number as usize % 3].push(Mutation::default());
            held.push(position);
            assert_eq!(held[0].segment, segment);
            assert!(offset - held[0].offset < MAX_BATCH_LOG_BYTES, "{held:?}");
        }
        let left: usize = batches.take_all().iter().map(|(_, batch)| batch.len()).sum();
        assert_eq!(left, held.len());
    }
}
