//! Conditional writes of the ring: the answers of this replica to PAXOS_PREPARE, PAXOS_PROPOSE and
//! PAXOS_COMMIT ([`crate::paxos`]).

use std::{net::SocketAddr, rc::Rc};

use espalier_mutation::{DecoratedKey, schema::Schema};
use espalier_runtime::spawn_local;

use super::{RingMember, dispatch::Refusal, outbound::Queued, room::Reservation, writes};
use crate::{
    error::{DecodeError, Result as Decoded},
    message::Verb,
    paxos::{NO_BALLOT, PaxosAnswer, PaxosRequest, PaxosStep, Recorded},
    payload::{Commit, Partition, Payload, PrepareResponse, Update, check::check_key},
};

/// The least time for which a replica keeps what it accepts and commits, as in Cassandra: 3 h.
const MIN_TTL_S: u32 = 3 * 3600;

impl RingMember {
    /// Answers a step of a conditional write once the outcome is durable.
    pub(super) fn paxos(
        self: &Rc<Self>,
        to: SocketAddr,
        (id, verb): (u64, Verb),
        commit: Commit,
        room: Reservation,
    ) -> Result<(), Refusal> {
        writes::check_table(&commit.update.table)?;
        let nothing = without_content(&commit.update);
        let request = request_of(verb, commit)?;
        let answering = self.backend.paxos(request);
        let member = Rc::clone(self);
        spawn_local(async move {
            let answer = answering.await.map_err(Refusal::new);
            drop(room);
            let schema = member.backend.schema();
            let response = answer
                .and_then(|answer| response_of(answer, nothing, &schema).map_err(Refusal::of));
            match response {
                Ok((verb, payload)) => member.send(to, Queued::new(id, verb, payload)),
                Err(refusal) => member.refuse(to, (id, verb), true, &refusal),
            }
        })
        .detach();
        Ok(())
    }
}

/// Returns the empty update of the partition of another.
fn without_content(update: &Update) -> Update {
    let partition =
        Partition { key: update.partition.key.clone(), is_reversed: false, content: None };
    Update { table: update.table.clone(), partition }
}

fn request_of(verb: Verb, commit: Commit) -> Result<PaxosRequest, Refusal> {
    let Commit { ballot, update } = commit;
    let table = update.table.clone();
    check_key(&table, &update.partition.key).map_err(Refusal::of)?;
    let key = DecoratedKey::new(update.partition.key.clone());
    let step = if verb == Verb::PAXOS_PREPARE_REQ {
        PaxosStep::Prepare
    } else {
        let mut bytes = Vec::new();
        update.encode(&mut bytes).map_err(Refusal::new)?;
        // An update is accepted only if the node could apply it.
        let write = update.into_update().map_err(Refusal::of)?;
        match verb {
            Verb::PAXOS_PROPOSE_REQ => PaxosStep::Propose(bytes.into()),
            Verb::PAXOS_COMMIT_REQ => PaxosStep::Commit(bytes.into(), Box::new(write)),
            verb => return Err(Refusal::unsupported(verb)),
        }
    };
    let ttl_s = table.options.gc_grace_seconds.max(MIN_TTL_S);
    Ok(PaxosRequest { table: table.id, key, ttl_s, ballot, step })
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
