//! Statements that read rows before they write them: see [`crate::turns`].
//!
//! [`Database::newest_timestamp`] and [`Database::write_in_turn`] are for the holder of a turn.

use std::sync::Arc;

use espalier_mutation::{
    ColumnRef, DecoratedKey, DecoratedKeyRef, DeletionTime, KeyRange, Mutation, RowContent,
    Unfiltered, UnfilteredStream,
    schema::{TableId, TableMetadata},
};

use super::Database;
use crate::{
    CommitTicket, ReadCommand, ReadTarget, StorageError,
    read::sources_of,
    table::TableView,
    turns::{Turn, TurnRows},
};

impl Database {
    /// Waits for a turn on rows of a partition that this shard owns.
    pub async fn take_turn(&self, rows: TurnRows) -> Turn {
        self.inner.turns.take(rows).await
    }

    /// Returns whether a statement that does not yield needs no turn of its own on the row with
    /// these clustering values, because no other statement of this shard has a turn on it.
    #[inline]
    pub fn is_row_free(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<&[u8]>],
    ) -> bool {
        let turns = &self.inner.turns;
        turns.is_empty() || {
            let mut rows = TurnRows::new(table, key);
            rows.add_row_at(table, clustering);
            turns.are_free(rows)
        }
    }

    /// Returns whether a timestamp in µs is later than all timestamps of a table on this shard.
    #[inline]
    pub fn is_later_than_all(&self, id: TableId, timestamp_us: i64) -> bool {
        let tables = self.inner.tables.borrow();
        tables.get(&id).is_some_and(|table| newest_of(&table.borrow_view()) < timestamp_us)
    }

    /// Returns the newest write timestamp in µs among the rows of `command` and their deletions, at
    /// least `floor_us`. It reads rows only if the table has a newer timestamp than `floor_us`.
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
        if let Some(shard) = self.other_owner(&command.table, key.token) {
            let command = command.clone();
            let there = move |database: Database| async move {
                Box::pin(database.newest_timestamp(&command, floor_us)).await
            };
            return self.on_shard(shard, there).await;
        }
        let table = self.table(command.table.id)?;
        let view = table.view();
        if newest_of(&view) <= floor_us {
            return Ok(floor_us);
        }
        let mut newest = floor_us;
        for mut source in sources_of(&view, command, key, &command.slices).await? {
            let header = source.header();
            newest = newest.max(timestamp_of(&header.deletion));
            newest = newest.max(header.static_row.as_ref().map_or(i64::MIN, newest_of_row));
            while command.limits.rows > 0
                && let Some(fragment) = source.next().await?
            {
                newest = newest.max(match fragment {
                    Unfiltered::Row(row) => newest_of_row(&row),
                    Unfiltered::Marker(marker) => {
                        timestamp_of(&marker.before).max(timestamp_of(&marker.after))
                    }
                });
            }
        }
        Ok(newest)
    }

    /// Writes the outcome of a turn, with its view updates, and ends the turn.
    /// Resolves when the memtables have the write; the ticket resolves when it is acknowledged.
    ///
    /// # Errors
    /// As [`Database::apply`], except for failures of the commit log's sync, which the ticket
    /// reports.
    pub async fn write_in_turn(
        &self,
        mutation: &Mutation,
        turn: Turn,
    ) -> Result<CommitTicket, StorageError> {
        loop {
            if self.has_views(mutation) {
                return self.write_with_views(mutation, turn).await;
            }
            // The table may get a view while the write waits for room.
            if let Some(ticket) = self.write_base(mutation).await? {
                drop(turn);
                return Ok(ticket);
            }
        }
    }

    /// Returns a ticket that resolves when all writes to a table so far, on this shard, are
    /// acknowledged. A linearizable statement that writes nothing waits for this ticket before it
    /// answers.
    ///
    /// # Errors
    /// The node shuts down.
    pub fn barrier(&self, table: &TableMetadata) -> Result<CommitTicket, StorageError> {
        Ok(self.log(self.is_on_first_shard(table.id))?.barrier())
    }

    /// Checks that the log of a table holds all writes that readers see. After a failed sync, only
    /// memtables hold some of them until they are flushed, and a crash could keep a write that
    /// follows from these and lose them.
    ///
    /// # Errors
    /// The error of the failed sync; the node shuts down.
    #[inline]
    pub fn check_log(&self, table: &TableMetadata) -> Result<(), StorageError> {
        let log = self.log(self.is_on_first_shard(table.id))?;
        log.failure_in_memory().map_or(Ok(()), |failure| Err(failure.into()))
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
                let shard = self.shard_of(table, key);
                shard..shard + 1
            }
            None => self.shards_of_range(table, &KeyRange::full()),
        };
        for shard in shards {
            let table = table.clone();
            let wait = |database: Database| async move {
                database.barrier(&table)?.wait().await.map_err(StorageError::from)
            };
            self.on_shard(shard, wait).await?;
        }
        Ok(())
    }
}

/// Returns the greatest write timestamp in µs of a table's data; `i64::MIN` if it is empty.
pub(super) fn newest_of(view: &TableView) -> i64 {
    let memtables = view.memtables().map(|memtable| memtable.maximum_timestamp());
    // SSTables are sorted by descending maximum timestamp.
    let sstables = view.sstables.first().map(|newest| newest.maximum_timestamp());
    memtables.chain(sstables).max().unwrap_or(i64::MIN)
}

/// Returns the timestamp of a deletion in µs; `i64::MIN` if there is none.
pub(super) fn timestamp_of(deletion: &DeletionTime) -> i64 {
    if deletion.is_live() { i64::MIN } else { deletion.marked_for_delete_at }
}

/// Returns the greatest timestamp of a row in µs, deletions included.
pub(super) fn newest_of_row(row: &impl RowContent) -> i64 {
    let deletion = timestamp_of(&row.deletion()).max(timestamp_of(&row.shadowable_deletion()));
    let liveness = row.liveness();
    let liveness = if liveness.is_none() { i64::MIN } else { liveness.timestamp };
    let columns = row.columns().map(|(_, data)| match data {
        ColumnRef::Simple(cell) => cell.timestamp,
        ColumnRef::Complex(column) => {
            let cells = column.cells.iter().map(|(_, cell)| cell.timestamp);
            cells.max().unwrap_or(i64::MIN).max(timestamp_of(&column.deletion))
        }
    });
    columns.fold(deletion.max(liveness), i64::max)
}
