//! Writes of mutations, each part on the shard that owns it.

use espalier_mutation::Mutation;
use espalier_runtime::{trace, trace_event};
use smallvec::SmallVec;

use super::{Node, views::apply_with_views};
use crate::{LogCheck, StorageError, TurnDeadline, shard::Completeness};

impl Node {
    /// Writes a mutation, with its view updates. Resolves when the write is
    /// acknowledged, as `commitlog_sync` defines it. The updates of one shard are durable together
    /// or not at all; over several shards see [`crate::Batches::apply`]. An update and its
    /// view updates are durable together, even if several shards own them.
    ///
    /// # Errors
    ///
    /// Fails if a table is unknown, if an update cannot be stored, if the log or the memtables have
    /// no room within the write timeout, if the commit log fails, or if the node shuts down.
    pub async fn apply(&self, mutation: Mutation) -> Result<(), StorageError> {
        apply_parts(self, mutation, Completeness::Base).await
    }

    /// Writes a mutation that has its view updates already.
    pub(super) async fn apply_complete(&self, mutation: Mutation) -> Result<(), StorageError> {
        apply_parts(self, mutation, Completeness::WithViews).await
    }
}

/// Writes on this shard, waiting for room and for durability, and for turns if views change.
async fn apply_part(
    node: &Node,
    mutation: &Mutation,
    completeness: Completeness,
) -> Result<(), StorageError> {
    loop {
        if completeness == Completeness::Base && node.store().tables.has_views(mutation) {
            return apply_with_views(node, mutation).await;
        }
        let written = node.store().write_if(mutation, completeness, LogCheck::None).await?;
        if let Some(ticket) = written {
            return Ok(ticket.wait().await?);
        }
    }
}

fn apply_on(
    node: &Node,
    shard: usize,
    mutation: Mutation,
    completeness: Completeness,
) -> impl Future<Output = Result<(), StorageError>> + use<> {
    node.on_shard(
        shard,
        move |node| async move { apply_part(&node, &mutation, completeness).await },
    )
}

fn apply_on_all(
    node: &Node,
    parts: Vec<(usize, Mutation)>,
    completeness: Completeness,
) -> impl Future<Output = Vec<Result<(), StorageError>>> + use<> {
    let parts = parts.into_iter();
    let calls = parts.map(|(shard, part)| apply_on(node, shard, part, completeness));
    futures_util::future::join_all(calls)
}

async fn apply_parts(
    node: &Node,
    mutation: Mutation,
    completeness: Completeness,
) -> Result<(), StorageError> {
    let may_wait_for_turns =
        completeness == Completeness::Base && node.store().tables.has_views(&mutation);
    let mut parts = node.split_by_shard(mutation);
    if trace::is_on() {
        parts.iter().for_each(|(shard, part)| trace_owner(*shard, part));
    }
    if may_wait_for_turns {
        let shards: SmallVec<[usize; 8]> = parts.iter().map(|(shard, _)| *shard).collect();
        let call = Box::pin(node.begin_turn_call(&shards, TurnDeadline::never())).await?;
        let outcomes = Box::pin(call.until_answered(apply_on_all(node, parts, completeness)));
        return outcomes.await.into_iter().collect();
    }
    if parts.len() > 1 {
        let outcomes = apply_on_all(node, parts, completeness).await;
        return outcomes.into_iter().collect();
    }
    match parts.pop() {
        Some((shard, mutation)) if shard == node.store().shard().index => {
            apply_part(node, &mutation, completeness).await
        }
        Some((shard, mutation)) => apply_on(node, shard, mutation, completeness).await,
        None => Ok(()),
    }
}

#[cold]
fn trace_owner(shard: usize, part: &Mutation) {
    let count = part.updates.len();
    trace_event!("Shard {shard} owns {count} of the partitions to be written");
}
