//! Writes base rows together with the rows of their views.

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    DecoratedKeyRef, Mutation, PartitionUpdate,
    schema::{TableId, TableMetadata},
};
use espalier_runtime::{run_to_completion, time, trace_event};
use futures_util::future::LocalBoxFuture;
use hashbrown::{HashMap, hash_map::Entry};

use super::{
    change::{ViewChange, partition_values, view_changes},
    outcome::view_write,
    plan::ViewPlan,
};
use crate::{
    CommitTicket, LogCheck, Node, StorageError,
    shard::Completeness,
    turns::{Turn, TurnRows},
};

/// The changes of view rows that another shard owns.
struct RemoteChanges {
    shard: usize,
    changes: Vec<(Arc<TableMetadata>, bool, ViewChange)>,
}

pub(super) fn view_plans(node: &Node, base: TableId) -> Rc<[Rc<ViewPlan>]> {
    if let Some(plans) = node.inner.views.plans.borrow().get(&base) {
        return plans.clone();
    }
    let schema = node.store().schema();
    let plans = schema.table_by_id(base).map(|base| ViewPlan::of_base(&schema, base));
    let plans: Rc<[Rc<ViewPlan>]> = plans.unwrap_or_default().into_iter().map(Rc::new).collect();
    node.inner.views.plans.borrow_mut().insert(base, plans.clone());
    plans
}

/// Applies a mutation of partitions that this shard owns, with its view updates.
pub(in super::super) fn apply_with_views<'a>(
    node: &'a Node,
    mutation: &'a Mutation,
) -> LocalBoxFuture<'a, Result<(), StorageError>> {
    Box::pin(async move {
        loop {
            if let Some(rows) = turn_rows(node, mutation)? {
                let turn = node.store().turns.take(rows).await;
                let written = write_with_views(node, mutation, turn, LogCheck::None).await?;
                return Ok(written.wait().await?);
            }
            // The views were dropped since. New views may come while the write waits for room.
            let store = node.store();
            let written = store.write_if(mutation, Completeness::Base, LogCheck::None).await?;
            if let Some(ticket) = written {
                return Ok(ticket.wait().await?);
            }
        }
    })
}

/// Returns the rows of tables with views that a mutation may change; `None` if there are none.
fn turn_rows(node: &Node, mutation: &Mutation) -> Result<Option<TurnRows>, StorageError> {
    let mut all: Option<TurnRows> = None;
    for update in &mutation.updates {
        let table = node.store().tables.get(update.table)?.metadata();
        if !table.has_views() {
            continue;
        }
        let rows = turn_rows_of(&table, update);
        match &mut all {
            Some(all) => all.join(rows),
            None => all = Some(rows),
        }
    }
    Ok(all)
}

/// Writes a mutation of this shard and its view updates, and ends the turn. Resolves when
/// the memtables of all shards have the writes; the ticket resolves when they are acknowledged.
pub(in super::super) fn write_with_views<'a>(
    node: &'a Node,
    mutation: &'a Mutation,
    turn: Turn,
    check: LogCheck,
) -> LocalBoxFuture<'a, Result<CommitTicket, StorageError>> {
    Box::pin(async move {
        let mut whole = with_view_writes(node, mutation).await?;
        let store = node.store();
        if !store.routing.owns_all(&store.tables.schema.borrow(), &whole) {
            if check == LogCheck::Intact
                && let Some(update) = mutation.updates.first()
            {
                // The entry of the batch may be in the log of another shard, which can be
                // durable before the rows that the statement has read.
                let table = store.tables.get(update.table)?.metadata();
                store.barrier(&table)?.wait().await?;
            }
            let base_count = mutation.updates.len();
            return write_on_several_shards(node, whole, base_count, turn).await;
        }
        loop {
            match node.store().write_when_room(&whole, check).await {
                // A view was dropped since.
                Err(StorageError::UnknownTable(id)) if !is_of(mutation, id) => {
                    whole.updates.retain(|update| update.table != id);
                }
                written => {
                    drop(turn);
                    return written;
                }
            }
        }
    })
}

/// Returns a mutation with its own updates first and its view updates behind them. The caller
/// holds turns on the rows.
///
/// # Errors
/// A view cannot have a row, a view's row has the greatest timestamp, or a read fails.
pub(in super::super) fn with_view_writes<'a>(
    node: &'a Node,
    mutation: &'a Mutation,
) -> LocalBoxFuture<'a, Result<Mutation, StorageError>> {
    Box::pin(async move {
        let mut whole = mutation.clone();
        // The places of the views' partitions in `whole`.
        let mut places: HashMap<(TableId, Bytes), usize> = HashMap::new();
        let schema = node.store().schema();
        for update in &mutation.updates {
            let Some(table) = schema.table_by_id(update.table) else { continue };
            if !table.has_views() {
                continue;
            }
            let updates = match node.store().routing.other_owner(table, update.key.token) {
                None => view_updates(node, update).await?,
                Some(shard) => {
                    let update = update.clone();
                    let there = move |node: Node| async move {
                        Box::pin(view_updates(&node, &update)).await
                    };
                    node.on_shard(shard, there).await?
                }
            };
            for update in updates {
                match places.entry((update.table, update.key.key.clone())) {
                    Entry::Vacant(place) => {
                        place.insert(whole.updates.len());
                        whole.updates.push(update);
                    }
                    Entry::Occupied(place) => {
                        if let Some(other) = whole.updates.get_mut(*place.get()) {
                            other.rows.extend(update.rows);
                        }
                    }
                }
            }
        }
        Ok(whole)
    })
}

