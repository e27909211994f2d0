//! Conditional writes of the ring: the answers of this replica to PAXOS_PREPARE, PAXOS_PROPOSE and
//! PAXOS_COMMIT ([`crate::paxos`]).

use std::{net::SocketAddr, rc::Rc};

use espalier_mutation::{DecoratedKey, schema::Schema};
use espalier_runtime::{spawn_local, time::Instant};

use super::{
    RingMember, dispatch::Refusal, long_payloads::decode_and, outbound::Queued, reads::time_left,
    room::Reservation, writes,
};
use crate::{
    MessagingVersion,
    error::{DecodeError, Result as Decoded},
    message::{Message, Verb},
    paxos::{NO_BALLOT, PaxosAnswer, PaxosRequest, PaxosStep, Recorded},
    payload::{Commit, Partition, Payload, PrepareResponse, Update, check::check_key},
};

/// The least time for which a replica keeps the record of a step, as in Cassandra: 3 h.
const MIN_TTL_S: u32 = 3 * 3600;

impl RingMember {
    /// Answers a step of a conditional write once the outcome is durable. The node drops a request
    /// if its coordinator gives up before the node carries it out.
    pub(super) async fn paxos(
        self: &Rc<Self>,
        to: SocketAddr,
        version: MessagingVersion,
        message: &Message,
        room: Reservation,
    ) -> Result<(), Refusal> {
        let (id, verb) = (message.header.id, message.header.verb);
        let work = move |payload: Payload| {
            let Payload::Paxos(commit) = payload else { return Err(Refusal::unsupported(verb)) };
            let Commit { ballot, update } = *commit;
            writes::check_table(&update.table)?;
            let nothing = without_content(&update);
            Ok((ballot, nothing, step_of(verb, update)?))
        };
        let (payload, schema) = (message.payload.clone(), self.backend.schema());
        let (ballot, nothing, step) = decode_and(verb, version, payload, schema, work).await?;
        let table = nothing.table.clone();
        let key = DecoratedKey::new(nothing.partition.key.clone());
        self.check_replica(&table.keyspace, &key)?;
        let Some(left) = time_left(&message.header) else {
            self.drop_expired(to, verb);
            return Ok(());
        };
        let ttl_s = table.options.gc_grace_seconds.max(MIN_TTL_S);
        let request = PaxosRequest { table: table.id, key, ttl_s, ballot, left, step };
        let deadline = Instant::now() + left;
        let answering = self.backend.paxos(request);
        let member = Rc::clone(self);
        spawn_local(async move {
            let answer = answering.await.map_err(Refusal::new);
            if answer.is_err() && Instant::now() >= deadline {
                member.drop_expired(to, verb);
                return;
            }
            let response = answer.and_then(|answer| member.response(id, answer, nothing));
            match response {
                Ok(message) => member.send(to, message),
                Err(refusal) => member.refuse(to, (id, verb), true, &refusal),
            }
            drop(room);
        })
        .detach();
        Ok(())
    }

    /// Refuses a partition of which this node is no replica, as Cassandra does, because two
    /// coordinators with different views of the ring must not find quorums without a common
    /// replica. If the replicas are unknown, for example while the ring changes, this node may be a
    /// future replica, and refuses no partition.
    fn check_replica(&self, keyspace: &str, key: &DecoratedKey) -> Result<(), Refusal> {
        match self.replicas_of_key(keyspace, key) {
            Some(replicas) if !replicas.contains(&self.settings.broadcast) => {
                Err(Refusal::new("this node is no replica of the partition"))
            }
            _ => Ok(()),
        }
    }

    /// Creates the message of an answer. The message waits in its encoded form, because decoded
    /// updates take many times as many bytes. It holds the bytes of the updates in the budget.
    fn response(&self, id: u64, answer: PaxosAnswer, nothing: Update) -> Result<Queued, Refusal> {
        let mut bytes = self.reads.budget.answer();
        bytes.set(shown_bytes(&answer)).map_err(Refusal::new)?;
        let schema = self.backend.schema();
        let (verb, payload) = response_of(answer, nothing, &schema).map_err(Refusal::of)?;
        let mut encoded = Vec::new();
        // All versions of the messages encode these payloads in the same way.
        payload.encode(MessagingVersion::V13, &mut encoded).map_err(Refusal::new)?;
        Ok(Queued::new(id, verb, Payload::Encoded(encoded.into())).holding(bytes))
    }
}

/// Returns the bytes of the updates that an answer shows.
fn shown_bytes(answer: &PaxosAnswer) -> usize {
    let shown = match answer {
        PaxosAnswer::Promised { accepted, committed } => [accepted.as_ref(), committed.as_ref()],
        PaxosAnswer::Refused { committed, .. } => [None, committed.as_ref()],
        PaxosAnswer::Accepted(_) | PaxosAnswer::Committed => [None, None],
    };
    shown.into_iter().flatten().map(|recorded| recorded.update.len()).sum()
}

/// Returns an empty update of the same partition.
fn without_content(update: &Update) -> Update {
    let partition =
        Partition { key: update.partition.key.clone(), is_reversed: false, content: None };
    Update { table: update.table.clone(), partition }
}

/// Returns the step that a message of this verb asks for.
fn step_of(verb: Verb, update: Update) -> Result<PaxosStep, Refusal> {
    check_key(&update.table, &update.partition.key).map_err(Refusal::of)?;
    if verb == Verb::PAXOS_PREPARE_REQ {
        return Ok(PaxosStep::Prepare);
    }
    let mut bytes = Vec::new();
    update.encode(&mut bytes).map_err(Refusal::new)?;
    // An update is accepted only if the node could apply it.
    let write = update.into_update().map_err(Refusal::of)?;
    match verb {
        Verb::PAXOS_PROPOSE_REQ => Ok(PaxosStep::Propose(bytes.into(), Box::new(write))),
        Verb::PAXOS_COMMIT_REQ => Ok(PaxosStep::Commit(bytes.into(), Box::new(write))),
        verb => Err(Refusal::unsupported(verb)),
    }
}

/// Returns the response to a request about a partition, of which `nothing` is the empty update.
fn response_of(answer: PaxosAnswer, nothing: Update, schema: &Schema) -> Decoded<(Verb, Payload)> {
    let commit_of = |recorded: Option<Recorded>| {
        let Some(Recorded { ballot, update, .. }) = recorded else {
            return Ok(Commit { ballot: NO_BALLOT, update: nothing.clone() });
        };
        let update = Update::of_bytes(&update, schema)?;
        if update.table.id != nothing.table.id || update.partition.key != nothing.partition.key {
            return Err(DecodeError::Malformed("system.paxos has an update of another partition"));
        }
        Ok(Commit { ballot, update })
    };
    let (is_promised, in_progress, most_recent) = match answer {
        PaxosAnswer::Promised { accepted, committed } => {
            (true, commit_of(accepted)?, commit_of(committed)?)
        }
        PaxosAnswer::Refused { newest, committed } => {
            let in_progress = Commit { ballot: newest, update: nothing.clone() };
            (false, in_progress, commit_of(committed)?)
        }
        PaxosAnswer::Accepted(is_accepted) => {
            return Ok((Verb::PAXOS_PROPOSE_RSP, Payload::PaxosProposed(is_accepted)));
        }
        PaxosAnswer::Committed => return Ok((Verb::PAXOS_COMMIT_RSP, Payload::None)),
    };
    let response = PrepareResponse { is_promised, in_progress, most_recent };
    Ok((Verb::PAXOS_PREPARE_RSP, Payload::PaxosPrepared(Box::new(response))))
}
