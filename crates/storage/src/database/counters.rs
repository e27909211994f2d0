//! Counter updates: read this node's share, add, write the new share; one update at a time on a shard, so that none is
//! lost. Source: reference 9.9.
//!
//! What is written is the new state, not the change: replaying it is harmless. The clock of a share is the write
//! timestamp or one more than the last clock, so that a share begun anew after a deletion wins over the deleted one.

use std::sync::Arc;

use espalier_mutation::{
    ClusteringSlice, ClusteringSlices, ColumnData, Direction, Mutation, PartitionUpdate, Row,
    counter,
};
use espalier_runtime::time;

use super::Database;
use crate::{
    StorageError,
    read::{ColumnSelection, PartitionRows, ReadCommand, ReadLimits, ReadTarget},
};

impl Database {
    /// Adds to counters: the cells of `update` hold changes (be64). Deletions in it are applied as they are.
    pub async fn apply_counters(&self, update: PartitionUpdate) -> Result<(), StorageError> {
        let shard = {
            let schema = self.inner.schema.borrow();
            let table =
                schema.table_by_id(update.table).ok_or(StorageError::UnknownTable(update.table))?;
            self.shard_of(table, &update.key)
        };
        let add = |database: Database| async move { database.add_counters_here(update).await };
        self.on_shard(shard, add).await
    }

    async fn add_counters_here(&self, mut update: PartitionUpdate) -> Result<(), StorageError> {
        let ticket = {
            let _turn = self.inner.counter_turn.acquire(1).await;
            let present = self.present_counters(&update).await?;
            let host = *self.host_id().as_bytes();
            let old_rows = present.iter().flat_map(|partition| &partition.rows);
            for row in &mut update.rows {
                let old = old_rows.clone().find(|old| old.clustering == row.clustering);
                add_row(row, old, host);
            }
            if let Some(row) = &mut update.static_row {
                let old = present.iter().find_map(|partition| partition.static_row.as_ref());
                add_row(row, old, host);
            }
            self.write_when_room(&Mutation { updates: vec![update] }).await?
        };
        ticket.await
    }

    /// The rows of the update as they are now.
    async fn present_counters(
        &self,
        update: &PartitionUpdate,
    ) -> Result<Vec<PartitionRows>, StorageError> {
        let table = self.table(update.table)?.metadata();
        let slices = match update.static_row {
            // The static row comes with the whole partition's header only.
            Some(_) if update.rows.is_empty() => ClusteringSlices::all(),
            _ => {
                let rows = update.rows.iter();
                let slices = rows.map(|row| ClusteringSlice::prefix(row.clustering.values.clone()));
                ClusteringSlices::normalise(slices.collect(), table.comparator())
            }
        };
        let only_static = update.rows.is_empty();
        let command = ReadCommand {
            table,
            target: ReadTarget::Partition(update.key.clone()),
            slices: Arc::new(slices),
            direction: Direction::Forward,
            columns: ColumnSelection::All,
            now_s: u32::try_from(time::now_seconds()).unwrap_or(0),
            limits: ReadLimits {
                rows: if only_static { 1 } else { usize::MAX },
                ..ReadLimits::NONE
            },
            resume: None,
        };
        Ok(self.read_here(&command).await?.partitions)
    }
}

/// Makes contexts of the changes in a row.
fn add_row(row: &mut Row, old: Option<&Row>, host: [u8; 16]) {
    for (id, data) in &mut row.columns {
        let ColumnData::Simple(cell) = data else { continue };
        if cell.is_tombstone() {
            continue;
        }
        let delta = cell.value.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        let old = match old.and_then(|old| old.column(*id)) {
            Some(ColumnData::Simple(old)) => &old.value[..],
            _ => &[],
        };
        let mine = counter::shards(old).filter(|shard| shard.id == host);
        let mine = mine.max_by_key(|shard| shard.clock);
        let share = counter::build(mine.as_slice());
        cell.value = counter::add(&share, host, delta, cell.timestamp);
    }
}
