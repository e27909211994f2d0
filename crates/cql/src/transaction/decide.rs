//! Decides a transaction while it holds its turns: reads the rows, tests the conditions, and makes
//! the writes.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{ClusteringSlices, DecoratedKey, Mutation};
use espalier_runtime::{maybe_yield, trace_event};
use espalier_storage::{Node, PartitionRows, ReadCommand};
use hashbrown::HashMap;

use super::{
    Answer, PlannedTransaction, TransactionCondition, execute::TransactionRequest,
    plan::NULL_COMPARISON, rows::TransactionRows,
};
use crate::{
    Error, QueryResult, Result, Rows,
    batch::BatchUpdates,
    current_row::{CurrentRow, FrozenColumns, RowView},
    guard::Guard,
    modify::{Clocks, StoredRows},
    options::QueryOptions,
    read_budget::ReadBudget,
    restrictions::holds,
    select::{self, key_components, put},
    term::{Bound, Evaluation},
    turn::later_than,
};

/// Maximum bytes of an answer of references, because drivers accept no larger frame. The decision
/// checks the size of the answer before each value.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// The answer and the writes of a transaction.
pub struct Decision {
    /// The answer.
    pub answer: QueryResult,
    /// The writes; empty if a condition does not hold.
    pub mutation: Mutation,
}

/// The rows that the `LET`s have read.
struct LetRows {
    partitions: Vec<Option<PartitionRows>>,
}

impl Decision {
    /// Reads and decides. `now_s` is the time in seconds since 1970.
    ///
    /// # Errors
    /// A condition compares with null, an update has an invalid value, a guardrail refuses a value,
    /// the rows or the answer are too large, no later timestamp exists, or the storage fails.
    pub async fn make(
        database: &Node,
        request: &TransactionRequest,
        named: &TransactionRows,
        now_s: u32,
    ) -> Result<Self> {
        let plan = request.plan()?;
        let mut rows = LetRows { partitions: Vec::with_capacity(named.reads.len()) };
        let mut budget = ReadBudget::new();
        for command in &named.reads {
            let command = ReadCommand { now_s, ..command.clone() };
            rows.partitions.push(read_row(database, command, &mut budget).await?);
        }
        let references = rows.references(plan, request).await?;
        let evaluation = Evaluation { references: &references, ..request.evaluation() };
        let answer = answer(database, plan, &evaluation, now_s).await?;
        let applies = rows.satisfy(plan, &evaluation).await?;
        if !plan.conditions.is_empty() {
            if applies {
                trace_event!("The condition of the transaction holds");
            } else {
                trace_event!("The condition of the transaction does not hold: nothing is written");
            }
        }
        if !applies || plan.updates.is_empty() {
            return Ok(Self { answer, mutation: Mutation::default() });
        }
        let mut replaced = named.reads.clone();
        replaced.extend(named.others.iter().cloned());
        let timestamp_us = later_than(database, &replaced).await?;
        let clocks = Clocks { timestamp_us, now_s };
        // A transaction answers without warnings.
        let guardrails = &database.store().configuration().guardrails;
        let guard = Guard { guardrails, warnings: None, is_exempt: request.is_exempt };
        let mut updates = BatchUpdates::default();
        for (update, written) in plan.updates.iter().zip(&named.updates) {
            maybe_yield().await;
            let stored = StoredRows::read(database, update, written, now_s, &mut budget).await?;
            let current = |key: &DecoratedKey, clustering: Option<&_>| stored.find(key, clustering);
            updates.add(update, written, &evaluation, clocks, &current, guard)?;
        }
        let mut mutation = updates.into_mutation().await;
        for update in &mut mutation.updates {
            update.set_timestamp(timestamp_us);
        }
        Ok(Self { answer, mutation })
    }
}

