//! Statements that read rows before they write them: see [`crate::turns`].
//!
//! [`Node::newest_timestamp`] and [`Node::write_in_turn`] are for the holder of a turn.

use std::sync::Arc;

use espalier_mutation::{DecoratedKey, KeyRange, Mutation, schema::TableMetadata};

use super::{Node, views::write_with_views};
use crate::{
    CommitTicket, LogCheck, ReadCommand, ReadTarget, StorageError, shard::Completeness, turns::Turn,
};

impl Node {
    /// Returns the newest write timestamp in µs among the rows of `command` and their deletions, at
    /// least `floor_us`. Reads rows only if the table has a newer timestamp than `floor_us`.
    /// With a row limit of 0, only the static row and the deletion of the partition count.
    ///
    /// # Errors
    /// The table is unknown, or an SSTable is damaged or cannot be read.
    pub async fn newest_timestamp(
        &self,
        command: &ReadCommand,
        floor_us: i64,
    ) -> Result<i64, StorageError> {
        let ReadTarget::Partition(key) = &command.target else { return Ok(floor_us) };
        if let Some(shard) = self.store().routing.other_owner(&command.table, key.token) {
            let command = command.clone();
            let there = move |node: Node| async move {
                Box::pin(node.newest_timestamp(&command, floor_us)).await
            };
            return self.on_shard(shard, there).await;
        }
        self.store().newest_timestamp(command, floor_us).await
    }

    /// Writes the outcome of a turn, with its view updates, and ends the turn.
    /// Resolves when the memtables have the write; the ticket resolves when it is acknowledged.
    ///
    /// # Errors
    /// Fails as [`Node::apply`] does, except that the ticket reports failures of the commit log's
    /// sync. Also fails if the log does not pass `check`.
    pub async fn write_in_turn(
        &self,
        mutation: &Mutation,
        turn: Turn,
        check: LogCheck,
    ) -> Result<CommitTicket, StorageError> {
        loop {
            if self.store().tables.has_views(mutation) {
                return write_with_views(self, mutation, turn, check).await;
            }
            // The table may get a view while the write waits for room.
            let written = self.store().write_if(mutation, Completeness::Base, check).await?;
            if let Some(ticket) = written {
                drop(turn);
                return Ok(ticket);
            }
        }
    }

    /// Waits until all writes so far to a partition, or to all partitions of a table, are
    /// acknowledged.
    ///
    /// # Errors
    /// The commit log cannot be written, or the node shuts down.
    pub async fn wait_until_durable(
        &self,
        table: &Arc<TableMetadata>,
        key: Option<&DecoratedKey>,
    ) -> Result<(), StorageError> {
        let shards = match key {
            Some(key) => {
                let shard = self.store().routing.shard_of(table, key);
                shard..shard + 1
            }
            None => self.store().routing.shards_of_range(table, &KeyRange::full()),
        };
        for shard in shards {
            let table = table.clone();
            let wait = |node: Node| async move {
                node.store().barrier(&table)?.wait().await.map_err(StorageError::from)
            };
            self.on_shard(shard, wait).await?;
        }
        Ok(())
    }
}
