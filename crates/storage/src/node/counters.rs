//! Counter updates: read this node's share, add, write the new share. Each update takes a turn on
//! its rows, so that no update is lost. Source: docs/formats/data.md.
//!
//! The new state is written, not the change, so replaying it is harmless. The clock of a share is
//! the node's clock in µs, or the last clock plus one if that is greater. The clock is not the
//! write timestamp, because clients choose the timestamp, and the greatest timestamp would leave no
//! later clock.

use std::sync::Arc;

use espalier_mutation::{
    ClusteringComparator, ClusteringSlice, ClusteringSlices, ColumnData, Mutation, PartitionUpdate,
    Row, counter, schema::TableMetadata,
};
use espalier_runtime::{maybe_yield, time};

use super::Node;
use crate::{
    LogCheck, PartitionRows, ReadCommand, ReadLimits, ReadTarget, ShardStore, StorageError,
    TurnDeadline, TurnKind, turns::TurnRows,
};

impl Node {
    /// Adds to counters: the cells of `update` hold changes (be64). Its deletions are applied
    /// unchanged.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown, with [`StorageError::TurnTimedOut`] after
    /// `counter_write_request_timeout`, or with the errors of a read or a write.
    pub async fn apply_counters(&self, update: PartitionUpdate) -> Result<(), StorageError> {
        let shard = {
            let schema = self.store().tables.schema.borrow();
            let table =
                schema.table_by_id(update.table).ok_or(StorageError::UnknownTable(update.table))?;
            self.store().routing.shard_of(table, &update.key)
        };
        let deadline = self.store().configuration.timeouts.turn_deadline(TurnKind::Counter);
        let add = move |node: Node| async move { add_here(&node, update, deadline).await };
        self.call_in_turn(shard, deadline, add).await?
    }
}

/// Adds to counters of this shard.
async fn add_here(
    node: &Node,
    mut update: PartitionUpdate,
    deadline: TurnDeadline,
) -> Result<(), StorageError> {
    let store = node.store();
    let table = store.tables.get(update.table)?.metadata();
    let comparator = table.comparator();
    join_rows(comparator, &mut update.rows);
    let ticket = {
        let turn = store.turns.take_until(rows_of(&table, &update), deadline).await?;
        let host = *store.host_id().as_bytes();
        let old_static = present_static_row(store, &update).await?;
        let present = present_rows(store, &update).await?;
        // Later than the clock of every share before, unless the node's clock has gone back.
        let clock_us = time::next_timestamp_micros();
        // Both lists are in clustering order.
        let mut old_rows = present.iter().flat_map(|partition| &partition.rows).peekable();
        for row in &mut update.rows {
            maybe_yield().await;
            let at = row.clustering.position();
            let order = |old: &Row| comparator.compare(old.clustering.position(), at);
            while old_rows.next_if(|old| order(old).is_lt()).is_some() {}
            let old = old_rows.peek().filter(|old| order(old).is_eq());
            add_row(row, old.copied(), host, clock_us)?;
        }
        if let Some(row) = &mut update.static_row {
            add_row(row, old_static.as_ref(), host, clock_us)?;
        }
        // A crash that keeps this write and loses earlier ones does no harm, because the new
        // count contains their changes.
        let mutation = Mutation { updates: vec![update] };
        node.write_in_turn(&mutation, turn, LogCheck::None).await?
    };
    Ok(ticket.wait().await?)
}

/// Reads the current rows of the update.
async fn present_rows(
    store: &ShardStore,
    update: &PartitionUpdate,
) -> Result<Vec<PartitionRows>, StorageError> {
    if update.rows.is_empty() {
        return Ok(Vec::new());
    }
    let table = store.tables.get(update.table)?.metadata();
    let rows = update.rows.iter();
    let slices = rows.map(|row| ClusteringSlice::prefix(row.clustering.values.clone()));
    let slices = ClusteringSlices::normalise(slices.collect(), table.comparator());
    read_present(store, table, update, slices, ReadLimits::NONE).await
}

/// Reads the current static row, if the update has one.
async fn present_static_row(
    store: &ShardStore,
    update: &PartitionUpdate,
) -> Result<Option<Row>, StorageError> {
    if update.static_row.is_none() {
        return Ok(None);
    }
    let table = store.tables.get(update.table)?.metadata();
    // A read returns the static row with the first row of the partition, or alone.
    let limits = ReadLimits { rows: 1, ..ReadLimits::NONE };
    let present = read_present(store, table, update, ClusteringSlices::all(), limits).await?;
    Ok(present.into_iter().next().and_then(|partition| partition.static_row))
}

async fn read_present(
    store: &ShardStore,
    table: Arc<TableMetadata>,
    update: &PartitionUpdate,
    slices: ClusteringSlices,
    limits: ReadLimits,
) -> Result<Vec<PartitionRows>, StorageError> {
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let target = ReadTarget::Partition(update.key.clone());
    let slices = Arc::new(slices);
    let command = ReadCommand { slices, limits, ..ReadCommand::of_all(table, target, now_s) };
    Ok(store.read(&command).await?.partitions)
}

/// Returns the rows of an update that hold counters.
fn rows_of(table: &TableMetadata, update: &PartitionUpdate) -> TurnRows {
    let mut rows = TurnRows::new(table, update.key.borrowed());
    update.rows.iter().for_each(|row| rows.add_row(table, &row.clustering));
    if update.static_row.is_some() {
        rows.add_static_row();
    }
    rows
}

/// Joins rows with equal clusterings (1 and 1.0 are equal) and adds up their changes.
fn join_rows(comparator: &ClusteringComparator, rows: &mut Vec<Row>) {
    let order = |left: &Row, right: &Row| {
        comparator.compare(left.clustering.position(), right.clustering.position())
    };
    rows.sort_by(order);
    let mut joined: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows.drain(..) {
        match joined.last_mut() {
            Some(first) if order(first, &row).is_eq() => counter::join_changes(first, row),
            _ => joined.push(row),
        }
    }
    *rows = joined;
}

/// Turns the changes in a row into counter contexts.
fn add_row(
    row: &mut Row,
    old: Option<&Row>,
    host: [u8; 16],
    clock_us: i64,
) -> Result<(), StorageError> {
    for (id, data) in &mut row.columns {
        let ColumnData::Simple(cell) = data else { continue };
        if cell.is_tombstone() {
            continue;
        }
        let delta = counter::change(&cell.value);
        let old = match old.and_then(|old| old.column(*id)) {
            Some(ColumnData::Simple(old)) => &old.value[..],
            _ => &[],
        };
        let mine = counter::shards(old).filter(|shard| shard.id == host);
        let mine = mine.max_by_key(|shard| shard.clock);
        let share = counter::build(mine.as_slice());
        cell.value = counter::add(&share, host, delta, clock_us).ok_or_else(|| {
            StorageError::Unstorable(
                "a change of a counter whose clock has the greatest value: count in another row"
                    .into(),
            )
        })?;
    }
    Ok(())
}
