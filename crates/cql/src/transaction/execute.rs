//! Executes a transaction: takes the turns on all shards, decides, and writes.

use std::{collections::VecDeque, sync::Arc};

use espalier_runtime::run_to_completion;
use espalier_storage::{LogCheck, Node, ReadTarget, Turn, TurnDeadline, TurnKind, TurnRows};
use futures_util::future::LocalBoxFuture;

use super::{PlannedTransaction, decide::Decision, rows::TransactionRows};
use crate::{
    Error, ErrorCode, QueryResult, Result,
    options::Value,
    prepared::{Plan, Prepared},
    term::Evaluation,
    turn::now_after_wait_s,
};

/// A transaction with its values. It can be sent to another shard.
#[derive(Clone, Debug)]
pub struct TransactionRequest {
    /// The prepared transaction.
    pub prepared: Arc<Prepared>,
    /// The bound values, checked against their markers.
    pub values: Arc<[Value]>,
    /// The time in seconds since 1970. Data that expires up to then is not visible.
    pub now_s: u32,
    /// True if the client has chosen `now_s`. If not, the transaction reads the clock again after
    /// it has waited for its turns.
    pub has_own_now: bool,
    /// The clock in µs since 1970, for `now()` and similar functions.
    pub now_us: i64,
    /// True if the client is exempt from guardrails.
    pub is_exempt: bool,
}

impl TransactionRequest {
    /// Returns the plan.
    ///
    /// # Errors
    /// The prepared statement is no transaction.
    pub fn plan(&self) -> Result<&PlannedTransaction> {
        match &self.prepared.plan {
            Plan::Transaction(plan) => Ok(plan),
            _ => Err(Error::invalid("the statement is no transaction")),
        }
    }

    /// Returns the inputs of terms without references.
    pub fn evaluation(&self) -> Evaluation<'_> {
        Evaluation { values: &self.values, now_us: self.now_us, references: &[] }
    }
}

/// A transaction whose keys are evaluated.
struct BoundTransaction {
    request: TransactionRequest,
    named: TransactionRows,
    /// The shards on which it takes turns.
    shards: Vec<usize>,
}

/// The outcome of a transaction.
struct Outcome {
    answer: QueryResult,
    /// True if the rows that it has read are durable.
    is_durable: bool,
}

/// Executes a transaction.
///
/// # Errors
/// A value is invalid, the turns do not come before the deadline, [`Decision::make`] fails, or the
/// storage fails. If the storage fails after it has accepted the writes, it completes them later,
/// as it does for a logged batch, unless it gives the batch up.
pub async fn execute(database: &Node, request: TransactionRequest) -> Result<QueryResult> {
    let evaluation = request.evaluation();
    let mut named =
        TransactionRows::of(database, request.plan()?, &evaluation, request.now_s).await?;
    let turns: VecDeque<(usize, TurnRows)> = std::mem::take(&mut named.turns).into_iter().collect();
    let shards: Vec<usize> = turns.iter().map(|(shard, _)| *shard).collect();
    let deadline = database.store().configuration().timeouts.turn_deadline(TurnKind::Conditional);
    let call = database.begin_turn_call(&shards, deadline).await?;
    let bound = Arc::new(BoundTransaction { request, named, shards });
    let transaction = within_turns(database.clone(), bound.clone(), turns, deadline);
    let outcome = if bound.shards.len() == 1 {
        call.until_answered(transaction).await
    } else {
        // The transaction runs in a task of its own, and completes even if the caller drops the
        // request: the turns of one shard must not end while another shard continues.
        let completed = run_to_completion(call.until_answered(transaction));
        completed.await.unwrap_or_else(|| Err(stopped()))
    }?;
    if !outcome.is_durable {
        wait_until_durable(database, &bound.named).await?;
    }
    Ok(outcome.answer)
}

/// Returns the error for a transaction whose task ended without an outcome.
#[cold]
fn stopped() -> Error {
    Error::new(
        ErrorCode::ServerError,
        "The transaction was stopped, because the node shuts down or because of an internal error \
         (see its log); it may have been applied",
    )
}

/// Takes the turns of one shard after the other, runs the transaction on the last shard, and ends
/// the turns in reverse order.
fn within_turns(
    database: Node,
    bound: Arc<BoundTransaction>,
    mut turns: VecDeque<(usize, TurnRows)>,
    deadline: TurnDeadline,
) -> LocalBoxFuture<'static, Result<Outcome>> {
    Box::pin(async move {
        let Some((shard, rows)) = turns.pop_front() else {
            return Err(Error::invalid("Transaction contains no reads or writes"));
        };
        let next = move |database: Node| async move {
            let turn = database.store().turns().take_until(rows, deadline).await?;
            if !turns.is_empty() {
                let outcome = within_turns(database, bound, turns, deadline).await;
                drop(turn);
                return outcome;
            }
            run(&database, &bound, turn).await
        };
        database.on_shard(shard, next).await
    })
}

async fn run(database: &Node, bound: &BoundTransaction, turn: Turn) -> Result<Outcome> {
    let BoundTransaction { request, named, shards } = bound;
    let now_s = now_after_wait_s(request.now_s, request.has_own_now);
    let Decision { answer, mutation } = Decision::make(database, request, named, now_s).await?;
    if mutation.updates.is_empty() {
        drop(turn);
        return Ok(Outcome { answer, is_durable: false });
    }
    if shards.len() == 1 {
        // The commit log makes records durable in their order: the rows that the transaction read
        // are durable before its writes, unless a sync has failed.
        database.write_in_turn(&mutation, turn, LogCheck::Intact).await?.wait().await?;
    } else {
        // The rows that the transaction read are in the logs of other shards. A crash must not keep
        // the writes and lose these rows.
        wait_until_durable(database, named).await?;
        database.batches().apply_whole(mutation).await?;
        drop(turn);
    }
    Ok(Outcome { answer, is_durable: true })
}

/// Waits until the rows that the transaction read are durable, because a crash could otherwise undo
/// them.
async fn wait_until_durable(database: &Node, named: &TransactionRows) -> Result<()> {
    let mut waited = Vec::new();
    for command in named.reads.iter().chain(&named.others) {
        let ReadTarget::Partition(key) = &command.target else { continue };
        let place = (database.store().routing().shard_of(&command.table, key), command.table.id);
        if !waited.contains(&place) {
            waited.push(place);
            database.wait_until_durable(&command.table, Some(key)).await?;
        }
    }
    Ok(())
}
