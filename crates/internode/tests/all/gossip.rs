//! Tests the state of gossip: nodes learn of each other, and notice silence, restarts and
//! shutdowns.

use std::{net::SocketAddr, time::Duration};

use espalier_internode::{
    message::Verb,
    payload::{
        ApplicationState, EndpointState, GossipAck, GossipAck2, GossipDigest, GossipSyn, Payload,
        VersionedValue, gossip::tokens_value,
    },
    ring::{
        GossipEvent, Gossiper, Liveness,
        gossiper::{
            DEPARTED_LIMIT, MAX_ENDPOINT_BYTES, MAX_ENDPOINTS, MAX_SILENCE,
            MAX_SILENCE_WITHOUT_STATUS, MAX_STATE_BYTES, Outgoing, PARTITIONER, QUARANTINE,
        },
    },
};
use espalier_mutation::Token;

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, number], 7000))
}

fn gossiper(number: u8, generation: i32) -> Gossiper {
    let mut gossiper = Gossiper::new(address(number), "ring", vec![address(1)], generation);
    gossiper.set(ApplicationState::Dc, format!("dc{number}"));
    gossiper
}

/// Nodes whose messages arrive without a delay.
struct Network {
    nodes: Vec<(SocketAddr, Gossiper)>,
    now: Duration,
}

impl Network {
    fn new(numbers: &[u8]) -> Self {
        let nodes = numbers.iter().map(|number| (address(*number), gossiper(*number, 1000)));
        Self { nodes: nodes.collect(), now: Duration::ZERO }
    }

    fn node(&mut self, number: u8) -> &mut Gossiper {
        let found = self.nodes.iter_mut().find(|(at, _)| *at == address(number));
        &mut found.unwrap().1
    }

    fn liveness(&mut self, at: u8, of: u8) -> Option<Liveness> {
        self.node(at).endpoints().get(&address(of)).map(|endpoint| endpoint.liveness)
    }

    /// Advances the time by a second and runs a round of gossip at these nodes; the other nodes are
    /// silent.
    fn second(&mut self, numbers: &[u8]) {
        self.now += Duration::from_secs(1);
        for number in numbers {
            let now = self.now;
            let mut below = |bound: usize| (now.as_secs() as usize * 7 + 3) % bound;
            let outgoing = self.node(*number).tick(now, &mut below);
            self.deliver(address(*number), outgoing, numbers);
        }
    }

    fn deliver(&mut self, from: SocketAddr, outgoing: Vec<Outgoing>, up: &[u8]) {
        let now = self.now;
        for Outgoing { to, verb, payload } in outgoing {
            if !up.iter().any(|number| address(*number) == to) {
                continue;
            }
            let found = self.nodes.iter_mut().find(|(at, _)| *at == to);
            let node = &mut found.unwrap().1;
            let answers = match payload {
                Payload::GossipSyn(syn) => Vec::from_iter(node.on_syn(from, &syn)),
                Payload::GossipAck(ack) => node.on_ack(from, ack, now),
                Payload::GossipAck2(ack) => node.on_ack2(ack, now),
                Payload::None if verb == Verb::ECHO_REQ => {
                    let answer = Verb::ECHO_RSP;
                    vec![Outgoing { to: from, verb: answer, payload: Payload::None }]
                }
                Payload::None => {
                    node.on_echo(from, now);
                    Vec::new()
                }
                other => panic!("{other:?}"),
            };
            self.deliver(to, answers, up);
        }
    }
}

#[test]
fn three_nodes_learn_of_each_other_by_one_seed() {
    let mut network = Network::new(&[1, 2, 3]);
    for _ in 0..5 {
        network.second(&[1, 2, 3]);
    }
    for at in 1..=3 {
        for of in 1..=3 {
            assert_eq!(network.liveness(at, of), Some(Liveness::Alive), "{of} at {at}");
            let endpoint = &network.node(at).endpoints()[&address(of)];
            assert_eq!(endpoint.value(ApplicationState::Dc), Some(format!("dc{of}").as_str()));
        }
    }
}

