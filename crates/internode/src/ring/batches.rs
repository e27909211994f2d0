//! The batch log: logged batches that this node keeps for coordinators.
//!
//! 1. A coordinator stores a logged batch on two nodes before it writes any part of it.
//! 2. The coordinator removes the batch once each part has as many acknowledgements as the
//!    consistency level needs. It keeps hints for the other replicas.
//! 3. A batch that is still there after [`MIN_AGE`] belongs to a coordinator that has failed. The
//!    node sends each write to all its replicas, and removes the batch once all have acknowledged.
//!
//! The node keeps no hints. While a replica of a batch is down, the batch stays, and the node sends
//! it to that replica once the replica is up (`waiting_batches`). The node drops a write of a batch
//! that is older than the grace period of the write's tables, because later deletions may be purged
//! by then. Cassandra does the same.
//!
//! Bounds: one batch at a time is decoded; [`MAX_WRITES`] of its writes are under way.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashSet},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use espalier_runtime::{maybe_yield, spawn_local, time};
use uuid::Uuid;

use super::{
    RingMember,
    dispatch::Refusal,
    gossiper::Liveness,
    long_payloads::{decode_and, run_long},
    requests::Reply,
    room::Reservation,
    waiting_batches::{Due, Standing, WaitingBatches},
    writes,
};
use crate::{
    DecodeError, MessagingVersion,
    message::{Message, Verb},
    payload::{Batch, Mutation, Payload},
};

/// The age at which a batch counts as left over: twice Cassandra's `write_request_timeout`.
const MIN_AGE: Duration = Duration::from_secs(4);
/// The interval at which the node reads the batch log, as in Cassandra.
const PERIOD: Duration = Duration::from_secs(10);
/// The age after which a batch that cannot be decoded is removed: Cassandra's default of
/// `gc_grace_seconds`.
const MAX_AGE_UNDECODED: Duration = Duration::from_secs(864_000);
/// The time by which the clock of a coordinator may be ahead. Arbitrary.
const MAX_AHEAD_US: i64 = 3_600_000_000;
/// Writes of a batch that are under way at the same time. Arbitrary.
const MAX_WRITES: usize = 64;

/// The state of the batch log besides the batches.
#[derive(Default)]
pub(super) struct BatchLog {
    waiting: RefCell<WaitingBatches>,
}

/// The outcome of the writes of a batch.
#[derive(Default)]
struct Sent {
    /// The replicas that have not acknowledged all their writes.
    missing: BTreeSet<SocketAddr>,
    /// The missing replicas that did not answer.
    silent: HashSet<SocketAddr>,
}

impl RingMember {
    /// Keeps the batch of a message.
    pub(super) async fn store_batch(
        self: &Rc<Self>,
        to: SocketAddr,
        version: MessagingVersion,
        message: &Message,
        room: Reservation,
    ) -> Result<(), Refusal> {
        let (verb, schema) = (message.header.verb, self.backend.schema());
        let (tables, last_us) = (schema.clone(), time::now_micros().saturating_add(MAX_AHEAD_US));
        let work = move |payload: Payload| {
            let Payload::BatchStore(batch) = payload else {
                return Err(Refusal::unsupported(verb));
            };
            // Until its date, the batch would not count as left over, and the node would keep it.
            if batch.created_us > last_us {
                return Err(Refusal::new("a batch is dated more than an hour ahead"));
            }
            // The node keeps a batch only if it can decode and store all its writes.
            for mutation in batch.mutations(&*tables).map_err(Refusal::of)? {
                writes::check(&mutation)?;
                mutation.into_mutation().map_err(Refusal::of)?;
            }
            Ok(batch)
        };
        let batch = decode_and(verb, version, message.payload.clone(), schema, work).await?;
        // The coordinator may give up while the node works on a long batch.
        if !self.is_in_time(to, &message.header) {
            return Ok(());
        }
        let storing = self.backend.store_batch(batch);
        self.acknowledge(to, (message.header.id, verb), room, storing)
    }

    /// Removes a batch. The coordinator waits for no answer.
    pub(super) fn remove_batch(self: &Rc<Self>, id: Uuid) {
        self.batch_log.waiting.borrow_mut().end(id);
        let removing = self.backend.remove_batch(id);
        spawn_local(async move {
            if let Err(error) = removing.await {
                tracing::warn!(%id, %error, "could not remove a batch; it will be written again");
            }
        })
        .detach();
    }

