//! The batch log: logged batches that this node keeps for coordinators.
//!
//! 1. A coordinator stores a logged batch on two nodes before it writes any part of it.
//! 2. It removes the batch once all replicas have acknowledged their parts, or got a hint.
//! 3. A batch that is still there after [`MIN_AGE`] belongs to a coordinator that has failed. The
//!    node sends each write to all its replicas, and removes the batch once all have acknowledged.
//!
//! The node keeps no hints. While a replica of a batch is down, the batch stays, and the node sends
//! it again each [`PERIOD`]. The node gives the batch up when it is older than the grace period of
//! its tables, because later deletions may be purged by then. Cassandra does the same.

use std::{net::SocketAddr, rc::Rc, time::Duration};

use espalier_mutation::DecoratedKey;
use espalier_runtime::{maybe_yield, spawn_local, time};
use uuid::Uuid;

use super::{RingMember, dispatch::Refusal, replicas::TokenRing, room::Reservation, writes};
use crate::{
    message::Verb,
    payload::{Batch, Mutation, Payload},
};

/// The age at which a batch counts as left over: twice Cassandra's `write_request_timeout`.
const MIN_AGE: Duration = Duration::from_secs(4);
/// The interval at which the node reads the batch log, as in Cassandra.
const PERIOD: Duration = Duration::from_secs(10);

impl RingMember {
    /// Keeps a batch.
    pub(super) fn store_batch(
        self: &Rc<Self>,
        to: SocketAddr,
        request: (u64, Verb),
        batch: Batch,
        room: Reservation,
    ) -> Result<(), Refusal> {
        // The node keeps a batch only if it could finish it.
        let schema = self.backend.schema();
        for mutation in batch.mutations(&*schema).map_err(Refusal::of)? {
            writes::check(&mutation)?;
            mutation.into_mutation().map_err(Refusal::of)?;
        }
        let storing = self.backend.store_batch(batch);
        self.acknowledge(to, request, room, storing)
    }

    /// Removes a batch. The coordinator waits for no answer.
    pub(super) fn remove_batch(self: &Rc<Self>, id: Uuid) {
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
        let mut periods = time::interval(PERIOD);
        loop {
            match self.backend.batches().await {
                Ok(batches) => {
                    for batch in batches {
                        let age_us = time::now_micros().saturating_sub(batch.created_us);
                        if Duration::from_micros(u64::try_from(age_us).unwrap_or(0)) >= MIN_AGE {
                            self.finish(batch).await;
                        }
                        maybe_yield().await;
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "could not read the batch log; trying again in 10 s");
                }
            }
            periods.tick().await;
        }
    }

    /// Sends the writes of a batch to their replicas, and removes it if all have taken them.
    async fn finish(self: &Rc<Self>, batch: Batch) {
        let (id, created_us) = (batch.id, batch.created_us);
        let mutations = match batch.mutations(&*self.backend.schema()) {
            Ok(mutations) => mutations,
            Err(error) => {
                // The table may be new and not known here yet, or it was dropped.
                if self.warnings.is_due("batch of an unknown schema") {
                    tracing::warn!(%id, %error, "a left-over batch cannot be decoded, keeping it");
                }
                return;
            }
        };
        let mut is_done = true;
        for mut mutation in mutations {
            let graces = mutation.updates.iter();
            let grace_s = graces.map(|update| update.table.options.gc_grace_seconds).min();
            let age_us = time::now_micros().saturating_sub(created_us);
            let age = Duration::from_micros(u64::try_from(age_us).unwrap_or(0));
            if age >= Duration::from_secs(grace_s.unwrap_or(0).into()) {
                tracing::warn!(
                    %id,
                    "dropped a write of a left-over batch that is older than gc_grace_seconds; \
                     repair the table"
                );
                continue;
            }
            is_done &= self.drop_truncated(&mut mutation, created_us).await;
            is_done &= self.write_to_replicas(mutation).await;
        }
        if is_done {
            tracing::info!(%id, "finished a batch of a coordinator that has failed");
            self.remove_batch(id);
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

    /// Returns the replicas of a write, at least one; `None` if they are unknown.
    pub(super) fn replicas_of(&self, mutation: &Mutation) -> Option<Vec<SocketAddr>> {
        let update = mutation.updates.first()?;
        let token = DecoratedKey::new(update.partition.key.clone()).token;
        let schema = self.backend.schema();
        let keyspace = schema.keyspace(&update.table.keyspace)?;
        let ring = TokenRing::of(&self.gossiper.borrow());
        let replicas = ring.replicas(token, &keyspace.replication);
        replicas.filter(|replicas| !replicas.is_empty())
    }

    /// Sends a write to all its replicas. Returns whether all have acknowledged it.
    pub(super) async fn write_to_replicas(self: &Rc<Self>, mutation: Mutation) -> bool {
        let Some(update) = mutation.updates.first() else { return true };
        let Some(replicas) = self.replicas_of(&mutation) else {
            if self.warnings.is_due("batch of unknown replicas") {
                let keyspace = &update.table.keyspace;
                tracing::warn!(%keyspace, "the replicas of a batch or hint are unknown, keeping it");
            }
            return false;
        };
        let mut is_done = true;
        for replica in replicas {
            is_done &= if replica == self.settings.broadcast {
                match mutation.clone().into_mutation() {
                    Ok(write) => self.backend.store(write).await.is_ok(),
                    Err(_) => false,
                }
            } else {
                let payload = Payload::Mutation(mutation.clone());
                self.request(replica, Verb::MUTATION_REQ, payload).await
            };
        }
        is_done
    }
}