#[test]
fn a_silent_node_is_down_until_it_speaks_again() {
    let mut network = Network::new(&[1, 2]);
    (0..3).for_each(|_| network.second(&[1, 2]));
    network.node(1).take_events();
    (0..=MAX_SILENCE.as_secs()).for_each(|_| network.second(&[1]));
    assert_eq!(network.liveness(1, 2), Some(Liveness::Down));
    (0..3).for_each(|_| network.second(&[1, 2]));
    assert_eq!(network.liveness(1, 2), Some(Liveness::Alive));
    let events = network.node(1).take_events();
    assert_eq!(events, [GossipEvent::Down(address(2)), GossipEvent::Up(address(2))]);
}

#[test]
fn a_later_generation_replaces_all_that_was_known() {
    let mut network = Network::new(&[1, 2]);
    network.node(2).set(ApplicationState::Rack, "old");
    (0..3).for_each(|_| network.second(&[1, 2]));
    *network.node(2) = gossiper(2, 1001);
    (0..3).for_each(|_| network.second(&[1, 2]));
    let endpoint = &network.node(1).endpoints()[&address(2)];
    assert_eq!((endpoint.generation, endpoint.liveness), (1001, Liveness::Alive));
    assert_eq!(endpoint.value(ApplicationState::Rack), None);
    // States of an older generation are ignored.
    *network.node(2) = gossiper(2, 1000);
    (0..3).for_each(|_| network.second(&[1, 2]));
    assert_eq!(network.node(1).endpoints()[&address(2)].generation, 1001);
}

#[test]
fn a_shutdown_is_noticed_at_once() {
    let mut network = Network::new(&[1, 2]);
    (0..3).for_each(|_| network.second(&[1, 2]));
    let state = network.node(2).own_state();
    let now = network.now;
    network.node(1).on_shutdown(address(2), Some(state), now);
    assert_eq!(network.liveness(1, 2), Some(Liveness::Down));
    // A node does not believe that it is down itself.
    network.node(1).on_shutdown(address(1), None, now);
    assert_eq!(network.liveness(1, 1), Some(Liveness::Alive));
}

/// Delivers a state of endpoint 9 with this status to `node`. Returns the number of messages that
/// the node sends in return.
fn take(node: &mut Gossiper, generation: i32, status: Option<&str>, now: Duration) -> usize {
    let value = |text: &str| VersionedValue { value: text.into(), version: 1 };
    let states = status.map(|status| (ApplicationState::StatusWithPort, value(status)));
    let state = EndpointState { generation, heartbeat: 1, states: Vec::from_iter(states) };
    node.on_ack2(GossipAck2 { states: vec![(address(9), state)] }, now).len()
}

#[test]
fn a_generation_of_the_far_future_is_ignored() {
    let (mut node, year) = (gossiper(1, 1000), 31_536_000);
    assert_eq!(take(&mut node, i32::MAX, None, Duration::ZERO), 0);
    assert_eq!(take(&mut node, 1001 + year, None, Duration::ZERO), 0);
    assert!(!node.endpoints().contains_key(&address(9)));
    assert_eq!(take(&mut node, 1001 + year, None, Duration::from_secs(1)), 1);
}

#[test]
fn an_endpoint_that_was_removed_is_not_revived() {
    let mut node = gossiper(1, 1000);
    let ended = "removed,9d1b2a8e-0000-4000-8000-000000000009,2000000";
    let left = "LEFT,5,2000000";
    for (generation, status) in [(1000, ended), (1001, left), (1002, "removing,5")] {
        assert_eq!(take(&mut node, generation, Some(status), Duration::ZERO), 0, "{status}");
        node.on_echo(address(9), Duration::ZERO);
        assert_ne!(node.endpoints()[&address(9)].liveness, Liveness::Alive, "{status}");
    }
    assert_eq!(take(&mut node, 1003, Some("NORMAL,5"), Duration::ZERO), 1);
    node.on_echo(address(9), Duration::ZERO);
    assert_eq!(node.endpoints()[&address(9)].liveness, Liveness::Alive);
}

