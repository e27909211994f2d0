//! The acceptor of conditional writes: what a replica promises, accepts and commits, by version 1
//! of Cassandra's Paxos.
//!
//! | module | content |
//! | --- | --- |
//! | `acceptor` | the decisions, from the state of a partition |
//! | `record` | the state as a row of `system.paxos`, in Cassandra's form |
//!
//! Each partition of each table is a register of its own. A coordinator writes to it in three
//! steps, each of which needs a quorum of replicas:
//!
//! 1. **Prepare** asks for the promise to accept no older ballot. The answer has the update that
//!    the replica accepted last and the update that it committed last. The coordinator finishes the
//!    accepted update, and sends the committed update to replicas that lack it, before it reads the
//!    row and makes an update of its own.
//! 2. **Propose** asks the replica to accept an update.
//! 3. **Commit** says that a quorum has accepted the update. The replica applies it.
//!
//! **One decision at a time.** A request takes the turn on the row of `system.paxos` (decision
//! 0030): it reads the state, decides and writes, while other requests about the partition wait.
//! The row and the partition have the same token, so one shard owns both.
//!
//! **Durability.** An answer waits for the sync of the commit log, unless it is a refusal. An
//! update and the record of its commit are one record of the log.
//!
//! **Memory.** A request holds its update, and the state of its partition.
//!
//! Source: Cassandra 5.0.9, `PaxosState`, `SystemKeyspace`.

mod acceptor;
mod record;

use std::time::Duration;

use bytes::Bytes;
use espalier_mutation::{DecoratedKey, Mutation, PartitionUpdate, Row, schema::TableId};
use espalier_runtime::time::{self, Instant};
use espalier_storage::{LogCheck, Node, StorageError, TurnDeadline, TurnKind};
use uuid::Uuid;

pub use acceptor::{AcceptorState, NO_BALLOT, Recorded, ballot_micros};
use acceptor::{is_later, is_twin};
use record::PaxosTable;

/// Bytes by which the record of a commit may be longer than the record that the proposal has
/// checked, because the times of the cells differ.
const COMMIT_SPARE_BYTES: usize = 256;

/// A step of a conditional write, at one replica.
#[derive(Clone, Debug)]
pub struct PaxosRequest {
    /// The table.
    pub table: TableId,
    /// The partition.
    pub key: DecoratedKey,
    /// The time in seconds for which the replica keeps the record of this step.
    pub ttl_s: u32,
    /// The ballot, a UUID of version 1.
    pub ballot: Uuid,
    /// The time for which the request may wait before it is carried out.
    pub left: Duration,
    /// The step.
    pub step: PaxosStep,
}

/// The request of a coordinator. Updates are serialised, as in messages.
#[derive(Clone, Debug)]
pub enum PaxosStep {
    /// Asks for the promise to accept no older ballot.
    Prepare,
    /// Asks the replica to accept an update.
    Propose(Bytes, Box<PartitionUpdate>),
    /// Asks the replica to apply an update that a quorum has accepted.
    Commit(Bytes, Box<PartitionUpdate>),
}

/// The answer to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaxosAnswer {
    /// The promise is made.
    Promised {
        /// The update that the replica has accepted last, unless it is committed.
        accepted: Option<Recorded>,
        /// The update that the replica has committed last.
        committed: Option<Recorded>,
    },
    /// The promise is refused.
    Refused {
        /// The newest ballot that the replica has seen.
        newest: Uuid,
        /// The update that the replica has committed last.
        committed: Option<Recorded>,
    },
    /// True if the update is accepted.
    Accepted(bool),
    /// The update is applied.
    Committed,
}

/// Answers a request once the outcome is durable.
///
/// # Errors
///
/// Fails if the ballot is no UUID of version 1, if the table `system.paxos` is missing or its row
/// is damaged, if the request does not get the turn in time, or if storage fails.
pub async fn answer(database: &Node, request: PaxosRequest) -> Result<PaxosAnswer, String> {
    let paxos = PaxosTable::of(&database.store().schema())?;
    let timestamp_us = ballot_micros(request.ballot);
    let timestamp_us = timestamp_us.ok_or("the ballot is not a UUID of version 1")?;
    let shard = database.store().routing().shard_of(&paxos.table, &request.key);
    let deadline = database
        .store()
        .configuration()
        .timeouts
        .turn_deadline(TurnKind::Conditional)
        .within(request.left);
    let expiry = Instant::now() + request.left;
    let answering = move |database: Node| async move {
        let here = Acceptor { database, paxos, timestamp_us, deadline, expiry };
        here.answer(request).await
    };
    database.call_in_turn(shard, deadline, answering).await.map_err(text)?
}

/// The acceptor on the shard that owns the partition.
struct Acceptor {
    database: Node,
    paxos: PaxosTable,
    /// The timestamp of what the request writes: the ballot's time.
    timestamp_us: i64,
    /// The time at which the request gives up waiting for its turn.
    deadline: TurnDeadline,
    /// The time at which the coordinator gives up.
    expiry: Instant,
}

