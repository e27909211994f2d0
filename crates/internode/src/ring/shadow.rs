//! Runs the shadow round, the round of gossip before a node takes its place. The node asks the
//! seeds for the states of the ring, announces nothing, and does not join if its place is taken.
//!
//! A seed answers a SYN without digests with all states that it knows. A seed that starts at the
//! same time has no states; its answer does not count.

use std::{collections::BTreeSet, net::SocketAddr, rc::Rc, time::Duration};

use espalier_mutation::Token;
use espalier_runtime::{sync::Event, time};
use uuid::Uuid;

use super::{
    RingMember,
    dispatch::Refusal,
    gossiper::{PARTITIONER, is_departed},
};
use crate::{
    MessagingVersion,
    message::{Message, MessageFlags, Verb},
    payload::{ApplicationState, EndpointState, GossipAck, GossipSyn, Payload, gossip::tokens_of},
};

/// Time after which the node asks the seeds again.
const QUESTION_PERIOD: Duration = Duration::from_secs(1);
/// Questions before the node gives up. Arbitrary: Cassandra's `ring_delay` in seconds.
const MAX_QUESTIONS: u64 = 30;

/// The state of a node that has not taken its place.
#[derive(Default)]
pub(super) struct Joining {
    answer: Option<(SocketAddr, GossipAck)>,
    answered: Event,
    /// The last failed attempt to connect, with the address.
    pub failed: Option<String>,
}

/// The reason why a node cannot join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// No seed has answered.
    #[error(
        "no seed of the ring has answered within {0} s: start a seed first, and see seed_provider, \
         cluster_name, storage_port and server_encryption_options; {1}"
    )]
    NoSeed(u64, String),
    /// The settings name no seed besides the node itself.
    #[error("the node itself is its only seed: give another node of the ring in seed_provider")]
    NoOtherSeed,
    /// Another node has the address.
    #[error(
        "the address {address} belongs to the node {other} of the ring: give another \
         listen_address, or remove that node with nodetool removenode {other}"
    )]
    AddressTaken {
        /// The address.
        address: SocketAddr,
        /// The host id of the other node.
        other: String,
    },
    /// Another node has the host id.
    #[error(
        "the host id {host_id} belongs to the node {other} of the ring: do not start a copy of a \
         node's directories"
    )]
    HostIdTaken {
        /// The host id.
        host_id: Uuid,
        /// The address of the other node.
        other: SocketAddr,
    },
    /// Another node has a token.
    #[error(
        "the token {} belongs to the node {other} of the ring: give another initial_token, or \
         remove that node with nodetool removenode",
        token.0
    )]
    TokenTaken {
        /// The token.
        token: Token,
        /// The address of the other node.
        other: SocketAddr,
    },
    /// Neither the settings nor the files of the node have tokens.
    #[error("the node has no tokens: give initial_token")]
    NoTokens,
    /// The ring knows the node with other tokens.
    #[error(
        "the ring knows this node with other tokens: a node cannot change its tokens; leave out \
         initial_token, or give the tokens that nodetool ring shows for {0}"
    )]
    OtherTokens(SocketAddr),
}

impl RingMember {
    /// Asks the seeds for the states of the ring. Returns the first answer, or `None` if the node
    /// stops.
    pub(super) async fn ask_seeds(
        self: &Rc<Self>,
        stop: &Event,
    ) -> Result<Option<(SocketAddr, GossipAck)>, JoinError> {
        let own = self.settings.broadcast;
        let seeds: Vec<_> =
            self.settings.seeds.iter().copied().filter(|seed| *seed != own).collect();
        if seeds.is_empty() {
            return Err(JoinError::NoOtherSeed);
        }
        let answered = self.joining.borrow().as_ref().map(|joining| joining.answered.clone());
        let answered = answered.unwrap_or_default();
        for _ in 0..MAX_QUESTIONS {
            for seed in &seeds {
                let payload = Payload::GossipSyn(question(&self.settings.cluster_name));
                self.send(*seed, self.queued(Verb::GOSSIP_DIGEST_SYN, payload));
            }
            // A timeout is no error: the node asks again.
            let _ = time::timeout(QUESTION_PERIOD, answered.wait()).await;
            if stop.is_set() {
                return Ok(None);
            }
            let answer = self.joining.borrow_mut().as_mut().and_then(|it| it.answer.take());
            if answer.is_some() {
                return Ok(answer);
            }
        }
        let failed = self.joining.borrow_mut().as_mut().and_then(|joining| joining.failed.take());
        let reason = match failed {
            Some(failed) => format!("the last connection that failed was to {failed}"),
            None => "no connection failed".to_owned(),
        };
        Err(JoinError::NoSeed(MAX_QUESTIONS, reason))
    }

    /// Handles a message before the node has taken its place. The node keeps the answer of a seed,
    /// and ignores other messages. It refuses a request whose sender waits for a failure.
    pub(super) fn receive_before_joining(
        self: &Rc<Self>,
        from: SocketAddr,
        version: MessagingVersion,
        message: &Message,
    ) {
        let header = &message.header;
        if header.verb != Verb::GOSSIP_DIGEST_ACK {
            let is_wanted = header.flags.contains(MessageFlags::CALL_BACK_ON_FAILURE);
            if is_wanted && !header.verb.is_response() {
                let refusal = Refusal::new("the node has not joined the ring yet");
                self.refuse(from, (header.id, header.verb), is_wanted, &refusal);
            }
            return;
        }
        let schema = self.backend.schema();
        let ack = Payload::decode(header.verb, version, &message.payload, &*schema);
        if let Ok(Payload::GossipAck(ack)) = ack
            && !ack.states.is_empty()
            && self.settings.seeds.contains(&from)
            && let Some(joining) = &mut *self.joining.borrow_mut()
        {
            joining.answer.get_or_insert((from, ack));
            joining.answered.set();
        }
    }
}

