//! Execution: turns on all shards, then the decision, then the writes.

use std::{collections::VecDeque, sync::Arc};

use espalier_mutation::Mutation;
use espalier_runtime::{spawn_local, sync::oneshot::oneshot};
use espalier_storage::{Database, StorageError, Turn, TurnRows};
use futures_util::future::LocalBoxFuture;

use super::{PlannedTransaction, decide::Decision, places::Places};
use crate::{
    Error, QueryResult, Result,
    options::Value,
    prepared::{Plan, Prepared},
    term::Evaluation,
};

/// A transaction with its values. It can be sent to another shard.
#[derive(Clone, Debug)]
pub struct TransactionRequest {
    /// The prepared transaction.
    pub prepared: Arc<Prepared>,
    /// The bound values, checked against their markers.
    pub values: Arc<[Value]>,
    /// The second since 1970 at which data has expired.
    pub now_s: u32,
    /// The clock in µs since 1970, for `now()` and similar functions.
    pub now_us: i64,
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

/// Executes a transaction.
///
/// # Errors
/// A value is invalid, or the storage fails. If the storage fails after it has accepted the writes,
/// it completes them later, as it does for a logged batch.
pub async fn execute(database: &Database, request: TransactionRequest) -> Result<QueryResult> {
    let places = Places::of(database, request.plan()?, &request.evaluation(), request.now_s)?;
    let turns: VecDeque<(usize, TurnRows)> = places.turns.into_iter().collect();
    let is_of_one_shard = turns.len() == 1;
    let transaction = within_turns(database.clone(), Arc::new(request), turns, is_of_one_shard);
    if is_of_one_shard {
        return transaction.await;
    }
    // A task of its own: if the caller gives the request up, the turns of one shard must not end
    // while another shard goes on.
    let (sender, outcome) = oneshot();
    spawn_local(async move {
        // Without a receiver, the client is gone.
        let _ = sender.send(transaction.await);
    })
    .detach();
    outcome.await.unwrap_or_else(|_| Err(StorageError::ShuttingDown.into()))
}

/// Takes the turns of one shard after the other, runs the transaction on the last one, and ends the
/// turns in reverse order.
fn within_turns(
    database: Database,
    request: Arc<TransactionRequest>,
    mut turns: VecDeque<(usize, TurnRows)>,
    is_of_one_shard: bool,
) -> LocalBoxFuture<'static, Result<QueryResult>> {
    Box::pin(async move {
        let Some((shard, rows)) = turns.pop_front() else {
            return Err(Error::invalid("Transaction contains no reads or writes"));
        };
        let next = move |database: Database| async move {
            let turn = database.take_turn(rows).await;
            if !turns.is_empty() {
                let result = within_turns(database, request, turns, is_of_one_shard).await;
                drop(turn);
                return result;
            }
            run(&database, &request, turn, is_of_one_shard).await
        };
        database.on_shard(shard, next).await
    })
}

async fn run(
    database: &Database,
    request: &TransactionRequest,
    turn: Turn,
    is_of_one_shard: bool,
) -> Result<QueryResult> {
    let Decision { answer, mutation } = Decision::make(database, request).await?;
    if mutation.updates.is_empty() {
        settle(database, request).await?;
        drop(turn);
    } else if is_of_one_shard {
        database.write_in_turn(&mutation, turn).await?.wait().await?;
    } else {
        write_all(database, mutation).await?;
        drop(turn);
    }
    Ok(answer)
}

/// Writes to several shards. The turns go on until all memtables have the writes.
async fn write_all(database: &Database, mutation: Mutation) -> Result<()> {
    Ok(database.apply_whole_batch(mutation).await?)
}

/// Waits until what the transaction has read is durable, because no crash may take it back.
async fn settle(database: &Database, request: &TransactionRequest) -> Result<()> {
    let places = Places::of(database, request.plan()?, &request.evaluation(), request.now_s)?;
    for command in places.reads.iter().chain(&places.others) {
        if let espalier_storage::ReadTarget::Partition(key) = &command.target {
            database.settle(&command.table, Some(key)).await?;
        }
    }
    Ok(())
}
