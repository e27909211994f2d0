//! Passes each message of a peer to the code that answers it, or refuses it.

use std::{net::SocketAddr, rc::Rc};

use espalier_runtime::log_limit::Quoted;

use super::{RingMember, long_payloads, outbound::Queued, reads::time_left, room::Reservation};
use crate::{
    DecodeError, MessagingVersion,
    message::{Header, Message, MessageFlags, Verb},
    payload::{FailureReason, GossipSyn, Payload},
};

/// Maximum length of a write, in bytes: Cassandra's default of `max_mutation_size`. A decoded write
/// may take many times as much.
pub(super) const MAX_WRITE_BYTES: usize = 16 << 20;
/// Maximum length of a read's command, in bytes. Arbitrary; most have less than 200.
const MAX_COMMAND_BYTES: usize = 1 << 20;

impl RingMember {
    /// Handles a message of a peer. `room` is the memory that the message has reserved.
    pub(super) async fn receive(
        self: &Rc<Self>,
        from: SocketAddr,
        version: MessagingVersion,
        message: Message,
        room: Reservation,
    ) {
        self.metrics.received.add(1);
        if self.joining.borrow().is_some() {
            return self.receive_before_joining(from, version, &message);
        }
        let header = &message.header;
        let to = header.respond_to().ok().flatten().unwrap_or(from);
        if let Err(refusal) = self.carry_out((from, to), version, &message, room).await {
            // A replica of Cassandra that refuses a conditional write sends a failure, whether
            // asked to or not.
            let is_wanted = header.flags.contains(MessageFlags::CALL_BACK_ON_FAILURE)
                || header.verb.is_of_paxos();
            self.refuse(to, (header.id, header.verb), is_wanted, &refusal);
        }
    }

    /// Decodes and answers a message of `from`; the answer to a request goes to `to`.
    async fn carry_out(
        self: &Rc<Self>,
        (from, to): (SocketAddr, SocketAddr),
        version: MessagingVersion,
        message: &Message,
        room: Reservation,
    ) -> Result<(), Refusal> {
        if !self.check((from, to), message, &room)? {
            return Ok(());
        }
        match message.header.verb {
            Verb::MUTATION_REQ | Verb::READ_REPAIR_REQ => {
                self.write(to, version, message, room).await?;
            }
            Verb::BATCH_STORE_REQ => self.store_batch(to, version, message, room).await?,
            Verb::PAXOS_PREPARE_REQ | Verb::PAXOS_PROPOSE_REQ | Verb::PAXOS_COMMIT_REQ => {
                self.paxos(to, version, message, room).await?;
            }
            verb => {
                // The schema may change while the node decodes a long hint.
                let has_agreed = verb == Verb::HINT_REQ && self.agrees_with(from);
                let (payload, schema) = (message.payload.clone(), self.backend.schema());
                let payload = long_payloads::decode(verb, version, payload, schema).await;
                if has_agreed && matches!(payload, Err(DecodeError::UnknownTable(_))) {
                    self.skip_hint(to, message.header.id);
                    return Ok(());
                }
                self.answer(from, to, message, payload.map_err(Refusal::of)?, room).await?;
            }
        }
        self.report_events();
        Ok(())
    }

    /// Checks a message before the node decodes its payload, because that may take much memory.
    /// Returns whether the node needs the payload.
    fn check(
        &self,
        (from, to): (SocketAddr, SocketAddr),
        message: &Message,
        room: &Reservation,
    ) -> Result<bool, Refusal> {
        let header = &message.header;
        if !room.is_held() && !may_be_urgent(header.verb) {
            let verb = header.verb;
            return Err(Refusal::new(format!(
                "this node does not serve {verb} over the connection for urgent messages"
            )));
        }
        match header.verb {
            Verb::GOSSIP_DIGEST_SYN
            | Verb::GOSSIP_DIGEST_ACK
            | Verb::GOSSIP_DIGEST_ACK2
            | Verb::GOSSIP_SHUTDOWN
            | Verb::ECHO_REQ
            | Verb::ECHO_RSP
            | Verb::PING_REQ
            | Verb::SCHEMA_VERSION_REQ
            | Verb::TRUNCATE_REQ
            | Verb::BATCH_REMOVE_REQ => Ok(true),
            Verb::SCHEMA_PULL_RSP => Ok(self.is_pulled(from, header.id)),
            Verb::SCHEMA_PUSH_REQ => {
                self.on_schema_push();
                Ok(false)
            }
            Verb::MUTATION_REQ
            | Verb::READ_REPAIR_REQ
            | Verb::HINT_REQ
            | Verb::PAXOS_PREPARE_REQ
            | Verb::PAXOS_PROPOSE_REQ
            | Verb::PAXOS_COMMIT_REQ => {
                if message.payload.len() > MAX_WRITE_BYTES {
                    return Err(Refusal::new("a write exceeds 16 MiB"));
                }
                let forwards = !header.forward_to().map_err(Refusal::of)?.is_empty();
                if forwards && header.verb != Verb::MUTATION_REQ {
                    return Err(Refusal::new("only mutations are forwarded to other nodes"));
                }
                Ok(self.is_in_time(to, header))
            }
            Verb::READ_REQ | Verb::RANGE_REQ => {
                if message.payload.len() > MAX_COMMAND_BYTES {
                    return Err(Refusal::new("the command of a read exceeds 1 MiB"));
                }
                Ok(true)
            }
            Verb::BATCH_STORE_REQ => {
                if message.payload.len() > MAX_WRITE_BYTES {
                    return Err(Refusal::new("a batch exceeds 16 MiB"));
                }
                Ok(self.is_in_time(to, header))
            }
            verb if verb.is_response() => {
                self.on_answer(from, header.id, verb == Verb::MUTATION_RSP);
                Ok(false)
            }
            verb => Err(Refusal::unsupported(verb)),
        }
    }

