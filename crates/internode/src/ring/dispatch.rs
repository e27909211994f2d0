//! The answer to each message of a peer.

use std::{net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use espalier_mutation::schema::{TableId, TableMetadata};
use espalier_runtime::time::Instant;

use super::{RingMember, outbound::Queued};
use crate::{
    DecodeError, MessagingVersion,
    message::{Message, MessageFlags, Verb},
    payload::{FailureReason, Payload, Tables},
};

/// The time between two warnings about refused requests of one verb.
const WARNING_PERIOD: Duration = Duration::from_secs(60);

/// The tables of a member that has not taken the ring's schema.
struct NoTables;

impl Tables for NoTables {
    fn table(&self, _: TableId) -> Option<Arc<TableMetadata>> {
        None
    }
}

impl RingMember {
    /// Takes a message of a peer.
    pub(super) fn receive(
        self: &Rc<Self>,
        from: SocketAddr,
        version: MessagingVersion,
        message: Message,
    ) {
        self.metrics.count_received();
        let header = &message.header;
        let payload = Payload::decode(header.verb, version, &message.payload, &NoTables);
        let outcome = match payload {
            Ok(payload) => self.answer(from, header.id, header.verb, payload),
            Err(error) => Err(Refusal::of(error)),
        };
        if let Err(refusal) = outcome {
            self.refuse(from, &message, &refusal);
        }
    }

    fn answer(
        self: &Rc<Self>,
        from: SocketAddr,
        id: u64,
        verb: Verb,
        payload: Payload,
    ) -> Result<(), Refusal> {
        let now = self.now();
        let respond = |verb, payload| self.send(from, Queued { id, verb, payload });
        match (verb, payload) {
            (_, Payload::GossipSyn(syn)) => {
                let answer = self.gossiper.borrow_mut().on_syn(from, &syn);
                match answer {
                    Some(ack) => self.send_all([ack]),
                    None => tracing::warn!(
                        peer = %from,
                        cluster = %syn.cluster,
                        partitioner = %syn.partitioner,
                        "ignored gossip of another cluster; see cluster_name"
                    ),
                }
            }
            (_, Payload::GossipAck(ack)) => {
                let answers = self.gossiper.borrow_mut().on_ack(from, ack, now);
                self.send_all(answers);
            }
            (_, Payload::GossipAck2(ack)) => {
                let probes = self.gossiper.borrow_mut().on_ack2(ack, now);
                self.send_all(probes);
            }
            (_, Payload::GossipShutdown(state)) => {
                self.gossiper.borrow_mut().on_shutdown(from, state, now);
            }
            (Verb::ECHO_REQ, _) => respond(Verb::ECHO_RSP, Payload::None),
            (Verb::ECHO_RSP, _) => self.gossiper.borrow_mut().on_echo(from, now),
            (_, Payload::Ping(_)) => respond(Verb::PING_RSP, Payload::None),
            (Verb::SCHEMA_VERSION_REQ, _) => {
                let version = (self.schema_version)();
                respond(Verb::SCHEMA_VERSION_RSP, Payload::SchemaVersion(version));
            }
            // No task of this node waits for other responses.
            (_, Payload::Failure(_)) => {}
            (verb, Payload::None) if verb.response().is_none() => {}
            _ => return Err(Refusal::unsupported()),
        }
        self.report_events();
        Ok(())
    }

    fn is_worth_a_warning(&self, verb: Verb) -> bool {
        let (mut warned, now) = (self.warned.borrow_mut(), Instant::now());
        let is_due = warned.get(&verb).is_none_or(|last| now.since(*last) >= WARNING_PERIOD);
        if is_due {
            warned.insert(verb, now);
        }
        is_due
    }

    /// Answers that a request was not carried out, if the peer wants to know, and reports it.
    fn refuse(self: &Rc<Self>, from: SocketAddr, message: &Message, refusal: &Refusal) {
        let header = &message.header;
        self.metrics.count_refused();
        let Refusal { reason, text } = refusal;
        let verb = header.verb;
        if self.is_worth_a_warning(verb) {
            tracing::warn!(
                peer = %from,
                %verb,
                reason = %text,
                "refused a request of a peer; more of this verb are logged after a minute"
            );
        }
        if !header.flags.contains(MessageFlags::CALL_BACK_ON_FAILURE) {
            return;
        }
        let to = header.respond_to().ok().flatten().unwrap_or(from);
        let payload = Payload::Failure(*reason);
        self.send(to, Queued { id: header.id, verb: Verb::FAILURE_RSP, payload });
    }
}

/// The reason why a request was not carried out.
struct Refusal {
    reason: FailureReason,
    text: String,
}

impl Refusal {
    fn of(error: DecodeError) -> Self {
        let reason = match error {
            DecodeError::UnknownTable(_) | DecodeError::UnknownColumn { .. } => {
                FailureReason::IncompatibleSchema
            }
            _ => FailureReason::Unknown,
        };
        Self { reason, text: error.to_string() }
    }

    fn unsupported() -> Self {
        Self { reason: FailureReason::Unknown, text: "this node does not do that yet".to_owned() }
    }
}
