//! Routing: which shard owns a partition, and how calls get there.
//!
//! A partition belongs to the shard of its token. The tables of `system_schema`
//! live on shard 0 alone: it serialises schema changes and must have the schema before anything
//! else can be read.

use std::{future::Future, ops::Range};

use espalier_mutation::{
    DecoratedKey, KeyRange, Mutation, PartitionUpdate, Token,
    schema::{TableId, TableMetadata},
};
use espalier_runtime::{shard_of_token, submit_to};

use super::{Database, registry};
use crate::system::SCHEMA_KEYSPACE;

impl Database {
    /// Returns the shard that owns a partition of a table.
    pub fn shard_of(&self, table: &TableMetadata, key: &DecoratedKey) -> usize {
        self.owner(table, key.token)
    }

    #[inline]
    fn shard_of_token(&self, token: Token) -> usize {
        shard_of_token(token.0, self.inner.context.count)
    }

    /// Returns whether the table lives on shard 0 alone.
    pub(super) fn is_on_first_shard(&self, id: TableId) -> bool {
        let schema = self.inner.schema.borrow();
        schema.table_by_id(id).is_some_and(|table| table.keyspace == SCHEMA_KEYSPACE)
    }

    /// Returns whether this shard owns the partition.
    #[inline]
    pub(super) fn owns(&self, table: &TableMetadata, token: Token) -> bool {
        self.inner.context.count == 1 || self.owner(table, token) == self.inner.context.index
    }

    /// Returns the shard that owns a partition, or `None` if this shard does.
    #[inline]
    pub fn other_owner(&self, table: &TableMetadata, token: Token) -> Option<usize> {
        let owner = self.owner(table, token);
        (owner != self.inner.context.index).then_some(owner)
    }

    fn owner(&self, table: &TableMetadata, token: Token) -> usize {
        if table.keyspace == SCHEMA_KEYSPACE { 0 } else { self.shard_of_token(token) }
    }

    /// Returns the shards that own a part of a range, in ring order.
    pub(super) fn shards_of_range(&self, table: &TableMetadata, range: &KeyRange) -> Range<usize> {
        if table.keyspace == SCHEMA_KEYSPACE {
            return 0..1;
        }
        let first = range.start.token().map_or(0, |token| self.shard_of_token(token));
        let last = match range.end.token() {
            Some(token) => self.shard_of_token(token),
            None => self.inner.context.count - 1,
        };
        first..last + 1
    }

    /// Splits a mutation by owner. An empty mutation has no parts.
    pub(super) fn split_by_shard(&self, mutation: Mutation) -> Vec<(usize, Mutation)> {
        let owner = |update: &PartitionUpdate| {
            if self.is_on_first_shard(update.table) {
                0
            } else {
                self.shard_of_token(update.key.token)
            }
        };
        if self.inner.context.count == 1 {
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
        W: FnOnce(Database) -> F + Send + 'static,
    {
        let instance = self.inner.shared.instance;
        let here = (shard == self.inner.context.index).then(|| self.clone());
        async move {
            match here {
                Some(database) => work(database).await,
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

    /// Runs `work` on all shards at once and returns the outputs in shard order.
    pub(crate) async fn on_all_shards<R, F, W>(&self, work: W) -> Vec<R>
    where
        R: Send + 'static,
        F: Future<Output = R> + 'static,
        W: Fn(Database) -> F + Clone + Send + 'static,
    {
        let calls = (0..self.inner.context.count).map(|shard| self.on_shard(shard, work.clone()));
        futures_util::future::join_all(calls).await
    }
}
