//! The answer to each message of a peer.

use std::{net::SocketAddr, rc::Rc, time::Duration};

use espalier_runtime::time::Instant;

use super::{RingMember, outbound::Queued};
use crate::{
    DecodeError, MessagingVersion,
    message::{Header, Message, MessageFlags, Verb},
    payload::{FailureReason, Payload},
};

/// The time between two warnings about refused requests of one verb.
const WARNING_PERIOD: Duration = Duration::from_secs(60);

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
        let schema = self.backend.schema();
        let payload = Payload::decode(header.verb, version, &message.payload, &*schema);
        let to = header.respond_to().ok().flatten().unwrap_or(from);
        let outcome = match payload {
            Ok(payload) => self.answer(from, to, header, payload),
            Err(error) => Err(Refusal::of(error)),
        };
        if let Err(refusal) = outcome {
            let is_wanted = header.flags.contains(MessageFlags::CALL_BACK_ON_FAILURE);
            self.refuse(to, (header.id, header.verb), is_wanted, &refusal);
        }
    }

    fn answer(
        self: &Rc<Self>,
        from: SocketAddr,
        to: SocketAddr,
        header: &Header,
        payload: Payload,
    ) -> Result<(), Refusal> {
        let (id, verb, now) = (header.id, header.verb, self.now());
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
                let version = self.schema_version();
                respond(Verb::SCHEMA_VERSION_RSP, Payload::SchemaVersion(version));
            }
            (Verb::SCHEMA_PULL_RSP, Payload::Schema(rows)) => self.on_schema(from, rows),
            (Verb::SCHEMA_PUSH_REQ, Payload::Schema(_)) => self.on_schema_push(),
            (_, Payload::Mutation(write)) => {
                if !header.forward_to().map_err(Refusal::of)?.is_empty() {
                    return Err(Refusal::new("writes are not forwarded to other nodes"));
                }
                self.store(to, (id, verb), write)?;
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
    pub(super) fn refuse(
        self: &Rc<Self>,
        to: SocketAddr,
        (id, verb): (u64, Verb),
        is_wanted: bool,
        refusal: &Refusal,
    ) {
        self.metrics.count_refused();
        let Refusal { reason, text } = refusal;
        if self.is_worth_a_warning(verb) {
            tracing::warn!(
                peer = %to,
                %verb,
                reason = %text,
                "refused a request of a peer; more of this verb are logged after a minute"
            );
        }
        if is_wanted {
            let payload = Payload::Failure(*reason);
            self.send(to, Queued { id, verb: Verb::FAILURE_RSP, payload });
        }
    }
}

/// The reason why a request was not carried out.
pub(super) struct Refusal {
    reason: FailureReason,
    text: String,
}

impl Refusal {
    pub fn new(text: impl Into<String>) -> Self {
        Self { reason: FailureReason::Unknown, text: text.into() }
    }

    pub fn of(error: DecodeError) -> Self {
        let reason = match error {
            DecodeError::UnknownTable(_) | DecodeError::UnknownColumn { .. } => {
                FailureReason::IncompatibleSchema
            }
            _ => FailureReason::Unknown,
        };
        Self { reason, text: error.to_string() }
    }

    pub fn unsupported() -> Self {
        Self::new("this node does not do that yet")
    }
}
