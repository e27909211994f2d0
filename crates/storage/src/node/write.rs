//! Writes of mutations, each part on the shard that owns it.

use espalier_mutation::Mutation;
use espalier_runtime::{trace, trace_event};
use smallvec::SmallVec;

use super::Node;
use crate::{StorageError, TurnDeadline, shard::Completeness};

impl Node {
    /// Writes a mutation, with its view updates. Resolves when the write is
    /// acknowledged, as `commitlog_sync` defines it. The updates of one shard are durable together
    /// or not at all; over several shards see [`Node::apply_logged_batch`]. An update and its
    /// view updates are durable together, even if several shards own them.
    ///
    /// # Errors
    ///
    /// Fails if a table is unknown, if an update cannot be stored, if the log or the memtables have
    /// no room within the write timeout, if the commit log fails, or if the node shuts down.
    pub async fn apply(&self, mutation: Mutation) -> Result<(), StorageError> {
        self.apply_parts(mutation, Completeness::Base).await
    }

    /// Writes a mutation that has its view updates already.
    pub(super) async fn apply_complete(&self, mutation: Mutation) -> Result<(), StorageError> {
        self.apply_parts(mutation, Completeness::WithViews).await
    }

    async fn apply_parts(
        &self,
        mutation: Mutation,
        completeness: Completeness,
    ) -> Result<(), StorageError> {
        let may_wait_for_turns =
            completeness == Completeness::Base && self.store().tables.has_views(&mutation);
        let mut parts = self.split_by_shard(mutation);
        if trace::is_on() {
            parts.iter().for_each(|(shard, part)| trace_owner(*shard, part));
        }
        if may_wait_for_turns {
            let shards: SmallVec<[usize; 8]> = parts.iter().map(|(shard, _)| *shard).collect();
            let call = Box::pin(self.begin_turn_call(&shards, TurnDeadline::never())).await?;
            let outcomes = Box::pin(call.until_answered(self.apply_on_all(parts, completeness)));
            return outcomes.await.into_iter().collect();
        }
        if parts.len() > 1 {
            let outcomes = self.apply_on_all(parts, completeness).await;
            return outcomes.into_iter().collect();
        }
        match parts.pop() {
            Some((shard, mutation)) if shard == self.store().shard().index => {
                self.apply_part(&mutation, completeness).await
            }
            Some((shard, mutation)) => self.apply_on(shard, mutation, completeness).await,
            None => Ok(()),
        }
    }

    fn apply_on_all(
        &self,
        parts: Vec<(usize, Mutation)>,
        completeness: Completeness,
    ) -> impl Future<Output = Vec<Result<(), StorageError>>> + use<> {
        let parts = parts.into_iter();
        let calls = parts.map(|(shard, part)| self.apply_on(shard, part, completeness));
        futures_util::future::join_all(calls)
    }

    fn apply_on(
        &self,
        shard: usize,
        mutation: Mutation,
        completeness: Completeness,
    ) -> impl Future<Output = Result<(), StorageError>> + use<> {
        self.on_shard(
            shard,
            move |node| async move { node.apply_part(&mutation, completeness).await },
        )
    }

    /// Writes on this shard, waiting for room and for durability, and for turns if views change.
    async fn apply_part(
        &self,
        mutation: &Mutation,
        completeness: Completeness,
    ) -> Result<(), StorageError> {
        loop {
            if completeness == Completeness::Base && self.store().tables.has_views(mutation) {
                return self.apply_with_views(mutation).await;
            }
            if let Some(ticket) = self.store().write_if(mutation, completeness).await? {
                return Ok(ticket.wait().await?);
            }
        }
    }
}

#[cold]
fn trace_owner(shard: usize, part: &Mutation) {
    let count = part.updates.len();
    trace_event!("Shard {shard} owns {count} of the partitions to be written");
}
