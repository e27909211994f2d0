//! Finds the replicas of a partition by the tokens that gossip has announced.
//!
//! The node needs them to finish batches of failed coordinators, to forward hints, and to refuse
//! conditional writes to partitions of which it is no replica. This module implements the rules of
//! SimpleStrategy and NetworkTopologyStrategy. The replicas of other strategies, and of keyspaces
//! with transient replicas, are unknown. While a node joins, leaves or moves, all replicas are
//! unknown, because writes then belong to future replicas, too, which this node does not compute.
//! They are also unknown while a peer names a member whose tokens this node does not know.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    rc::Rc,
};

use espalier_mutation::{DecoratedKey, Token};

use super::{Gossiper, RingMember};
use crate::payload::{ApplicationState, Mutation, gossip::tokens_of};

/// A node of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingNode {
    /// Its broadcast address.
    pub address: SocketAddr,
    /// Its data centre.
    pub data_center: String,
    /// Its rack.
    pub rack: String,
}

/// The nodes of the ring by their tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRing {
    nodes: Vec<RingNode>,
    /// The index in `nodes` of the owner of each token.
    owners: BTreeMap<Token, usize>,
    /// True if tokens are about to change their owners, or if a member's tokens are unknown.
    is_changing: bool,
}

impl TokenRing {
    /// Returns the tokens of the members that gossip knows, whether they are up or down.
    pub fn of(gossiper: &Gossiper) -> Self {
        let mut ring = Self { is_changing: !gossiper.knows_all_named(), ..Self::default() };
        let mut endpoints: Vec<_> = gossiper.endpoints().iter().collect();
        // If two nodes announce the same token, the node of the later generation has it.
        endpoints.sort_by_key(|(address, endpoint)| (endpoint.generation, **address));
        for (address, endpoint) in endpoints {
            let tokens = endpoint.value(ApplicationState::Tokens).and_then(tokens_of);
            let tokens = match (endpoint.status(), tokens) {
                ("LEFT" | "removed", _) | ("", None) => continue,
                ("NORMAL" | "shutdown", Some(tokens)) => tokens,
                // The node joins, leaves, moves, hibernates or is being removed, or has announced
                // only one of its status and its tokens.
                _ => {
                    ring.is_changing = true;
                    continue;
                }
            };
            let value = |kind| endpoint.value(kind).unwrap_or_default().to_owned();
            let data_center = value(ApplicationState::Dc);
            let node =
                RingNode { address: *address, data_center, rack: value(ApplicationState::Rack) };
            ring.add(node, &tokens);
        }
        ring
    }

    fn add(&mut self, node: RingNode, tokens: &[Token]) {
        let index = self.nodes.len();
        self.nodes.push(node);
        self.owners.extend(tokens.iter().map(|token| (*token, index)));
    }

    /// Returns the replicas of a token; `None` if the strategy or its options are unknown, or if
    /// the ring is changing.
    pub fn replicas(
        &self,
        token: Token,
        replication: &BTreeMap<String, String>,
    ) -> Option<Vec<SocketAddr>> {
        if self.is_changing {
            return None;
        }
        let class = replication.get("class")?.rsplit('.').next()?;
        let walk = self.owners.range(token..).chain(self.owners.range(..token));
        let nodes = walk.filter_map(|(_, index)| self.nodes.get(*index));
        match class {
            "SimpleStrategy" => {
                let count = replication.get("replication_factor")?.parse().ok()?;
                Some(first_of(nodes, count))
            }
            "NetworkTopologyStrategy" => self.by_data_center(nodes, replication),
            _ => None,
        }
    }

    fn by_data_center<'n>(
        &self,
        walk: impl Iterator<Item = &'n RingNode>,
        replication: &BTreeMap<String, String>,
    ) -> Option<Vec<SocketAddr>> {
        let mut centers: BTreeMap<&str, Center<'n>> = BTreeMap::new();
        for (name, count) in replication.iter().filter(|(name, _)| *name != "class") {
            let count: usize = count.parse().ok()?;
            let members = || self.nodes.iter().filter(|node| node.data_center == *name);
            let racks: BTreeSet<_> = members().map(|node| &node.rack).collect();
            let left = count.min(members().count());
            let repeats = count.saturating_sub(racks.len());
            centers.insert(name, Center { left, repeats, racks: BTreeSet::new() });
        }
        let mut replicas = Vec::new();
        for node in walk {
            let Some(center) = centers.get_mut(node.data_center.as_str()) else { continue };
            if !replicas.contains(&node.address) && center.takes(node) {
                replicas.push(node.address);
            }
        }
        Some(replicas)
    }
}

