//! Executes writes that may wait: statements, batches, counters, and writes that read rows first.

use std::sync::Arc;

use espalier_mutation::{ColumnData, Mutation, PartitionUpdate};
use espalier_runtime::{maybe_yield, time};
use espalier_storage::{Node, TurnKind};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::{QueryProcessor, clocks, turn_requests::turn_request};
use crate::{
    ClientState, Error, QueryOptions, QueryResult, Result, Value, Values,
    batch::{self, BatchUpdates, TextPlans, check_statements},
    consistency,
    grammar::ast::BatchKind,
    guard::{Guard, check_batch},
    metadata::ColumnSpec,
    modify::{Clocks, PlannedModification, StoredRows},
    planner,
    prepared::{Plan, Prepared},
    read_budget::ReadBudget,
    restrictions::NamedRows,
    term::{Evaluation, bind_valid_values, bind_values, check_count},
    turn::{self, TurnRequest, TurnStatement},
};

/// Maximum number of partitions whose counters one statement or batch changes at the same time
/// (arbitrary).
const COUNTERS_AT_ONCE: usize = 32;

/// A BATCH message of the protocol.
pub struct Batch<'a> {
    /// Logged, unlogged or counter.
    pub kind: BatchKind,
    /// Its statements.
    pub statements: Vec<BatchStatement<'a>>,
}

/// One statement of a BATCH message.
pub struct BatchStatement<'a> {
    /// Text, or a prepared statement.
    pub statement: BatchedStatement<'a>,
    /// Its bound values.
    pub values: Values<'a>,
}

/// The two forms of a statement in a BATCH message.
pub enum BatchedStatement<'a> {
    /// The text of a statement, which is planned at execution.
    Text(&'a str),
    /// A prepared statement.
    Prepared(Arc<Prepared>),
}

