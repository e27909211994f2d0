//! The owner of a partition: a partition belongs to the shard of its token. The tables of
//! `system_schema` live only on shard 0, because it serialises schema changes and must have the
//! schema before anything else can be read.

use std::ops::Range;

use espalier_mutation::{
    DecoratedKey, KeyBound, KeyRange, Mutation, Token,
    schema::{Schema, TableMetadata},
};
use espalier_runtime::{ShardContext, shard_of_token};
use espalier_sstable::SSTable;

use crate::system::SCHEMA_KEYSPACE;

/// The assignment of partitions to shards, and the number of this shard.
#[derive(Clone, Copy, Debug)]
pub struct Routing {
    pub(crate) context: ShardContext,
}

impl Routing {
    /// Returns the shard that owns a partition of a table.
    pub fn shard_of(&self, table: &TableMetadata, key: &DecoratedKey) -> usize {
        self.owner(table, key.token)
    }

    /// Returns the shard that owns a partition, or `None` if this shard does.
    #[inline]
    pub fn other_owner(&self, table: &TableMetadata, token: Token) -> Option<usize> {
        let owner = self.owner(table, token);
        (owner != self.context.index).then_some(owner)
    }

    /// Returns whether this shard owns the partition.
    #[inline]
    pub(crate) fn owns(&self, table: &TableMetadata, token: Token) -> bool {
        self.context.count == 1 || self.owner(table, token) == self.context.index
    }

    /// Returns whether this shard owns all partitions that a mutation writes to. Partitions of
    /// unknown tables count as owned, because the write then refuses the mutation.
    pub(crate) fn owns_all(&self, schema: &Schema, mutation: &Mutation) -> bool {
        self.context.count == 1
            || mutation.updates.iter().all(|update| {
                let table = schema.table_by_id(update.table);
                table.is_none_or(|table| self.owns(table, update.key.token))
            })
    }

    fn owner(&self, table: &TableMetadata, token: Token) -> usize {
        if table.keyspace == SCHEMA_KEYSPACE { 0 } else { self.shard_of_token(token) }
    }

    #[inline]
    pub(crate) fn shard_of_token(&self, token: Token) -> usize {
        shard_of_token(token.0, self.context.count)
    }

    /// Returns the shards that own a part of a range, in ring order.
    pub(crate) fn shards_of_range(&self, table: &TableMetadata, range: &KeyRange) -> Range<usize> {
        if table.keyspace == SCHEMA_KEYSPACE {
            return 0..1;
        }
        let first = range.start.token().map_or(0, |token| self.shard_of_token(token));
        let last = match range.end.token() {
            Some(token) => self.shard_of_token(token),
            None => self.context.count - 1,
        };
        first..last + 1
    }

    /// Returns the partitions of a table that this shard owns.
    pub(crate) fn own_range(&self, table: &TableMetadata) -> KeyRange {
        if self.context.count == 1 || table.keyspace == SCHEMA_KEYSPACE {
            return KeyRange::full();
        }
        let (first, last) = self.own_tokens();
        KeyRange {
            start: KeyBound::BeforeToken(Token(first)),
            end: KeyBound::AfterToken(Token(last)),
        }
    }

    /// Returns the first and the last token of this shard.
    pub(crate) fn own_tokens(&self) -> (i64, i64) {
        self.context.token_range()
    }

    /// Returns whether this shard may own partitions of an SSTable.
    pub(crate) fn may_own_part(&self, table: &TableMetadata, sstable: &SSTable) -> bool {
        if table.keyspace == SCHEMA_KEYSPACE {
            return true;
        }
        let (first, last) = self.own_tokens();
        sstable.overlaps(first, last)
    }
}