impl Acceptor {
    async fn answer(self, request: PaxosRequest) -> Result<PaxosAnswer, String> {
        let PaxosRequest { table, key, ttl_s, ballot, step, .. } = request;
        let times = record::Times {
            timestamp_us: self.timestamp_us,
            now_s: u32::try_from(time::now_seconds()).unwrap_or(0),
            ttl_s,
        };
        let rows = self.paxos.turn_rows(table, &key);
        let turn =
            self.database.store().turns().take_until(rows, self.deadline).await.map_err(text)?;
        let mut applied = None;
        if Instant::now() >= self.expiry {
            return Err("the coordinator gave up before the node had the turn".into());
        }
        // The coordinator relies on the updates that the answer shows, so they must be durable.
        let mut shown = None;
        let (row, answer): (Option<Row>, _) = match step {
            PaxosStep::Prepare => {
                let state = self.state(table, &key).await?.as_of(ballot);
                let committed = state.committed.clone();
                if let Some(newest) = state.newest()
                    && !state.may_promise(ballot)
                {
                    return Ok(PaxosAnswer::Refused { newest, committed });
                }
                if state.accepted.is_some() || committed.is_some() {
                    shown = Some(self.database.store().barrier(&self.paxos.table).map_err(text)?);
                }
                let answer = PaxosAnswer::Promised { accepted: state.accepted, committed };
                (Some(self.paxos.promise(table, ballot, times)), answer)
            }
            PaxosStep::Propose(update, write) => {
                let state = self.state(table, &key).await?.as_of(ballot);
                if !state.may_accept(ballot) {
                    return Ok(PaxosAnswer::Accepted(false));
                }
                if state.has_committed(ballot) {
                    drop(turn);
                    self.settle().await?;
                    return Ok(PaxosAnswer::Accepted(true));
                }
                let commit = self.paxos.commit(table, ballot, update.clone(), times);
                let commit = self.mutation_of(&key, Some(commit), Some(*write));
                let checked = self.database.store().check_write(&commit, COMMIT_SPARE_BYTES);
                checked.await.map_err(text)?;
                let row = self.paxos.proposal(table, ballot, update, times);
                (Some(row), PaxosAnswer::Accepted(true))
            }
            PaxosStep::Commit(update, write) => {
                // Applied even if the ballot is older than a TRUNCATE: the coordinator's clock may
                // be behind.
                applied = Some(*write);
                let known = self.state(table, &key).await?.committed;
                (self.commit(table, (ballot, update), times, known), PaxosAnswer::Committed)
            }
        };
        let mutation = self.mutation_of(&key, row, applied);
        if mutation.updates.is_empty() {
            drop(turn);
            self.settle().await?;
            return Ok(answer);
        }
        let written = self.database.write_in_turn(&mutation, turn, LogCheck::None).await;
        let ticket = written.map_err(text)?;
        for ticket in [Some(ticket), shown].into_iter().flatten() {
            ticket.wait().await.map_err(|error| text(error.into()))?;
        }
        Ok(answer)
    }

    /// Makes the mutation of a row of `system.paxos` and of the update that it commits.
    fn mutation_of(
        &self,
        key: &DecoratedKey,
        row: Option<Row>,
        applied: Option<PartitionUpdate>,
    ) -> Mutation {
        let record = row.map(|row| {
            let mut record = PartitionUpdate::new(self.paxos.table.id, key.clone());
            record.rows.push(row);
            record
        });
        let applied = applied.filter(|update| !update.is_empty());
        Mutation { updates: applied.into_iter().chain(record).collect() }
    }

    /// Makes the row that records a commit; `None` if the row of the last commit stays.
    ///
    /// If both commits have the same timestamp, the record of the later ballot must stay as a
    /// whole. Of two cells with the same timestamp, the cell that expires later stays, so the new
    /// cells expire after those of the last commit.
    fn commit(
        &self,
        table: TableId,
        (ballot, update): (Uuid, Bytes),
        mut times: record::Times,
        last: Option<Recorded>,
    ) -> Option<Row> {
        let twin = last.filter(|last| is_twin(last.ballot, ballot));
        if twin.as_ref().is_some_and(|twin| is_later(twin.ballot, ballot)) {
            return None;
        }
        times.expire_after(twin.map(|twin| twin.expires_s));
        Some(self.paxos.commit(table, ballot, update, times))
    }

    async fn state(&self, table: TableId, key: &DecoratedKey) -> Result<AcceptorState, String> {
        let read = self.database.read(self.paxos.read(table, key)).await.map_err(text)?;
        let row = read.partitions.first().and_then(|partition| partition.rows.first());
        row.map_or(Ok(AcceptorState::default()), |row| self.paxos.state(row))
    }

    /// Waits until the state that the request has read is durable.
    async fn settle(&self) -> Result<(), String> {
        let ticket = self.database.store().barrier(&self.paxos.table).map_err(text)?;
        ticket.wait().await.map_err(|error| text(error.into()))
    }
}

fn text(error: StorageError) -> String {
    error.to_string()
}
