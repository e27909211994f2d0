//! Stores the writes of the ring: mutations, read repairs, hints and truncations. The node
//! acknowledges each when it is synced.

use std::{net::SocketAddr, rc::Rc, time::Duration};

use bytes::Bytes;
use espalier_mutation::schema::TableMetadata;
use espalier_runtime::{spawn_local, time};
use espalier_storage::system::is_system_keyspace;

use super::{
    RingMember,
    dispatch::Refusal,
    forwards::targets_of,
    long_payloads::{decode_and, run_long},
    outbound::Queued,
    reads::time_left,
    room::Reservation,
};
use crate::{
    MessagingVersion,
    message::{Header, Message, Verb},
    payload::{Hint, Mutation, Payload},
};

impl RingMember {
    /// Stores the write of a message. Forwards each write that it can decode to the replicas that
    /// the header names, even if it cannot store the write.
    pub(super) async fn write(
        self: &Rc<Self>,
        to: SocketAddr,
        version: MessagingVersion,
        message: &Message,
        room: Reservation,
    ) -> Result<(), Refusal> {
        let (id, verb) = (message.header.id, message.header.verb);
        let targets = targets_of(&message.header)?;
        let is_forwarded = !targets.is_empty();
        let work = move |payload: Payload| {
            let Payload::Mutation(write) = payload else { return Err(Refusal::unsupported(verb)) };
            let mut encoded = Vec::new();
            if is_forwarded {
                write.encode(&mut encoded).map_err(Refusal::new)?;
            }
            let checked = check(&write);
            let stored = checked.and_then(|()| write.into_mutation().map_err(Refusal::of));
            Ok((Bytes::from(encoded), stored))
        };
        let (payload, schema) = (message.payload.clone(), self.backend.schema());
        let (encoded, stored) = decode_and(verb, version, payload, schema, work).await?;
        if is_forwarded {
            self.forward(to, &message.header, targets, &encoded);
        }
        // The work on a long payload takes time and waits for others. Meanwhile the coordinator may
        // give up.
        if !self.is_in_time(to, &message.header) {
            return Ok(());
        }
        let storing = self.backend.store(stored?);
        self.acknowledge(to, (id, verb), room, storing)
    }

    /// Stores a write that a coordinator has kept for this node.
    ///
    /// If the hint is older than the grace period of its tables, the node acknowledges it but does
    /// not store it, as in Cassandra, because later deletions may be purged. The node also does not
    /// store the hint's changes of tables that were truncated later. Nor does it store a hint with
    /// a value that is not of its column's type for this node.
    ///
    /// If this node is no longer a replica of the hint, the node sends the hint to the replicas.
    pub(super) async fn store_hint(
        self: &Rc<Self>,
        to: SocketAddr,
        message: &Message,
        hint: Hint,
        room: Reservation,
    ) -> Result<(), Refusal> {
        let (id, verb) = (message.header.id, message.header.verb);
        let Hint { host, created_ms, gc_grace_seconds, mutation } = hint;
        if host != self.host_id {
            return Err(Refusal::new("a hint for another node"));
        }
        check(&mutation)?;
        let graces = mutation.updates.iter().map(|update| update.table.options.gc_grace_seconds);
        let grace_s = graces.fold(gc_grace_seconds, u32::min);
        let age_ms = u64::try_from(time::now_millis().saturating_sub(created_ms)).unwrap_or(0);
        if Duration::from_millis(age_ms) >= Duration::from_secs(grace_s.into()) {
            if self.log_limit.is_due("old hint") {
                tracing::warn!(
                    peer = %to,
                    created_ms,
                    "dropped a hint that is older than gc_grace_seconds; repair the table"
                );
            }
            return self.acknowledge(to, (id, verb), room, Box::pin(async { Ok(()) }));
        }
        let own = self.settings.broadcast;
        if self.replicas_of(&mutation).is_some_and(|replicas| !replicas.contains(&own)) {
            let forwarding = Rc::clone(self).forward_hint(mutation, created_ms);
            return self.acknowledge(to, (id, verb), room, Box::pin(forwarding));
        }
        let write = run_long(message.payload.len(), move || mutation.into_mutation()).await;
        let storing = match write {
            Ok(write) => self.backend.store_unless_truncated(write, created_ms),
            // If the node refused the hint, the peer would send it again until it expires, and
            // until then no later hint. Cassandra acknowledges such a hint, too.
            Err(error) => {
                if self.log_limit.is_due("hint with an invalid value") {
                    tracing::warn!(
                        peer = %to,
                        created_ms,
                        %error,
                        "dropped a hint that this node cannot store; repair the table"
                    );
                }
                Box::pin(async { Ok(()) })
            }
        };
        self.acknowledge(to, (id, verb), room, storing)
    }