#[test]
fn endpoints_that_are_no_members_are_forgotten() {
    let known = |status: Option<&str>, seconds: Duration| {
        let mut node = gossiper(1, 1000);
        take(&mut node, 1000, status, Duration::ZERO);
        node.tick(seconds, &mut |_| 0);
        node.endpoints().contains_key(&address(9))
    };
    let second = Duration::from_secs(1);
    assert!(known(None, MAX_SILENCE_WITHOUT_STATUS));
    assert!(!known(None, MAX_SILENCE_WITHOUT_STATUS + second));
    assert!(!known(Some("BOOT,5"), MAX_SILENCE_WITHOUT_STATUS + second));
    let late = Some("LEFT,5,1000000000");
    assert!(known(late, DEPARTED_LIMIT));
    assert!(!known(late, DEPARTED_LIMIT + second));
    // The time in the status is 1 s after the start of this node.
    assert!(known(Some("LEFT,5,1001000"), Duration::ZERO));
    assert!(!known(Some("LEFT,5,1001000"), second));
    assert!(!known(Some("removed,5,1000000"), Duration::ZERO));
    assert!(known(Some("NORMAL,5"), DEPARTED_LIMIT * 2));
}

/// Lets a node hear of members, each with its address, generation, host id and tokens. Returns the
/// addresses that the node then knows beside its own.
fn members_of(node: &mut Gossiper, members: &[(u8, i32, &str, &[i64])], now: Duration) -> Vec<u8> {
    for (host, generation, host_id, tokens) in members {
        let tokens: Vec<_> = tokens.iter().map(|token| Token(*token)).collect();
        let states = [
            (ApplicationState::HostId, (*host_id).to_owned()),
            (ApplicationState::Tokens, tokens_value(&tokens)),
            (ApplicationState::StatusWithPort, "NORMAL,5".to_owned()),
        ];
        let states = states.map(|(kind, value)| (kind, VersionedValue { value, version: 1 }));
        let state = EndpointState { generation: *generation, heartbeat: 1, states: states.into() };
        node.on_ack2(GossipAck2 { states: vec![(address(*host), state)] }, now);
    }
    node.tick(now, &mut |_| 0);
    (2..=9).filter(|host| node.endpoints().contains_key(&address(*host))).collect()
}

#[test]
fn a_replaced_node_and_a_former_address_are_forgotten() {
    let mut node = gossiper(1, 1000);
    let dead = (9, 1000, "d", &[5, 6][..]);
    let first = [dead, (2, 1000, "a", &[7])];
    assert_eq!(members_of(&mut node, &first, Duration::ZERO), [2, 9]);
    // Node 3 has replaced node 9.
    let replacement = (3, 1001, "e", &[6, 5][..]);
    assert_eq!(members_of(&mut node, &[replacement], Duration::ZERO), [2, 3]);
    // A peer that still knows node 9 does not bring it back, also not after the quarantine.
    assert_eq!(members_of(&mut node, &[dead], Duration::ZERO), [2, 3]);
    let digest = GossipDigest { endpoint: address(9), generation: 1000, max_version: 1 };
    let syn = GossipSyn {
        cluster: "ring".into(),
        partitioner: PARTITIONER.into(),
        digests: vec![digest],
    };
    let Payload::GossipAck(ack) = node.on_syn(address(2), &syn).unwrap().payload else { panic!() };
    assert!(ack.digests.is_empty(), "{:?}", ack.digests);
    let later = QUARANTINE + Duration::from_secs(1);
    assert_eq!(members_of(&mut node, &[dead], later), [2, 3]);
    // Node 2 comes back at address 4.
    assert_eq!(members_of(&mut node, &[(4, 1002, "A", &[7])], later), [3, 4]);
    // Node 9 comes back with another token, and stays. Node 5 takes the only token of node 4.
    let others = [(5, 1003, "f", &[7, 8][..]), (9, 1004, "d", &[9][..])];
    assert_eq!(members_of(&mut node, &others[1..], later), [3, 4, 9]);
    assert_eq!(members_of(&mut node, &others[..1], later), [3, 5, 9]);
}

#[test]
fn invented_endpoints_do_not_fill_memory() {
    let mut node = gossiper(1, 1000);
    let at = |number: u32| SocketAddr::from((number.to_be_bytes(), 7000));
    let state = |number| (at(number), EndpointState { generation: 1000, ..Default::default() });
    let states = (0..2000).map(|number| state(0x0A00_0000 + number)).collect();
    node.on_ack2(GossipAck2 { states }, Duration::ZERO);
    assert_eq!(node.endpoints().len(), MAX_ENDPOINTS);
    let digest = GossipDigest { endpoint: at(0x0B00_0000), generation: 1000, max_version: 1 };
    let syn = GossipSyn {
        cluster: "ring".into(),
        partitioner: PARTITIONER.into(),
        digests: vec![digest],
    };
    let Payload::GossipAck(ack) = node.on_syn(address(2), &syn).unwrap().payload else { panic!() };
    assert!(ack.digests.is_empty(), "{:?}", ack.digests);
}