    /// Finishes batches that are left over, until the member stops.
    pub(super) async fn finish_batches(self: Rc<Self>) {
        time::sleep(self.settings.ring_delay).await;
        let mut periods = time::interval(PERIOD);
        loop {
            self.finish_all_batches().await;
            periods.tick().await;
        }
    }

    async fn finish_all_batches(self: &Rc<Self>) {
        // A replica that does not answer is not asked again before the next round.
        let mut silent = HashSet::new();
        let mut after = None;
        loop {
            let (batches, next) = match self.backend.batches(after).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::error!(%error, "could not read the batch log; trying again in 10 s");
                    return;
                }
            };
            for batch in batches {
                if age_of(batch.created_us) >= MIN_AGE {
                    self.finish(batch, &mut silent).await;
                }
                maybe_yield().await;
            }
            if next.is_none() {
                return self.batch_log.waiting.borrow_mut().end_round();
            }
            after = next;
        }
    }

    /// Sends the writes of a batch to the replicas that lack them and are up. Removes the batch if
    /// all replicas have acknowledged them.
    async fn finish(self: &Rc<Self>, batch: Batch, silent: &mut HashSet<SocketAddr>) {
        let (id, created_us) = (batch.id, batch.created_us);
        let standing = |replica| self.standing(replica, silent);
        let due = self.batch_log.waiting.borrow_mut().due(id, time::now_micros(), standing);
        let lacking = match due {
            Due::Nothing => return,
            Due::All => None,
            Due::Only(replicas) => Some(replicas),
        };
        let (schema, has_agreed) = (self.backend.schema(), self.agrees_with_all_live());
        let decoding = run_long(batch.encoded.len(), move || batch.mutations(&*schema));
        let mutations = match decoding.await {
            Ok(mutations) => mutations,
            Err(error) => {
                return self.give_up_undecoded(id, age_of(created_us), has_agreed, &error);
            }
        };
        let (mut is_known, mut until_us, mut missing) = (true, i64::MIN, BTreeSet::new());
        let mut writes = Vec::new();
        for mut mutation in mutations {
            let graces = mutation.updates.iter();
            let grace_s = graces.map(|update| update.table.options.gc_grace_seconds).min();
            let grace = Duration::from_secs(grace_s.unwrap_or(0).into());
            if age_of(created_us) >= grace {
                tracing::warn!(
                    %id,
                    "dropped a write of a left-over batch that is older than gc_grace_seconds; \
                     repair the table"
                );
                continue;
            }
            until_us = until_us.max(created_us.saturating_add(grace.as_micros() as i64));
            is_known &= self.drop_truncated(&mut mutation, created_us).await;
            if mutation.updates.is_empty() {
                continue;
            }
            let Some(replicas) = self.replicas_of(&mutation) else {
                self.report_unknown_replicas(&mutation);
                is_known = false;
                continue;
            };
            let lacks = |replica: &SocketAddr| {
                lacking.as_ref().is_none_or(|lacking| lacking.contains(replica))
            };
            for replica in replicas.into_iter().filter(lacks) {
                match self.standing(replica, silent) {
                    Standing::Up => writes.push((replica, mutation.clone())),
                    _ => _ = missing.insert(replica),
                }
            }
        }
        let sent = self.send_writes(writes).await;
        missing.extend(sent.missing);
        silent.extend(sent.silent);
        if !is_known {
            self.batch_log.waiting.borrow_mut().end(id);
        } else if missing.is_empty() {
            tracing::info!(%id, "finished a batch of a coordinator that has failed");
            self.remove_batch(id);
        } else {
            self.batch_log.waiting.borrow_mut().wait(id, missing, until_us);
        }
    }

    /// Removes a batch that cannot be decoded, if that will not change: the ring has dropped one of
    /// its tables, or the batch is very old. `has_agreed` is true if the schema of the decoding is
    /// that of all live peers.
    fn give_up_undecoded(
        self: &Rc<Self>,
        id: Uuid,
        age: Duration,
        has_agreed: bool,
        error: &DecodeError,
    ) {
        let is_dropped = has_agreed && matches!(error, DecodeError::UnknownTable(_));
        if is_dropped || age >= MAX_AGE_UNDECODED {
            tracing::warn!(%id, %error, "removed a left-over batch that cannot be decoded");
            self.remove_batch(id);
        } else if self.log_limit.is_due("batch of an unknown schema") {
            tracing::warn!(%id, %error, "a left-over batch cannot be decoded, keeping it");
        }
    }

    fn standing(&self, replica: SocketAddr, silent: &HashSet<SocketAddr>) -> Standing {
        if replica == self.settings.broadcast {
            return Standing::Up;
        }
        match self.gossiper.borrow().endpoints().get(&replica) {
            None => Standing::Gone,
            Some(endpoint) if endpoint.has_departed() => Standing::Gone,
            Some(endpoint) if endpoint.liveness == Liveness::Down => Standing::Down,
            Some(_) if silent.contains(&replica) => Standing::Down,
            Some(_) => Standing::Up,
        }
    }

    /// Removes a write's updates of tables that were truncated after it. Returns whether the node
    /// knows the truncations of each table.
    pub(super) async fn drop_truncated(&self, mutation: &mut Mutation, created_us: i64) -> bool {
        let (mut truncated, mut is_known) = (Vec::new(), true);
        for update in &mutation.updates {
            let table = update.table.id;
            match self.backend.truncated_at_us(table).await {
                Ok(at_us) if at_us.is_some_and(|at_us| at_us >= created_us) => {
                    truncated.push(table);
                }
                Ok(_) => {}
                Err(_) => is_known = false,
            }
        }
        mutation.updates.retain(|update| !truncated.contains(&update.table.id));
        is_known
    }

    fn report_unknown_replicas(&self, mutation: &Mutation) {
        let keyspace = mutation.updates.first().map(|update| &*update.table.keyspace);
        if self.log_limit.is_due("batch of unknown replicas") {
            tracing::warn!(keyspace, "the replicas of a batch or hint are unknown, keeping it");
        }
    }

    /// Sends a write to all its replicas. Returns whether all have acknowledged it.
    pub(super) async fn write_to_replicas(self: &Rc<Self>, mutation: Mutation) -> bool {
        if mutation.updates.is_empty() {
            return true;
        }
        let Some(replicas) = self.replicas_of(&mutation) else {
            self.report_unknown_replicas(&mutation);
            return false;
        };
        let writes = replicas.into_iter().map(|replica| (replica, mutation.clone())).collect();
        self.send_writes(writes).await.missing.is_empty()
    }

    /// Sends writes, [`MAX_WRITES`] at a time.
    async fn send_writes(self: &Rc<Self>, writes: Vec<(SocketAddr, Mutation)>) -> Sent {
        let mut sent = Sent::default();
        let mut writes = writes.into_iter().peekable();
        while writes.peek().is_some() {
            let mut under_way = Vec::new();
            for (replica, write) in writes.by_ref().take(MAX_WRITES) {
                if sent.silent.contains(&replica) {
                    continue;
                }
                let member = Rc::clone(self);
                let writing = spawn_local(async move { member.write_to(replica, write).await });
                under_way.push((replica, writing));
            }
            for (replica, writing) in under_way {
                let reply = writing.await;
                if reply != Reply::Done {
                    sent.missing.insert(replica);
                }
                if reply == Reply::None {
                    sent.silent.insert(replica);
                }
            }
        }
        sent
    }

    async fn write_to(self: Rc<Self>, replica: SocketAddr, write: Mutation) -> Reply {
        if replica != self.settings.broadcast {
            return self.request(replica, Verb::MUTATION_REQ, Payload::Mutation(write)).await;
        }
        let stored = match write.into_mutation() {
            Ok(write) => self.backend.store(write).await.is_ok(),
            Err(_) => false,
        };
        if stored { Reply::Done } else { Reply::Refused }
    }
}

/// Returns the age of a batch, 0 if the clock of its coordinator is ahead.
fn age_of(created_us: i64) -> Duration {
    let age_us = time::now_micros().saturating_sub(created_us);
    Duration::from_micros(u64::try_from(age_us).unwrap_or(0))
}