impl RingMember {
    /// Returns the replicas of a write, at least one; `None` if they are unknown.
    pub(super) fn replicas_of(&self, mutation: &Mutation) -> Option<Vec<SocketAddr>> {
        let update = mutation.updates.first()?;
        let key = DecoratedKey::new(update.partition.key.clone());
        self.replicas_of_key(&update.table.keyspace, &key)
    }

    /// Returns the replicas of a partition, at least one; `None` if they are unknown.
    pub(super) fn replicas_of_key(
        &self,
        keyspace: &str,
        key: &DecoratedKey,
    ) -> Option<Vec<SocketAddr>> {
        let schema = self.backend.schema();
        let keyspace = schema.keyspace(keyspace)?;
        let replicas = self.tokens().replicas(key.token, &keyspace.replication);
        replicas.filter(|replicas| !replicas.is_empty())
    }

    /// Returns the nodes by their tokens, at most a period of gossip old. They are cached, because
    /// each request would otherwise build a search tree of all tokens of the ring.
    fn tokens(&self) -> Rc<TokenRing> {
        let mut known = self.token_ring.borrow_mut();
        Rc::clone(known.get_or_insert_with(|| Rc::new(TokenRing::of(&self.gossiper.borrow()))))
    }
}

/// The replicas that a data centre still lacks.
struct Center<'n> {
    left: usize,
    /// The number of further replicas that may be in a rack that already has one.
    repeats: usize,
    racks: BTreeSet<&'n str>,
}

impl<'n> Center<'n> {
    fn takes(&mut self, node: &'n RingNode) -> bool {
        if self.left == 0 {
            return false;
        }
        if !self.racks.insert(&node.rack) {
            if self.repeats == 0 {
                return false;
            }
            self.repeats -= 1;
        }
        self.left -= 1;
        true
    }
}