    /// Sends the write of a hint to the replicas that have taken this node's place.
    async fn forward_hint(
        self: Rc<Self>,
        mut write: Mutation,
        created_ms: i64,
    ) -> Result<(), String> {
        let created_us = created_ms.saturating_mul(1000);
        if self.drop_truncated(&mut write, created_us).await && self.write_to_replicas(write).await
        {
            return Ok(());
        }
        Err("the node is no replica of a hint, and not all replicas have taken it".into())
    }

    /// Acknowledges a hint for a table that was dropped. Nodes deliver hints only while they agree
    /// on the schema, so the peer does not have the table either.
    pub(super) fn skip_hint(self: &Rc<Self>, to: SocketAddr, id: u64) {
        if let Some(left_out) = self.log_limit.due("hint for a dropped table") {
            tracing::info!(
                peer = %to,
                left_out,
                "skipped a hint for a table that the ring does not have"
            );
        }
        self.send(to, Queued::new(id, Verb::HINT_RSP, Payload::None));
    }

    /// Removes all rows of a table. The truncation begins before the coordinator gives up, or not
    /// at all: the coordinator may have acknowledged other writes by then.
    pub(super) fn truncate(
        self: &Rc<Self>,
        to: SocketAddr,
        header: &Header,
        (keyspace, table): (String, String),
    ) -> Result<(), Refusal> {
        let id = header.id;
        if is_system_keyspace(&keyspace) {
            return Err(Refusal::new("tables of system keyspaces are not truncated"));
        }
        let schema = self.backend.schema();
        let Some(found) = schema.table(&keyspace, &table) else {
            return Err(Refusal::new("the table to truncate does not exist"));
        };
        let Some(left) = time_left(header) else {
            self.drop_expired(to, header.verb);
            return Ok(());
        };
        let truncating = self.backend.truncate(found.id, left);
        let member = Rc::clone(self);
        spawn_local(async move {
            match truncating.await {
                Ok(()) => {
                    let payload = Payload::Truncated { keyspace, table, is_done: true };
                    member.send(to, Queued::new(id, Verb::TRUNCATE_RSP, payload));
                }
                Err(error) => {
                    let request = (id, Verb::TRUNCATE_REQ);
                    member.refuse(to, request, true, &Refusal::new(error));
                }
            }
        })
        .detach();
        Ok(())
    }

    /// Answers a write when it is done.
    pub(super) fn acknowledge(
        self: &Rc<Self>,
        to: SocketAddr,
        (id, verb): (u64, Verb),
        room: Reservation,
        storing: super::LocalFuture<Result<(), String>>,
    ) -> Result<(), Refusal> {
        let Some(response) = verb.response() else { return Err(Refusal::unsupported(verb)) };
        let member = Rc::clone(self);
        spawn_local(async move {
            let outcome = storing.await;
            drop(room);
            match outcome {
                Ok(()) => member.send(to, Queued::new(id, response, Payload::None)),
                Err(error) => member.refuse(to, (id, verb), true, &Refusal::new(error)),
            }
        })
        .detach();
        Ok(())
    }
}

/// Refuses a write if it changes a table that this node does not keep as the ring does.
pub(super) fn check(write: &Mutation) -> Result<(), Refusal> {
    write.updates.iter().try_for_each(|update| check_table(&update.table))
}

/// Refuses writes to a table that this node does not keep as the ring does.
pub(super) fn check_table(table: &TableMetadata) -> Result<(), Refusal> {
    let text = if is_system_keyspace(&table.keyspace) {
        "writes to tables of system keyspaces are not stored"
    } else if table.is_counter() {
        "writes to counters are not stored"
    } else if table.has_views() || table.is_view() {
        "writes to materialized views and their base tables are not stored"
    } else {
        return Ok(());
    };
    Err(Refusal::new(text))
}
