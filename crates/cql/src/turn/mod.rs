//! Executes statements that read rows before they write them: conditional statements and batches,
//! and changes of lists by index or value. See docs/decisions/0030-turns.md.
//!
//! 1. [`TurnRequest::key`] evaluates the partition, and the processor sends the request to the
//!    shard that owns it.
//! 2. [`TurnPlan::of`] evaluates the rows and the conditions of each statement. So it finds errors
//!    of values before the request waits for a turn.
//! 3. [`execute`] takes the turn, reads the rows, tests the conditions, and writes all changes as
//!    one record of the commit log, or writes nothing.
//! 4. The turn ends. The answer waits until the commit log has synced the request's own record. If
//!    a conditional request wrote nothing, the answer waits for all earlier records, because they
//!    may contain the rows that the answer shows.

mod answer;
mod plan;
mod rows;

use std::sync::Arc;

use espalier_mutation::{DecoratedKey, Mutation};
use espalier_runtime::{maybe_yield, time, trace_event};
use espalier_storage::{LogCheck, Node, ReadCommand, TurnDeadline, TurnKind};
use futures_util::future::LocalBoxFuture;

use plan::TurnPlan;
use rows::ReadRows;

use crate::{
    Error, QueryResult, Result, Warnings,
    batch::BatchUpdates,
    guard::Guard,
    modify::{Clocks, ModificationKind, PlannedModification, WrittenRows},
    options::Value,
    prepared::{self, Prepared},
    restrictions::Partitions,
    term::Evaluation,
};

/// A statement or batch that takes a turn. It can be sent to another shard.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// The statements in their order.
    pub statements: Vec<TurnStatement>,
    /// True if the statements are a batch. The answer of a batch has the primary keys of its rows.
    pub is_batch: bool,
    /// The clocks of the execution. A conditional request replaces the timestamp by its own.
    pub clocks: Clocks,
    /// True if the client has chosen `clocks.now_s`. If not, the execution reads the clock again in
    /// its turn.
    pub has_own_now: bool,
    /// The clock in µs since 1970, for `now()` and similar functions.
    pub now_us: i64,
    /// True if the client is exempt from guardrails.
    pub is_exempt: bool,
    /// True if the answer shows masks in place of the values of masked columns.
    pub applies_masks: bool,
}

/// A statement of a [`TurnRequest`].
#[derive(Clone, Debug)]
pub struct TurnStatement {
    /// The prepared statement: a modification, or a batch.
    pub prepared: Arc<Prepared>,
    /// The index of the modification in the batch.
    pub index: usize,
    /// The bound values, checked against their markers.
    pub values: Arc<[Value]>,
}

impl TurnStatement {
    /// Returns the modification.
    ///
    /// # Errors
    /// The prepared statement has no modification with this index.
    pub fn modification(&self) -> Result<&PlannedModification> {
        let found = match &self.prepared.plan {
            prepared::Plan::Modification(statement) => Some(&**statement),
            prepared::Plan::Batch(batch) => batch.statements.get(self.index),
            _ => None,
        };
        found.ok_or_else(|| Error::invalid("only INSERT, UPDATE and DELETE can have conditions"))
    }
}

impl TurnRequest {
    fn evaluation<'s>(&self, statement: &'s TurnStatement) -> Evaluation<'s> {
        Evaluation { values: &statement.values, now_us: self.now_us, references: &[] }
    }

    /// Returns the kind of the request, which decides how long it waits for its turn.
    pub fn kind(&self) -> TurnKind {
        let is_conditional = |statement: &TurnStatement| {
            statement.modification().is_ok_and(|statement| !statement.condition.is_none())
        };
        if self.statements.iter().any(is_conditional) {
            TurnKind::Conditional
        } else {
            TurnKind::Write
        }
    }

    /// Returns the only partition of the request.
    ///
    /// # Errors
    /// The statements name several partitions, or a value of a key is invalid.
    pub async fn key(&self) -> Result<DecoratedKey> {
        let mut only: Option<DecoratedKey> = None;
        for statement in &self.statements {
            maybe_yield().await;
            let modification = statement.modification()?;
            let evaluation = self.evaluation(statement);
            let partition = &modification.restrictions.partition;
            let Partitions::Keys(keys) = partition.partitions(&modification.table, &evaluation)?
            else {
                return Err(Error::invalid("Some partition key parts are missing"));
            };
            if partition.has_in() || keys.len() > 1 {
                return Err(self.refuse_in(modification, "partition key"));
            }
            for key in keys {
                match &only {
                    Some(first) if *first != key => {
                        return Err(Error::invalid(
                            "Batch with conditions cannot span multiple partitions",
                        ));
                    }
                    _ => only = Some(key),
                }
            }
        }
        only.ok_or_else(|| Error::invalid("Some partition key parts are missing"))
    }

    fn refuse_in(&self, modification: &PlannedModification, columns: &str) -> Error {
        if self.is_batch && columns == "partition key" {
            return Error::invalid(
                "Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)",
            );
        }
        let kind = match modification.kind {
            ModificationKind::Delete => "deletions",
            ModificationKind::Insert | ModificationKind::Update => "updates",
        };
        Error::invalid(format!("IN on the {columns} is not supported with conditional {kind}"))
    }
}

