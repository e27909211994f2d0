//! Reads: on this shard, on another, over several.

use espalier_mutation::{DecoratedKeyRef, KeyBound, KeyRange, Token, schema::TableMetadata};

use super::Database;
use crate::{
    StorageError,
    memtable::{Found, RowLookup},
    purge::row_bytes,
    read::{PartitionRows, ReadCommand, ReadResult, ReadTarget, read_on_shard},
    system::SCHEMA_KEYSPACE,
};

impl Database {
    /// Reads. Ranges go from shard to shard in ring order.
    pub async fn read(&self, command: ReadCommand) -> Result<ReadResult, StorageError> {
        let shards = match &command.target {
            ReadTarget::Partition(key) => {
                let shard = self.shard_of(&command.table, key);
                return self.read_on(shard, command).await;
            }
            ReadTarget::Range(range) => self.shards_of_range(&command.table, range),
        };
        let first = match &command.resume {
            Some(position) => self.shard_of(&command.table, &position.key).max(shards.start),
            None => shards.start,
        };
        let mut command = command;
        let mut result = ReadResult::default();
        for shard in first..shards.end {
            let part = self.read_on(shard, command.clone()).await?;
            let limits = &mut command.limits;
            for partition in &part.partitions {
                limits.rows = limits.rows.saturating_sub(partition.rows.len().max(1));
                limits.bytes = limits.bytes.saturating_sub(partition_bytes(partition));
            }
            result.partitions.extend(part.partitions);
            result.next = part.next;
            if result.next.is_some() {
                break;
            }
            command.resume = None;
        }
        Ok(result)
    }

    async fn read_on(
        &self,
        shard: usize,
        command: ReadCommand,
    ) -> Result<ReadResult, StorageError> {
        if shard == self.inner.context.index {
            return self.read_here(&command).await;
        }
        self.on_shard(shard, move |database| async move { database.read_here(&command).await })
            .await
    }

    pub(super) async fn read_here(
        &self,
        command: &ReadCommand,
    ) -> Result<ReadResult, StorageError> {
        let view = self.table(command.table.id)?.view();
        self.inner.counters.reads.set(self.inner.counters.reads.get() + 1);
        let own = self.own_range(&command.table);
        // In a box, since it is deep and large, and all who call this would be so, too.
        Box::pin(read_on_shard(&view, command, &own)).await
    }

    /// The partitions of a table that this shard owns.
    fn own_range(&self, table: &TableMetadata) -> KeyRange {
        if self.inner.context.count == 1 || table.keyspace == SCHEMA_KEYSPACE {
            return KeyRange::full();
        }
        let (first, last) = self.inner.context.token_range();
        KeyRange {
            start: KeyBound::BeforeToken(Token(first)),
            end: KeyBound::AfterToken(Token(last)),
        }
    }

    /// One row, at once, if the memtables of this shard are certain to hold all that is known of it: calls `take` with
    /// it as it is stored. `None` if another shard owns it or an SSTable may have a part of it.
    ///
    /// `clustering` has a value for each clustering column. Cells of dropped columns may be among the cells.
    #[inline]
    pub fn try_read_row<V: AsRef<[u8]>, R>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        take: impl FnOnce(RowLookup<'_>) -> R,
    ) -> Option<R> {
        if !self.owns(table, key.token) {
            return None;
        }
        let inner = &*self.inner;
        let tables = inner.tables.borrow();
        let view = tables.get(&table.id)?.borrow_view();
        if view.sstables.iter().any(|sstable| sstable.may_contain(key)) {
            return None;
        }
        let mut path = inner.lookup_path.borrow_mut();
        let mut memtable = &view.memtable;
        if !view.flushing.is_empty() {
            // The row may lie in one of several; in more than one, it takes a merge.
            let mut having = view.memtables().filter(|memtable| memtable.has(key, &mut path));
            match (having.next(), having.next()) {
                (Some(only), None) => memtable = only,
                (Some(_), Some(_)) => return None,
                (None, _) => return Some(take(RowLookup::NOTHING)),
            }
        }
        let mut take = Some(take);
        let found = memtable.look_up(table, key, clustering, &mut path, |lookup| {
            take.take().map(|take| take(lookup))
        });
        match found {
            Found::Row(result) => result,
            Found::NoPartition => take.take().map(|take| take(RowLookup::NOTHING)),
            Found::Unreadable => None,
        }
    }
}

fn partition_bytes(partition: &PartitionRows) -> usize {
    let static_row = if partition.rows.is_empty() { &partition.static_row } else { &None };
    partition.rows.iter().chain(static_row).map(row_bytes).sum()
}
