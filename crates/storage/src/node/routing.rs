//! Calls to other shards.

use std::future::Future;

use espalier_mutation::{Mutation, PartitionUpdate};
use espalier_runtime::submit_to;

use super::{Node, registry};

impl Node {
    /// Splits a mutation by owner. If the node has several shards, an empty mutation has no parts.
    pub(super) fn split_by_shard(&self, mutation: Mutation) -> Vec<(usize, Mutation)> {
        let store = self.store();
        let owner = |update: &PartitionUpdate| {
            if store.tables.is_on_first_shard(update.table) {
                0
            } else {
                store.routing.shard_of_token(update.key.token)
            }
        };
        if store.shard().count == 1 {
            return vec![(0, mutation)];
        }
        if let [update] = mutation.updates.as_slice() {
            return vec![(owner(update), mutation)];
        }
        let mut parts: Vec<(usize, Mutation)> = Vec::new();
        for update in mutation.updates {
            let shard = owner(&update);
            match parts.iter_mut().find(|(other, _)| *other == shard) {
                Some((_, part)) => part.updates.push(update),
                None => parts.push((shard, Mutation { updates: vec![update] })),
            }
        }
        parts
    }

    /// Runs `work` with the handle of a shard, on its thread.
    pub fn on_shard<R, F, W>(&self, shard: usize, work: W) -> impl Future<Output = R> + use<R, F, W>
    where
        R: Send + 'static,
        F: Future<Output = R> + 'static,
        W: FnOnce(Node) -> F + Send + 'static,
    {
        let instance = self.store().shared.instance;
        let here = (shard == self.store().shard().index).then(|| self.clone());
        async move {
            match here {
                Some(node) => work(node).await,
                None => {
                    submit_to(
                        shard,
                        move || async move { work(registry::find(instance).await).await },
                    )
                    .await
                }
            }
        }
    }

    /// Runs `work` on all shards at once and returns the outputs in shard order. Each shard gets a
    /// clone of `work`, with what it captures.
    pub(crate) async fn on_all_shards<R, F, W>(&self, work: W) -> Vec<R>
    where
        R: Send + 'static,
        F: Future<Output = R> + 'static,
        W: FnOnce(Node) -> F + Clone + Send + 'static,
    {
        let calls = (0..self.store().shard().count).map(|shard| self.on_shard(shard, work.clone()));
        futures_util::future::join_all(calls).await
    }
}