fn first_of<'n>(walk: impl Iterator<Item = &'n RingNode>, count: usize) -> Vec<SocketAddr> {
    let mut replicas = Vec::new();
    for node in walk {
        if replicas.len() == count {
            break;
        }
        if !replicas.contains(&node.address) {
            replicas.push(node.address);
        }
    }
    replicas
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        payload::{
            EndpointState, GossipAck2, GossipDigest, GossipSyn, VersionedValue,
            gossip::tokens_value,
        },
        ring::gossiper::PARTITIONER,
    };

    fn at(host: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, host], 7000))
    }

    fn ring(nodes: &[(u8, &str, &str, &[i64])]) -> TokenRing {
        let mut ring = TokenRing::default();
        for (host, center, rack, tokens) in nodes {
            let (data_center, rack) = (center.to_string(), rack.to_string());
            let tokens: Vec<_> = tokens.iter().map(|token| Token(*token)).collect();
            ring.add(RingNode { address: at(*host), data_center, rack }, &tokens);
        }
        ring
    }

    fn replicas(ring: &TokenRing, token: i64, options: &[(&str, &str)]) -> Option<Vec<u8>> {
        let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let found = ring.replicas(Token(token), &options.collect())?;
        Some(found.into_iter().map(|address| (1..9).find(|h| at(*h) == address).unwrap()).collect())
    }

    #[test]
    fn the_next_nodes_of_the_ring_are_replicas() {
        let ring = ring(&[(1, "a", "r", &[0, 30]), (2, "a", "r", &[10]), (3, "a", "r", &[20])]);
        let simple = |count| {
            [
                ("class", "org.apache.cassandra.locator.SimpleStrategy"),
                ("replication_factor", count),
            ]
        };
        // A node owns its token and the tokens before it, back to the token of another node.
        assert_eq!(replicas(&ring, 10, &simple("1")), Some(vec![2]));
        assert_eq!(replicas(&ring, 11, &simple("2")), Some(vec![3, 1]));
        assert_eq!(replicas(&ring, 31, &simple("2")), Some(vec![1, 2]));
        assert_eq!(replicas(&ring, 0, &simple("9")), Some(vec![1, 2, 3]));
        assert_eq!(replicas(&ring, 0, &[("class", "LocalStrategy")]), None);
    }

    /// Returns the ring of gossip with nodes of these statuses, each at a token of its own.
    fn gossiped(statuses: &[&str]) -> TokenRing {
        use ApplicationState::{StatusWithPort, Tokens};
        let mut gossiper = Gossiper::new(at(1), "ring", Vec::new(), 7);
        gossiper.set(Tokens, tokens_value(&[Token(0)]));
        gossiper.set(StatusWithPort, "NORMAL,0");
        for (host, status) in (2..).zip(statuses) {
            let mut values = vec![(Tokens, tokens_value(&[Token(i64::from(host) * 10)]))];
            if !status.is_empty() {
                values.push((StatusWithPort, (*status).to_owned()));
            }
            let states = values.into_iter();
            let states = states.map(|(kind, value)| (kind, VersionedValue { value, version: 1 }));
            let state = EndpointState { generation: 7, heartbeat: 1, states: states.collect() };
            let ack = GossipAck2 { states: vec![(at(host), state)] };
            gossiper.on_ack2(ack, Duration::ZERO);
        }
        TokenRing::of(&gossiper)
    }

    /// A peer restarted while node 2 was down, and so knows only the address of node 2.
    #[test]
    fn a_member_without_states_makes_the_replicas_unknown() {
        use ApplicationState::{StatusWithPort, Tokens};
        let one = [("class", "SimpleStrategy"), ("replication_factor", "1")];
        let mut gossiper = Gossiper::new(at(1), "ring", Vec::new(), 7);
        gossiper.set(Tokens, tokens_value(&[Token(0)]));
        gossiper.set(StatusWithPort, "NORMAL,0");
        let name = |gossiper: &mut Gossiper, host, generation| {
            let digest = GossipDigest { endpoint: at(host), generation, max_version: 0 };
            let (cluster, partitioner) = ("ring".into(), PARTITIONER.into());
            gossiper.on_syn(at(3), &GossipSyn { cluster, partitioner, digests: vec![digest] });
        };
        let found = |gossiper: &Gossiper| replicas(&TokenRing::of(gossiper), 15, &one);
        // The states of node 3 are about to come.
        name(&mut gossiper, 3, 7);
        assert_eq!(found(&gossiper), Some(vec![1]));
        name(&mut gossiper, 2, 0);
        assert_eq!(found(&gossiper), None);
        let second = Duration::from_secs(1);
        gossiper.tick(100 * second, &mut |_| 0);
        gossiper.tick(159 * second, &mut |_| 0);
        assert_eq!(found(&gossiper), None);
        gossiper.tick(160 * second, &mut |_| 0);
        assert_eq!(found(&gossiper), Some(vec![1]), "no peer has named node 2 for 60 s");
        name(&mut gossiper, 2, 0);
        assert_eq!(found(&gossiper), None);
        let values =
            [(Tokens, tokens_value(&[Token(20)])), (StatusWithPort, "NORMAL,20".to_owned())];
        let states = values.map(|(kind, value)| (kind, VersionedValue { value, version: 1 }));
        let state = EndpointState { generation: 8, heartbeat: 1, states: states.into() };
        gossiper.on_ack2(GossipAck2 { states: vec![(at(2), state)] }, 160 * second);
        assert_eq!(found(&gossiper), Some(vec![2]), "node 2 is back");
    }

    #[test]
    fn a_ring_that_changes_has_unknown_replicas() {
        let one = [("class", "SimpleStrategy"), ("replication_factor", "1")];
        let normal = gossiped(&["NORMAL,20", "LEFT,30,1", "shutdown,true"]);
        assert_eq!(replicas(&normal, 1, &one), Some(vec![2]));
        assert_eq!(replicas(&normal, 21, &one), Some(vec![4]));
        let changes = ["BOOT,20", "BOOT_REPLACE,20", "LEAVING,20", "MOVING,5", "removing,1", ""];
        for status in changes {
            assert_eq!(replicas(&gossiped(&["NORMAL,20", status]), 1, &one), None, "{status}");
        }
    }

    #[test]
    fn a_data_centre_prefers_racks_without_a_replica() {
        let ring = ring(&[
            (1, "a", "r1", &[0]),
            (2, "a", "r1", &[10]),
            (3, "b", "r1", &[20]),
            (4, "a", "r2", &[30]),
        ]);
        let topology = |a| [("class", "NetworkTopologyStrategy"), ("a", a), ("b", "1")];
        assert_eq!(replicas(&ring, 0, &topology("2")), Some(vec![1, 3, 4]));
        assert_eq!(replicas(&ring, 0, &topology("3")), Some(vec![1, 2, 3, 4]));
        assert_eq!(replicas(&ring, 1, &topology("1")), Some(vec![2, 3]));
        assert_eq!(replicas(&ring, 1, &topology("3/1")), None);
    }
}