/// Returns the SYN that asks for all states.
pub(super) fn question(cluster: &str) -> GossipSyn {
    let (cluster, partitioner) = (cluster.to_owned(), PARTITIONER.to_owned());
    GossipSyn { cluster, partitioner, digests: Vec::new() }
}

/// Checks that no other node of the ring has the address, the host id or a token, and that the
/// ring, if it knows this node, knows it with the same tokens. Returns the generation in which the
/// ring knows this node; `None` if it does not.
///
/// A node that has left the ring, was removed or hibernates has given up its place; a node that is
/// down has not.
pub(super) fn check(
    states: &[(SocketAddr, EndpointState)],
    own: SocketAddr,
    host_id: Uuid,
    tokens: &[Token],
) -> Result<Option<i32>, JoinError> {
    if tokens.is_empty() {
        return Err(JoinError::NoTokens);
    }
    let given: BTreeSet<_> = tokens.iter().collect();
    let is_other = |known: Vec<Token>| known.iter().collect::<BTreeSet<_>>() != given;
    let mut generation = None;
    for (address, state) in states {
        if *address == own {
            generation = Some(state.generation);
        }
        if state.status().is_some_and(is_departed) {
            continue;
        }
        if *address == own {
            if let Some(other) = state.value(ApplicationState::HostId)
                && other.parse() != Ok(host_id)
            {
                let other = other.to_owned();
                return Err(JoinError::AddressTaken { address: own, other });
            }
            if state.value(ApplicationState::Tokens).and_then(tokens_of).is_some_and(is_other) {
                return Err(JoinError::OtherTokens(own));
            }
            continue;
        }
        if state.value(ApplicationState::HostId).and_then(|id| id.parse().ok()) == Some(host_id) {
            return Err(JoinError::HostIdTaken { host_id, other: *address });
        }
        let taken = state.value(ApplicationState::Tokens).and_then(tokens_of).unwrap_or_default();
        if let Some(token) = tokens.iter().find(|token| taken.contains(token)) {
            return Err(JoinError::TokenTaken { token: *token, other: *address });
        }
    }
    Ok(generation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{VersionedValue, gossip::tokens_value};

    const OWN: Uuid = Uuid::from_u128(1);

    fn at(host: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, host], 7000))
    }

    fn state(host: Uuid, token: i64, status: &str) -> EndpointState {
        use ApplicationState::{HostId, StatusWithPort, Tokens};
        let values = [
            (HostId, host.to_string()),
            (Tokens, tokens_value(&[Token(token)])),
            (StatusWithPort, status.to_owned()),
        ];
        let states = values.map(|(kind, value)| (kind, VersionedValue { value, version: 1 }));
        EndpointState { generation: 7, heartbeat: 1, states: states.into() }
    }

    fn checked(states: &[(SocketAddr, EndpointState)]) -> Result<Option<i32>, JoinError> {
        check(states, at(2), OWN, &[Token(5), Token(6)])
    }

    #[test]
    fn a_free_place_and_its_own_are_taken() {
        let other = Uuid::from_u128(2);
        assert_eq!(checked(&[(at(1), state(other, 4, "NORMAL,4"))]), Ok(None));
        let own = [(at(2), state(OWN, 5, "shutdown,true"))];
        assert_eq!(check(&own, at(2), OWN, &[Token(5)]), Ok(Some(7)));
    }

    #[test]
    fn the_tokens_of_a_node_stay() {
        let own = [(at(2), state(OWN, 5, "shutdown,true"))];
        assert_eq!(checked(&own), Err(JoinError::OtherTokens(at(2))));
        assert_eq!(check(&own, at(2), OWN, &[]), Err(JoinError::NoTokens));
        assert_eq!(check(&[], at(2), OWN, &[]), Err(JoinError::NoTokens));
    }

    #[test]
    fn the_place_of_another_node_is_refused() {
        let other = Uuid::from_u128(2);
        for status in ["NORMAL,5", "shutdown,true"] {
            let taken = (at(1), state(other, 6, status));
            let expected = JoinError::TokenTaken { token: Token(6), other: at(1) };
            assert_eq!(checked(&[taken]), Err(expected));
            let taken = (at(2), state(other, 4, status));
            let expected = JoinError::AddressTaken { address: at(2), other: other.to_string() };
            assert_eq!(checked(&[taken]), Err(expected));
        }
    }

    #[test]
    fn the_host_id_of_another_node_is_refused() {
        let copy = (at(1), state(OWN, 4, "NORMAL,4"));
        let expected = JoinError::HostIdTaken { host_id: OWN, other: at(1) };
        assert_eq!(checked(&[copy]), Err(expected));
        assert_eq!(checked(&[(at(1), state(OWN, 4, "LEFT,4,1790000000000"))]), Ok(None));
    }

    #[test]
    fn the_place_of_a_node_that_has_left_is_free() {
        let other = Uuid::from_u128(2);
        for status in ["LEFT,5,1790000000000", "removed,2,1790000000000"] {
            let states = [(at(1), state(other, 5, status)), (at(2), state(other, 4, status))];
            assert_eq!(checked(&states), Ok(Some(7)));
        }
    }
}