    /// Returns whether the coordinator of a write still waits for the answer. Otherwise the node
    /// drops the write, as Cassandra does. The coordinator keeps a hint of a mutation. A TRUNCATE
    /// may have been acknowledged since.
    pub(super) fn is_in_time(&self, coordinator: SocketAddr, header: &Header) -> bool {
        let is_in_time = time_left(header).is_some();
        if !is_in_time {
            self.drop_expired(coordinator, header.verb);
        }
        is_in_time
    }

    /// Counts and logs a request that the node does not carry out, or does not answer, because its
    /// coordinator no longer waits.
    pub(super) fn drop_expired(&self, peer: SocketAddr, verb: Verb) {
        self.metrics.expired.add(1);
        let (kind, timeout) = kind_of_expired(verb);
        if let Some(left_out) = self.log_limit.due(kind) {
            tracing::warn!(
                %peer,
                %verb,
                left_out,
                timeout,
                "dropped a request for which its coordinator no longer waits; if there are many, \
                 compare the clocks of both nodes, see whether this node is overloaded, and raise \
                 the timeout in cassandra.yaml of the coordinator"
            );
        }
    }

    /// Answers a message whose payload is decoded.
    async fn answer(
        self: &Rc<Self>,
        from: SocketAddr,
        to: SocketAddr,
        message: &Message,
        payload: Payload,
        room: Reservation,
    ) -> Result<(), Refusal> {
        let header = &message.header;
        let (id, verb, now) = (header.id, header.verb, self.now());
        let respond = |verb, payload| self.send(from, Queued::new(id, verb, payload));
        match (verb, payload) {
            (_, Payload::GossipSyn(syn)) => {
                let answer = self.gossiper.borrow_mut().on_syn(from, &syn);
                match answer {
                    Some(ack) => self.send_all([ack]),
                    None => self.report_stranger(from, &syn),
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
            (Verb::SCHEMA_PULL_RSP, Payload::Schema(rows)) => {
                self.on_schema((from, id), rows, room);
            }
            (_, Payload::BatchRemove(batch)) => self.remove_batch(batch),
            (_, Payload::Hint(hint)) => self.store_hint(to, message, hint, room).await?,
            (Verb::TRUNCATE_REQ, Payload::Truncate { keyspace, table }) => {
                self.truncate(to, header, (keyspace, table))?;
            }
            (_, Payload::Read(command)) => self.read(to, header, *command, room)?,
            _ => return Err(Refusal::unsupported(verb)),
        }
        Ok(())
    }

    fn report_stranger(&self, from: SocketAddr, syn: &GossipSyn) {
        if self.log_limit.is_due("gossip of another cluster") {
            tracing::warn!(
                peer = %from,
                cluster = %Quoted(&syn.cluster),
                partitioner = %Quoted(&syn.partitioner),
                "ignored gossip of another cluster; see cluster_name"
            );
        }
    }

    /// Logs a refused request. Sends a failure to the peer, too, if the peer waits for one.
    pub(super) fn refuse(
        self: &Rc<Self>,
        to: SocketAddr,
        (id, verb): (u64, Verb),
        is_wanted: bool,
        refusal: &Refusal,
    ) {
        self.metrics.refused.add(1);
        let Refusal { reason, text } = refusal;
        if self.log_limit.is_due(verb.name().unwrap_or("unknown verb")) {
            tracing::warn!(
                peer = %to,
                %verb,
                reason = %Quoted(text),
                "refused a request of a peer; more of this verb are logged after a minute"
            );
        }
        if is_wanted {
            let payload = Payload::Failure(*reason);
            self.send(to, Queued::new(id, Verb::FAILURE_RSP, payload));
        }
    }
}

/// Returns the kind of the log line about expired requests of this verb, and Cassandra's setting of
/// their timeout. A flood of one kind does not hide the others.
fn kind_of_expired(verb: Verb) -> (&'static str, &'static str) {
    match verb {
        Verb::READ_REQ => ("expired read", "read_request_timeout"),
        Verb::RANGE_REQ => ("expired read of a range", "range_request_timeout"),
        Verb::TRUNCATE_REQ => ("expired truncation", "truncate_request_timeout"),
        verb if verb.is_of_paxos() => ("expired step of Paxos", "write_request_timeout"),
        _ => ("expired write", "write_request_timeout"),
    }
}

/// Returns whether a message of this verb may arrive without room. Cassandra sends such a message
/// over the connection for urgent messages, or the node is done with its payload before it reads
/// the next message.
fn may_be_urgent(verb: Verb) -> bool {
    match verb {
        Verb::GOSSIP_DIGEST_SYN
        | Verb::GOSSIP_DIGEST_ACK
        | Verb::GOSSIP_DIGEST_ACK2
        | Verb::GOSSIP_SHUTDOWN
        | Verb::ECHO_REQ
        | Verb::PING_REQ
        | Verb::TRUNCATE_REQ => true,
        // The payload of any other response is not decoded.
        verb => verb.is_response() && verb != Verb::SCHEMA_PULL_RSP,
    }
}

/// The reason why a request was not carried out.
pub(super) struct Refusal {
    pub reason: FailureReason,
    pub text: String,
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

    pub fn unsupported(verb: Verb) -> Self {
        Self::new(format!("this node does not serve {verb} yet"))
    }
}