#[test]
fn invented_values_do_not_fill_memory() {
    let mut node = gossiper(1, 1000);
    let at = |number: u32| SocketAddr::from((number.to_be_bytes(), 7000));
    let state = |heartbeat, length| {
        let value = VersionedValue { value: "x".repeat(length), version: heartbeat };
        let states = vec![(ApplicationState::IndexStatus, value)];
        EndpointState { generation: 1000, heartbeat, states }
    };
    // From a state with a value beyond the limit, the node takes only the heartbeat.
    for (heartbeat, length) in [(1, MAX_ENDPOINT_BYTES), (2, MAX_ENDPOINT_BYTES + 1)] {
        let states = vec![(address(9), state(heartbeat, length))];
        node.on_ack2(GossipAck2 { states }, Duration::ZERO);
        let endpoint = &node.endpoints()[&address(9)];
        let known = endpoint.value(ApplicationState::IndexStatus).map(str::len);
        assert_eq!((endpoint.heartbeat, known), (heartbeat, Some(MAX_ENDPOINT_BYTES)));
    }
    for number in 0..200 {
        let states = vec![(at(0x0A00_0000 + number), state(1, MAX_ENDPOINT_BYTES))];
        node.on_ack2(GossipAck2 { states }, Duration::ZERO);
    }
    let endpoints = node.endpoints().values();
    let values = endpoints.flat_map(|endpoint| endpoint.states.values());
    let bytes: usize = values.map(|value| value.value.len()).sum();
    assert!(bytes <= MAX_STATE_BYTES && bytes > MAX_STATE_BYTES / 2, "{bytes}");
    // A shorter value may replace an earlier one at the limit.
    let states = vec![(address(9), state(3, 7))];
    node.on_ack2(GossipAck2 { states }, Duration::ZERO);
    let known = node.endpoints()[&address(9)].value(ApplicationState::IndexStatus);
    assert_eq!(known, Some("xxxxxxx"));
}

#[test]
fn another_cluster_gets_no_answer() {
    let mut node = gossiper(1, 1000);
    let syn = |cluster: &str, partitioner: &str| GossipSyn {
        cluster: cluster.into(),
        partitioner: partitioner.into(),
        digests: Vec::new(),
    };
    assert!(node.on_syn(address(2), &syn("ring", PARTITIONER)).is_some());
    assert!(node.on_syn(address(2), &syn("rings", PARTITIONER)).is_none());
    assert!(node.on_syn(address(2), &syn("ring", "RandomPartitioner")).is_none());
}

#[test]
fn a_node_that_starts_gets_all_states() {
    let mut network = Network::new(&[1, 2]);
    (0..3).for_each(|_| network.second(&[1, 2]));
    let syn =
        GossipSyn { cluster: "ring".into(), partitioner: PARTITIONER.into(), digests: Vec::new() };
    let answer = network.node(1).on_syn(address(3), &syn).unwrap();
    let Payload::GossipAck(ack) = answer.payload else { panic!() };
    assert_eq!(ack.states.len(), 2);
    assert!(ack.digests.is_empty());
}

/// An answer with a copy of the state for each of many equal digests would take much memory.
#[test]
fn repeated_digests_are_answered_once() {
    let mut node = gossiper(1, 1000);
    let digest = GossipDigest { endpoint: address(1), generation: 0, max_version: 0 };
    let (cluster, partitioner) = ("ring".to_owned(), PARTITIONER.to_owned());
    let digests = vec![digest; 10_000];
    let syn = GossipSyn { cluster, partitioner, digests: digests.clone() };
    let answer = node.on_syn(address(2), &syn).unwrap();
    let Payload::GossipAck(ack) = answer.payload else { panic!() };
    assert_eq!(ack.states.len(), 1);
    let ack = GossipAck { digests, states: Vec::new() };
    let answers = node.on_ack(address(2), ack, Duration::ZERO);
    let Payload::GossipAck2(ack) = &answers[0].payload else { panic!() };
    assert_eq!((answers.len(), ack.states.len()), (1, 1));
}