/// Executes a request on the shard that owns its partition. Returns the warnings for the client
/// with the outcome.
///
/// # Errors
/// A value is invalid, a clustering column has an IN, conditions of one row exclude each other, a
/// condition compares with null, the turn does not come before the deadline, a guardrail refuses a
/// value, the rows or the answer are too large, no later timestamp exists, or the storage fails.
pub fn execute<'a>(
    database: &'a Node,
    request: &'a TurnRequest,
    key: DecoratedKey,
    deadline: TurnDeadline,
) -> LocalBoxFuture<'a, (Result<QueryResult>, Vec<String>)> {
    Box::pin(async move {
        let warnings = Warnings::default();
        let guardrails = &database.store().configuration().guardrails;
        let is_exempt = request.is_exempt;
        let guard = Guard { guardrails, warnings: Some(&warnings), is_exempt };
        let outcome = run(database, request, key, deadline, guard).await;
        (outcome, warnings.take())
    })
}

async fn run(
    database: &Node,
    request: &TurnRequest,
    key: DecoratedKey,
    deadline: TurnDeadline,
    guard: Guard<'_>,
) -> Result<QueryResult> {
    let mut plan = TurnPlan::of(request, key).await?;
    let turn = database.store().turns().take_until(plan.turn_rows(), deadline).await?;
    plan.now_s = now_after_wait_s(request.clocks.now_s, request.has_own_now);
    let clocks = Clocks { now_s: plan.now_s, ..request.clocks };
    let mut read = ReadRows::read(database, &plan).await?;
    if !plan.is_conditional {
        let mutation = updates(request, &plan, &read, clocks, guard).await?;
        // The rows may be large, and the wait for the disk needs none.
        drop(read);
        if !mutation.updates.is_empty() {
            let written = database.write_in_turn(&mutation, turn, LogCheck::None).await?;
            written.wait().await?;
        }
        return Ok(QueryResult::Void);
    }
    if !plan.holds(&read).await? {
        trace_event!("The condition does not hold: nothing is written");
        // The next read serves only the answer and may take long, so other turns may begin.
        drop(turn);
        read.find_marked_row(database, &plan).await?;
        let schema = Some(database.store().schema()).filter(|_| request.applies_masks);
        let answer = answer::not_applied(&plan, &read, schema.as_deref(), request.now_us).await?;
        database.store().barrier(plan.table)?.wait().await?;
        return Ok(QueryResult::Rows(answer));
    }
    trace_event!("The condition holds");
    let timestamp_us = later_than(database, &[plan.timestamp_read()]).await?;
    let clocks = Clocks { timestamp_us, ..clocks };
    let mut mutation = updates(request, &plan, &read, clocks, guard).await?;
    drop(read);
    for update in &mut mutation.updates {
        update.set_timestamp(timestamp_us);
    }
    let ticket = if mutation.updates.is_empty() {
        drop(turn);
        database.store().barrier(plan.table)?
    } else {
        database.write_in_turn(&mutation, turn, LogCheck::Intact).await?
    };
    ticket.wait().await?;
    Ok(QueryResult::Rows(answer::applied(&plan)))
}

/// Returns the time, in seconds since 1970, for a statement that has waited for turns. Returns
/// `now_s` if the client has chosen it. Otherwise returns the clock, but at least `now_s`, the time
/// of arrival: rows may have expired during the wait, and a TTL begins after it.
pub fn now_after_wait_s(now_s: u32, is_chosen: bool) -> u32 {
    if is_chosen {
        return now_s;
    }
    u32::try_from(time::now_seconds()).unwrap_or(0).max(now_s)
}

/// Returns the error of a conditional batch with an invalid value: `invalid`, or the error for
/// conditions of one row that exclude each other. Cassandra finds the latter first, because it
/// checks a value only when it writes the value. `request` has null in place of invalid values.
pub async fn first_error(request: &TurnRequest, invalid: Error) -> Error {
    let Ok(key) = request.key().await else { return invalid };
    match TurnPlan::of(request, key).await {
        Err(error) if error.message.starts_with(plan::EXCLUSIVE_CONDITIONS) => error,
        _ => invalid,
    }
}

/// Returns a timestamp in µs that is later than all data and deletions that `commands` read, so
/// that the write is visible. The deletions of the write are 1 µs older than its cells.
///
/// # Errors
/// The storage fails, or no later timestamp exists.
pub async fn later_than(database: &Node, commands: &[ReadCommand]) -> Result<i64> {
    let timestamp_us = time::next_timestamp_micros();
    let floor_us = timestamp_us.saturating_sub(2);
    let mut newest_us = floor_us;
    for command in commands {
        newest_us = newest_us.max(database.newest_timestamp(command, floor_us).await?);
    }
    newest_us.checked_add(2).ok_or_else(|| {
        Error::invalid(format!(
            "A row has the write timestamp {newest_us}: no later write can be visible"
        ))
    })
}

/// Returns the changes of all statements.
async fn updates(
    request: &TurnRequest,
    plan: &TurnPlan<'_>,
    read: &ReadRows,
    clocks: Clocks,
    guard: Guard<'_>,
) -> Result<Mutation> {
    let mut updates = BatchUpdates::default();
    for (statement, planned) in request.statements.iter().zip(&plan.statements) {
        maybe_yield().await;
        let evaluation = request.evaluation(statement);
        let current = |_: &DecoratedKey, clustering: Option<&_>| read.row(plan.table, clustering);
        let keys = vec![plan.key.clone()];
        let written = WrittenRows { keys, slices: planned.slices.clone() };
        updates.add(planned.modification, &written, &evaluation, clocks, &current, guard)?;
    }
    Ok(updates.into_mutation().await)
}