impl LetRows {
    /// Calls `look` with the row of a `LET`, and with true if the row exists.
    fn look<R>(
        &self,
        plan: &PlannedTransaction,
        row: usize,
        look: impl FnOnce(&CurrentRow<'_>, bool) -> Result<R>,
    ) -> Result<R> {
        let read = plan.reads.get(row).ok_or_else(|| Error::invalid("unknown row"))?;
        let found = self.partitions.get(row).and_then(Option::as_ref);
        let key = found.map(|found| key_components(&read.table, &found.key)).transpose()?;
        let first = found.and_then(|found| found.rows.first());
        let current = CurrentRow {
            table: &read.table,
            partition_key: key.as_deref().unwrap_or_default(),
            static_row: found.and_then(|found| found.static_row.as_ref()),
            row: first.map(RowView::Object),
        };
        look(&current, first.is_some())
    }

    /// Returns the values of all references.
    async fn references(
        &self,
        plan: &PlannedTransaction,
        request: &TransactionRequest,
    ) -> Result<Vec<Option<Bytes>>> {
        let evaluation = request.evaluation();
        let mut frozen: HashMap<usize, FrozenColumns> = HashMap::new();
        let mut values = Vec::with_capacity(plan.references.len());
        for reference in &plan.references {
            maybe_yield().await;
            let frozen = frozen.entry(reference.row).or_default();
            let value = |row: &CurrentRow<'_>, _| reference.value(row, frozen, &evaluation);
            values.push(self.look(plan, reference.row, value)?);
        }
        Ok(values)
    }

    /// Returns whether all conditions hold.
    async fn satisfy(
        &self,
        plan: &PlannedTransaction,
        evaluation: &Evaluation<'_>,
    ) -> Result<bool> {
        let value = |reference: &u16| {
            evaluation.references.get(usize::from(*reference)).and_then(Option::as_ref)
        };
        for condition in &plan.conditions {
            maybe_yield().await;
            let is_met = match condition {
                TransactionCondition::RowExists { row, wanted } => {
                    self.look(plan, *row, |_, exists| Ok(exists == *wanted))?
                }
                TransactionCondition::IsSet { reference, wanted } => {
                    value(reference).is_some() == *wanted
                }
                TransactionCondition::Compare { reference, operator, term } => {
                    let Bound::Value(right) = term.evaluate(evaluation)? else {
                        return Err(Error::invalid(NULL_COMPARISON));
                    };
                    let value_type = plan
                        .references
                        .get(usize::from(*reference))
                        .map(|reference| &reference.value_type);
                    match (value(reference), value_type) {
                        (Some(left), Some(value_type)) => {
                            holds(*operator, value_type.compare(left, &right))
                        }
                        _ => false,
                    }
                }
            };
            if !is_met {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Reads the row of a `LET`, with the static row of its partition.
async fn read_row(
    database: &Node,
    command: ReadCommand,
    budget: &mut ReadBudget,
) -> Result<Option<PartitionRows>> {
    let found = budget.read(database, command.clone()).await?.into_iter().next();
    if found.is_some() || !command.table.has_static_columns() || command.slices.is_all() {
        return Ok(found);
    }
    // A read of a row that does not exist returns no static row.
    let slices = Arc::new(ClusteringSlices::all());
    let partition = ReadCommand { slices, ..command };
    let found = budget.read(database, partition).await?.into_iter().next();
    Ok(found.map(|found| PartitionRows { rows: Vec::new(), ..found }))
}

async fn answer(
    database: &Node,
    plan: &PlannedTransaction,
    evaluation: &Evaluation<'_>,
    now_s: u32,
) -> Result<QueryResult> {
    match &plan.answer {
        Answer::None => Ok(QueryResult::Void),
        Answer::Select(select) => {
            let options = QueryOptions::default();
            let rows = select::execute(select, database, evaluation, &options, now_s);
            rows.await.map(QueryResult::Rows)
        }
        Answer::References(indices, metadata) => {
            let mut content = Vec::new();
            for index in indices {
                maybe_yield().await;
                if content.len() > MAX_ANSWER_BYTES {
                    return Err(Error::invalid("The result of the transaction is too large"));
                }
                let value = evaluation.references.get(usize::from(*index));
                put(value.and_then(Option::as_deref), &mut content);
            }
            Ok(QueryResult::Rows(Rows {
                metadata: metadata.clone(),
                row_count: 1,
                content,
                paging_state: None,
            }))
        }
    }
}