/// Returns the statements of a conditional batch with their values, which `bind` checks.
async fn turn_statements(
    batch: &Batch<'_>,
    planned: &[Arc<Prepared>],
    bind: fn(&[ColumnSpec], Values<'_>) -> Result<Vec<Value>>,
) -> Result<Vec<TurnStatement>> {
    let mut statements = Vec::with_capacity(planned.len());
    for (prepared, sent) in planned.iter().zip(&batch.statements) {
        maybe_yield().await;
        let values = bind(&prepared.bind.columns, sent.values)?.into();
        statements.push(TurnStatement { prepared: prepared.clone(), index: 0, values });
    }
    Ok(statements)
}

impl QueryProcessor {
    /// Executes statements that read rows before they write them, on the shard that owns their
    /// partition.
    pub(super) async fn take_turn(
        &self,
        request: TurnRequest,
        guard: Guard<'_>,
    ) -> Result<QueryResult> {
        let key = request.key().await?;
        let database = &self.inner.database;
        let Some(first) = request.statements.first() else { return Ok(QueryResult::Void) };
        let shard = database.store().routing().shard_of(&first.modification()?.table, &key);
        let kind = request.kind();
        let deadline = database.store().configuration().timeouts.turn_deadline(kind);
        let execute = move |database: Node| async move {
            turn::execute(&database, &request, key, deadline).await
        };
        let (outcome, warnings) = database.call_in_turn(shard, deadline, execute).await?;
        warnings.into_iter().for_each(|text| guard.warn(text));
        match kind {
            TurnKind::Conditional => outcome.map_err(Error::of_conditional),
            _ => outcome,
        }
    }

    pub(super) async fn modify(
        &self,
        statement: &PlannedModification,
        evaluation: &Evaluation<'_>,
        clocks: Clocks,
        guard: Guard<'_>,
    ) -> Result<()> {
        statement.check_timestamp(evaluation, clocks, guard)?;
        statement.restrictions.check_products(evaluation, guard)?;
        let written = statement.written_rows(evaluation)?;
        let (database, mut budget) = (&self.inner.database, ReadBudget::new());
        let rows =
            StoredRows::read(database, statement, &written, clocks.now_s, &mut budget).await?;
        let current = |key: &_, clustering: Option<&_>| rows.find(key, clustering);
        let updates =
            statement.guarded_updates_at(&written, evaluation, clocks, &current, guard)?;
        if statement.table.is_counter() {
            return self.apply_counters(updates).await;
        }
        let updates: Vec<_> = updates.into_iter().filter(|update| !update.is_empty()).collect();
        if updates.is_empty() {
            return Ok(());
        }
        // A large collection has held the core in its evaluation, and will hold it in the write.
        maybe_yield().await;
        Ok(self.inner.database.apply(Mutation { updates }).await?)
    }

    /// Applies changes of counters, one update for each partition. Partitions change side by side,
    /// so that they share syncs of the commit log.
    async fn apply_counters(&self, updates: Vec<PartitionUpdate>) -> Result<()> {
        let applied = updates.into_iter().map(|update| self.apply_counter(update));
        let applied = stream::iter(applied).buffer_unordered(COUNTERS_AT_ONCE);
        Box::pin(applied.try_collect::<()>()).await
    }

    async fn apply_counter(&self, update: PartitionUpdate) -> Result<()> {
        let deletes = !update.deletion.is_live() || !update.range_tombstones.is_empty();
        let counts = update.static_row.iter().chain(&update.rows).any(|row| {
            row.columns
                .iter()
                .any(|(_, data)| matches!(data, ColumnData::Simple(cell) if !cell.is_tombstone()))
        });
        if counts {
            self.inner.database.apply_counters(update).await?;
        } else if deletes || !update.is_empty() {
            self.inner.database.apply(Mutation { updates: vec![update] }).await?;
        }
        Ok(())
    }

    async fn apply_batch(
        &self,
        kind: BatchKind,
        is_counter: bool,
        mutation: Mutation,
        guard: Guard<'_>,
    ) -> Result<()> {
        if mutation.updates.is_empty() {
            return Ok(());
        }
        let schema = self.inner.database.store().schema();
        match kind {
            BatchKind::Logged => batch::warn_of_no_grace(&mutation, &schema, guard),
            BatchKind::Unlogged => batch::warn_of_partitions(&mutation, &schema, guard),
            BatchKind::Counter => {}
        }
        batch::check_size(&mutation, is_counter, &schema, guard)?;
        if is_counter {
            return self.apply_counters(mutation.updates).await;
        }
        maybe_yield().await;
        match kind {
            BatchKind::Logged if mutation.updates.len() > 1 => {
                Ok(self.inner.database.batches().apply(mutation).await?)
            }
            _ => Ok(self.inner.database.apply(mutation).await?),
        }
    }

    /// Executes a BATCH message.
    ///
    /// # Errors
    /// A statement cannot be planned, is not a modification or has a timeout, the client may not
    /// execute it, the statements cannot be combined, their plans or changes are too large, a
    /// guardrail refuses them, the consistency level or a value is invalid, the turn of a
    /// conditional batch does not come in time, or the storage fails.
    pub async fn batch(
        &self,
        batch: Batch<'_>,
        client: &ClientState,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        let schema = self.inner.database.store().schema();
        let keyspace = options.keyspace.or(client.keyspace.as_deref());
        let mut planned = Vec::with_capacity(batch.statements.len());
        let mut plans = TextPlans::default();
        for statement in &batch.statements {
            maybe_yield().await;
            let prepared = match &statement.statement {
                BatchedStatement::Text(text) => {
                    let prepared = planner::plan_apart(text, keyspace, &schema).await?;
                    plans.add(&prepared)?;
                    Arc::new(prepared)
                }
                BatchedStatement::Prepared(prepared) => prepared.clone(),
            };
            check_count(&prepared.bind.columns, statement.values, |expected, given| {
                format!("There were {expected} markers(?) in CQL but {given} bound variables")
            })?;
            planned.push(prepared);
        }
        // As in Cassandra, this check precedes those of the permissions.
        if planned.iter().any(|prepared| !matches!(prepared.plan, Plan::Modification(_))) {
            return Err(Error::invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
            ));
        }
        if let Some(login) = client.login.as_deref() {
            for prepared in &planned {
                self.authorize(login, prepared).await?;
            }
        }
        let tables = planned.iter().filter_map(|prepared| match &prepared.plan {
            Plan::Modification(statement) => Some(&statement.table),
            _ => None,
        });
        let login = client.login.as_deref();
        let applies_masks = tables.take(1).any(|table| self.masks_table(table, login));
        let is_exempt = super::is_exempt(client);
        let options = &QueryOptions { is_exempt, applies_masks, ..*options };
        let result = self.planned_batch(&batch, &planned, options).await;
        if planned.iter().any(|prepared| prepared.changes_roles) {
            self.inner.auth.roles_changed();
        }
        result
    }

    /// Executes the statements of a BATCH message.
    async fn planned_batch(
        &self,
        batch: &Batch<'_>,
        planned: &[Arc<Prepared>],
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        let now_us = time::now_micros();
        let clocks = clocks(options, now_us);
        if planned.iter().any(|prepared| prepared.timeout.is_some()) {
            return Err(Error::invalid(planner::TIMEOUT_INSIDE));
        }
        let guard = Guard::of(&self.inner.database, options);
        let statements = planned.iter().filter_map(|prepared| match &prepared.plan {
            Plan::Modification(statement) => Some(statement.as_ref()),
            _ => None,
        });
        check_statements(batch.kind, statements.clone(), false)?;
        if guard.guardrails.guards_writes() {
            check_batch(statements.clone(), options, guard)?;
            if let Some(first) = planned.first() {
                self.check_disk_usage(&first.plan, guard).await?;
            }
        }
        if planned.iter().any(|prepared| prepared.is_conditional()) {
            consistency::check_conditional(options)?;
            return match turn_statements(batch, planned, bind_values).await {
                Ok(statements) => {
                    let request = turn_request(statements, true, options, now_us);
                    Box::pin(self.take_turn(request, guard)).await
                }
                Err(invalid) => {
                    let statements = turn_statements(batch, planned, bind_valid_values).await?;
                    let request = turn_request(statements, true, options, now_us);
                    Err(Box::pin(turn::first_error(&request, invalid)).await)
                }
            };
        }
        consistency::check_batch(statements.clone(), options.consistency)?;
        let mut values = Vec::with_capacity(planned.len());
        for (prepared, sent) in planned.iter().zip(&batch.statements) {
            maybe_yield().await;
            values.push(bind_values(&prepared.bind.columns, sent.values)?);
        }
        let evaluations =
            values.iter().map(|values| Evaluation { values, now_us, references: &[] });
        self.write_batch(batch.kind, statements.zip(evaluations), clocks, guard).await
    }

    /// Executes the statements of a batch, each with its values. Their writes are one mutation,
    /// except that each partition of a counter table is written on its own.
    pub(super) async fn write_batch<'s>(
        &self,
        kind: BatchKind,
        statements: impl Iterator<Item = (&'s PlannedModification, Evaluation<'s>)>,
        clocks: Clocks,
        guard: Guard<'_>,
    ) -> Result<QueryResult> {
        let database = &self.inner.database;
        let (mut updates, mut budget) = (BatchUpdates::default(), ReadBudget::new());
        let (mut is_counter, mut named) = (false, NamedRows::default());
        for (statement, evaluation) in statements {
            maybe_yield().await;
            is_counter |= statement.table.is_counter();
            statement.restrictions.check_products(&evaluation, guard)?;
            let written = statement.written_rows(&evaluation)?;
            named.add(written.keys.len(), written.slices.slices.len())?;
            let now_s = clocks.now_s;
            let rows = StoredRows::read(database, statement, &written, now_s, &mut budget).await?;
            let current = |key: &_, clustering: Option<&_>| rows.find(key, clustering);
            updates.add(statement, &written, &evaluation, clocks, &current, guard)?;
        }
        let mutation = updates.into_mutation().await;
        self.apply_batch(kind, is_counter, mutation, guard).await?;
        Ok(QueryResult::Void)
    }
}
