//! Timestamps and log state for the holder of a turn: see [`crate::turns`].

use espalier_mutation::{
    ColumnRef, DeletionTime, RowContent, Unfiltered, UnfilteredStream,
    schema::{TableId, TableMetadata},
};

use super::ShardStore;
use crate::{
    CommitTicket, ReadCommand, ReadTarget, StorageError, read::sources_of, table::TableView,
};

impl ShardStore {
    /// Returns whether a timestamp in µs is later than all timestamps of a table on this shard.
    #[inline]
    pub fn is_later_than_all(&self, id: TableId, timestamp_us: i64) -> bool {
        let tables = self.tables.by_id.borrow();
        tables.get(&id).is_some_and(|table| newest_of(&table.borrow_view()) < timestamp_us)
    }

    /// Returns the newest write timestamp in µs among the rows of `command` and their deletions, at
    /// least `floor_us`. This shard owns the partition.
    pub(crate) async fn newest_timestamp(
        &self,
        command: &ReadCommand,
        floor_us: i64,
    ) -> Result<i64, StorageError> {
        let ReadTarget::Partition(key) = &command.target else { return Ok(floor_us) };
        let view = self.tables.get(command.table.id)?.view();
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

    /// Returns a ticket that resolves when all writes to a table so far, on this shard, are
    /// acknowledged. A linearizable statement that writes nothing waits for this ticket before it
    /// answers. The log has no writes to a table without durable writes.
    ///
    /// # Errors
    /// The node shuts down.
    pub fn barrier(&self, table: &TableMetadata) -> Result<CommitTicket, StorageError> {
        if !is_logged(self, table) {
            return Ok(CommitTicket::acknowledged());
        }
        Ok(self.logs.get(self.tables.is_on_first_shard(table.id))?.barrier())
    }

    /// Checks that the log of a table holds all writes that readers see. After a failed sync, some
    /// of these writes are only in memtables until a flush. A crash could lose them and keep a
    /// later write that depends on them. The result holds until the next await.
    ///
    /// # Errors
    /// The error of the failed sync; the node shuts down.
    #[inline]
    pub fn check_log(&self, table: &TableMetadata) -> Result<(), StorageError> {
        let log = self.logs.get(self.tables.is_on_first_shard(table.id))?;
        match log.failure_in_memory() {
            Some(failure) if is_logged(self, table) => Err(failure.into()),
            _ => Ok(()),
        }
    }
}

/// Returns whether the commit log has the writes to a table. The log lacks the writes to a keyspace
/// without durable writes.
fn is_logged(store: &ShardStore, table: &TableMetadata) -> bool {
    store.tables.get(table.id).is_ok_and(|table| table.is_durable())
}

/// Returns the greatest write timestamp in µs of a table's data; `i64::MIN` if it is empty.
pub(crate) fn newest_of(view: &TableView) -> i64 {
    let memtables = view.memtables().map(|memtable| memtable.maximum_timestamp());
    // SSTables are sorted by descending maximum timestamp.
    let sstables = view.sstables.first().map(|newest| newest.maximum_timestamp());
    memtables.chain(sstables).max().unwrap_or(i64::MIN)
}

/// Returns the timestamp of a deletion in µs; `i64::MIN` if there is none.
pub(crate) fn timestamp_of(deletion: &DeletionTime) -> i64 {
    if deletion.is_live() { i64::MIN } else { deletion.marked_for_delete_at }
}

/// Returns the greatest timestamp of a row in µs, deletions included.
pub(crate) fn newest_of_row(row: &impl RowContent) -> i64 {
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