/// Returns the writes to views that follow from a write to a partition of this shard.
async fn view_updates(
    node: &Node,
    update: &PartitionUpdate,
) -> Result<Vec<PartitionUpdate>, StorageError> {
    // A plan of the version before ALTER TABLE would leave the new columns out of the views.
    node.store().wait_for_columns(update).await?;
    let plans = view_plans(node, update.table);
    let Some(base) = plans.first().map(|plan| plan.base.clone()) else {
        return Ok(Vec::new());
    };
    refuse_invalid_keys(&plans, &base, update)?;
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let changes = view_changes(node, &plans, update, now_s).await?;
    trace_event!("Changing {} rows of materialized views", changes.len());
    let mut updates = Vec::with_capacity(changes.len());
    let mut remote: Vec<RemoteChanges> = Vec::new();
    for (index, change) in changes {
        let Some(plan) = plans.get(index) else { continue };
        match node.store().routing.other_owner(&plan.view, change.key().token) {
            None => {
                updates.extend(view_write(node, &plan.view, plan.moves(), change, now_s).await?)
            }
            Some(shard) => {
                let change = (plan.view.clone(), plan.moves(), change);
                match remote.iter_mut().find(|other| other.shard == shard) {
                    Some(other) => other.changes.push(change),
                    None => remote.push(RemoteChanges { shard, changes: vec![change] }),
                }
            }
        }
    }
    for RemoteChanges { shard, changes } in remote {
        let there = move |node: Node| async move {
            let mut updates = Vec::with_capacity(changes.len());
            for (view, moves, change) in changes {
                let update = Box::pin(view_write(&node, &view, moves, change, now_s)).await?;
                updates.extend(update);
            }
            Ok::<_, StorageError>(updates)
        };
        updates.extend(node.on_shard(shard, there).await?);
    }
    Ok(updates)
}

/// Checks that the views of a mutation's tables can have its rows.
///
/// # Errors
/// The key of a view's row would be empty or too long.
pub(in super::super) fn check_view_keys(
    node: &Node,
    mutation: &Mutation,
) -> Result<(), StorageError> {
    let schema = node.store().schema();
    for update in &mutation.updates {
        let base = schema.table_by_id(update.table).filter(|table| table.has_views());
        if let Some(base) = base {
            refuse_invalid_keys(&view_plans(node, base.id), base, update)?;
        }
    }
    Ok(())
}

/// Writes to several shards, or to none. Runs in a task of its own: if the caller drops the
/// write, the turn must not end before all shards have the write.
async fn write_on_several_shards(
    node: &Node,
    whole: Mutation,
    base_count: usize,
    turn: Turn,
) -> Result<CommitTicket, StorageError> {
    let node = node.clone();
    let applied = run_to_completion(async move {
        let outcome = node.batches().apply_complete_batch(whole, base_count).await;
        drop(turn);
        outcome
    });
    applied.await.unwrap_or(Err(StorageError::ShuttingDown))?;
    Ok(CommitTicket::acknowledged())
}

impl ViewChange {
    /// Returns the partition key of the view's row.
    fn key(&self) -> DecoratedKeyRef<'_> {
        match self {
            Self::Delete { row, .. } | Self::Put { row, .. } => row.key.borrowed(),
        }
    }
}

/// Returns the rows on which a write to a base table takes its turn.
pub(super) fn turn_rows_of(table: &TableMetadata, update: &PartitionUpdate) -> TurnRows {
    let mut rows = TurnRows::new(table, update.key.borrowed());
    if !update.deletion.is_live() || !update.range_tombstones.is_empty() {
        rows.add_all_rows();
    } else {
        update.rows.iter().for_each(|row| rows.add_row(table, &row.clustering));
    }
    rows
}

fn refuse_invalid_keys(
    plans: &[Rc<ViewPlan>],
    base: &TableMetadata,
    update: &PartitionUpdate,
) -> Result<(), StorageError> {
    let partition = partition_values(base, update)?;
    let mut rows = update.rows.iter().flat_map(|row| plans.iter().map(move |plan| (plan, row)));
    match rows.find_map(|(plan, row)| plan.refusal(&partition, row)) {
        Some(reason) => Err(StorageError::Unstorable(reason)),
        None => Ok(()),
    }
}

fn is_of(mutation: &Mutation, id: TableId) -> bool {
    mutation.updates.iter().any(|update| update.table == id)
}
