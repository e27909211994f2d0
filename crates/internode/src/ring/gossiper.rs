//! The state of gossip, without sockets and clock: the facts that this node knows about each
//! endpoint, and the messages that it sends after a message or after each second.
//!
//! 1. Each second the node raises its heartbeat and sends SYN to a random live endpoint, sometimes
//!    to one that is not alive, and to a seed. It leaves out the seed if the live endpoint is one,
//!    and at least as many endpoints are alive as there are seeds.
//! 2. A receiver of SYN answers with ACK: the states that the sender lacks, and a request for the
//!    states that the receiver lacks. The sender answers the request with ACK2.
//! 3. The node sends ECHO to an endpoint that is not alive, has not departed (5.), and has a new
//!    heartbeat. The answer makes the endpoint alive.
//! 4. An endpoint whose heartbeat does not change for [`MAX_SILENCE`] is down. Cassandra decides by
//!    the distribution of the intervals; with its default settings, that takes about as long.
//! 5. An endpoint is not alive while its status says that it has left the ring, was or is being
//!    removed, or hibernates. The node forgets such an endpoint at the time that the status `LEFT`
//!    or `removed` names, or after a silence of [`DEPARTED_LIMIT`]. It forgets an endpoint that has
//!    no status, or has not ended its bootstrap, after a silence of [`MAX_SILENCE_WITHOUT_STATUS`].
//!    Peers that still know a forgotten endpoint may announce it again.
//! 6. Of two members with the same host id, or with the same tokens, the node forgets the member of
//!    the earlier generation (`places`).
//!
//! Bounds: [`MAX_ENDPOINTS`] endpoints, so that SYN fits a small message; bytes (`limits`).

mod limits;
mod places;
mod unknown;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use crate::{
    message::Verb,
    payload::{
        ApplicationState, EndpointState, GossipAck, GossipAck2, GossipDigest, GossipSyn, Payload,
        VersionedValue,
    },
};
pub use limits::{MAX_ENDPOINT_BYTES, MAX_STATE_BYTES};
pub use places::QUARANTINE;
use places::{Removed, has_expired, is_of_place};

/// The time without a new heartbeat after which an endpoint is down.
pub const MAX_SILENCE: Duration = Duration::from_secs(20);

/// The time without a new heartbeat after which the node forgets an endpoint that has no status or
/// has not ended its bootstrap.
pub const MAX_SILENCE_WITHOUT_STATUS: Duration = Duration::from_secs(30);

/// The time without a new heartbeat after which the node forgets an endpoint that has left the
/// ring. Cassandra nodes gossip about such an endpoint for as long.
pub const DEPARTED_LIMIT: Duration = Duration::from_secs(3 * 24 * 3600);

/// Maximum number of endpoints that the node knows. Arbitrary; Cassandra has no bound.
pub const MAX_ENDPOINTS: usize = 1024;

/// The beginnings of the statuses of endpoints that take no part in the ring.
const DEPARTED: [&str; 4] = ["removing", "removed", "LEFT", "hibernate"];

/// The partitioner of all tables here.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// The liveness of an endpoint, as this node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Its states are known, but it has not answered an ECHO.
    Unproven,
    /// It has answered, and its heartbeat keeps changing.
    Alive,
    /// Its heartbeat has not changed for long, it has announced its shutdown, or it has departed.
    Down,
}

/// The state of an endpoint, as far as this node knows it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The time of its start, in seconds since 1970.
    pub generation: i32,
    /// The version of its heartbeat.
    pub heartbeat: i32,
    /// Its states.
    pub states: BTreeMap<ApplicationState, VersionedValue>,
    /// Its liveness.
    pub liveness: Liveness,
    /// The time of its last new heartbeat or answer to ECHO, on the clock of [`Gossiper::tick`].
    heard_at: Duration,
}

impl Endpoint {
    fn new(generation: i32, now: Duration) -> Self {
        Self {
            generation,
            heartbeat: 0,
            states: BTreeMap::new(),
            liveness: Liveness::Unproven,
            heard_at: now,
        }
    }

    /// Returns the value of a state.
    pub fn value(&self, kind: ApplicationState) -> Option<&str> {
        self.states.get(&kind).map(|value| value.value.as_str())
    }

    /// Returns the name of the endpoint's status; empty if it has announced none.
    pub fn status(&self) -> &str {
        self.whole_status().split(',').next().unwrap_or_default()
    }

    fn whole_status(&self) -> &str {
        use ApplicationState::{Status, StatusWithPort};
        self.value(StatusWithPort).or(self.value(Status)).unwrap_or_default()
    }

    /// Returns whether the endpoint takes no part in the ring: it has left, is or was removed, or
    /// hibernates.
    pub fn has_departed(&self) -> bool {
        is_departed(self.status())
    }

    fn max_version(&self) -> i32 {
        self.states.values().map(|value| value.version).fold(self.heartbeat, i32::max)
    }

    /// Returns the heartbeat and the states that are newer than a version; `None` if neither the
    /// heartbeat nor a state is newer.
    fn newer_than(&self, version: i32) -> Option<EndpointState> {
        let states = self.states.iter().filter(|(_, value)| value.version > version);
        let states: Vec<_> = states.map(|(kind, value)| (*kind, value.clone())).collect();
        let has_news = !states.is_empty() || self.heartbeat > version;
        let Self { generation, heartbeat, .. } = *self;
        has_news.then_some(EndpointState { generation, heartbeat, states })
    }
}

/// A message to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// The broadcast address of the receiver.
    pub to: SocketAddr,
    /// The verb.
    pub verb: Verb,
    /// The payload.
    pub payload: Payload,
}

/// A change of an endpoint, as other parts of the member see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GossipEvent {
    /// The endpoint answers.
    Up(SocketAddr),
    /// The endpoint is down: see [`Liveness::Down`].
    Down(SocketAddr),
    /// States of the endpoint have changed.
    Changed(SocketAddr),
}

/// The state of gossip.
#[derive(Debug)]
pub struct Gossiper {
    own: SocketAddr,
    cluster: String,
    seeds: Vec<SocketAddr>,
    endpoints: BTreeMap<SocketAddr, Endpoint>,
    /// The greatest version that this node has given to a state of its own.
    version: i32,
    events: Vec<GossipEvent>,
    /// Endpoints that the node ignores for a while, because others have their places.
    removed: BTreeMap<SocketAddr, Removed>,
    /// Members whose states no peer has sent, each with the first tick after it was named.
    unknown: BTreeMap<SocketAddr, Option<Duration>>,
    /// True if a member may have taken the place of another one.
    places_changed: bool,
}

impl Gossiper {
    /// Creates the state of a node that knows no other node. `generation` is the time of the node's
    /// start in seconds; each start has a greater one than the start before.
    pub fn new(
        own: SocketAddr,
        cluster: impl Into<String>,
        seeds: Vec<SocketAddr>,
        generation: i32,
    ) -> Self {
        let mut endpoint = Endpoint::new(generation, Duration::ZERO);
        endpoint.liveness = Liveness::Alive;
        Self {
            own,
            cluster: cluster.into(),
            seeds: seeds.into_iter().filter(|seed| *seed != own).collect(),
            endpoints: BTreeMap::from([(own, endpoint)]),
            version: 0,
            events: Vec::new(),
            removed: BTreeMap::new(),
            unknown: BTreeMap::new(),
            places_changed: false,
        }
    }

    /// Sets a state of this node.
    pub fn set(&mut self, kind: ApplicationState, value: impl Into<String>) {
        let version = self.next_version();
        let value = VersionedValue { value: value.into(), version };
        if let Some(own) = self.endpoints.get_mut(&self.own) {
            own.states.insert(kind, value);
        }
    }

    /// Returns the known endpoints, including this node.
    pub fn endpoints(&self) -> &BTreeMap<SocketAddr, Endpoint> {
        &self.endpoints
    }

    /// Returns the other nodes that answer.
    pub fn live_peers(&self) -> impl Iterator<Item = (SocketAddr, &Endpoint)> {
        let others = self.endpoints.iter().filter(|(address, _)| **address != self.own);
        let live = others.filter(|(_, endpoint)| endpoint.liveness == Liveness::Alive);
        live.map(|(address, endpoint)| (*address, endpoint))
    }

    /// Returns the whole state of this node.
    pub fn own_state(&self) -> EndpointState {
        let own = self.endpoints.get(&self.own);
        own.and_then(|own| own.newer_than(-1)).unwrap_or_default()
    }

    /// Returns the changes since the last call.
    pub fn take_events(&mut self) -> Vec<GossipEvent> {
        std::mem::take(&mut self.events)
    }

    fn next_version(&mut self) -> i32 {
        self.version += 1;
        self.version
    }

    /// Returns the messages to send after a second has passed. `now` is the time of a monotonic
    /// clock; `below` returns a random number below its argument.
    pub fn tick(&mut self, now: Duration, below: &mut dyn FnMut(usize) -> usize) -> Vec<Outgoing> {
        let version = self.next_version();
        if let Some(own) = self.endpoints.get_mut(&self.own) {
            own.heartbeat = version;
        }
        self.convict(now);
        self.forget(now);
        self.settle_places(now);
        self.forget_unknown(now);
        let others = |wanted: &dyn Fn(Liveness) -> bool| -> Vec<SocketAddr> {
            let others = self.endpoints.iter().filter(|(address, _)| **address != self.own);
            others.filter(|(_, e)| wanted(e.liveness)).map(|(address, _)| *address).collect()
        };
        let live = others(&|liveness| liveness == Liveness::Alive);
        let silent = others(&|liveness| liveness != Liveness::Alive);
        let mut targets = BTreeSet::new();
        let first = pick(&live, below);
        targets.extend(first);
        // The more endpoints are silent, the likelier the node tries one of them.
        if silent.len() > live.len() || below(live.len() + 1) < silent.len() {
            targets.extend(pick(&silent, below));
        }
        let met_seed = first.is_some_and(|first| self.seeds.contains(&first));
        if !met_seed || live.len() < self.seeds.len() {
            targets.extend(pick(&self.seeds, below));
        }
        let syn = GossipSyn {
            cluster: self.cluster.clone(),
            partitioner: PARTITIONER.to_owned(),
            digests: self.digests(),
        };
        let message = |to| Outgoing {
            to,
            verb: Verb::GOSSIP_DIGEST_SYN,
            payload: Payload::GossipSyn(syn.clone()),
        };
        targets.into_iter().map(message).collect()
    }

    fn convict(&mut self, now: Duration) {
        for (address, endpoint) in &mut self.endpoints {
            let silence = now.saturating_sub(endpoint.heard_at);
            let is_other = *address != self.own;
            if is_other && endpoint.liveness == Liveness::Alive && silence > MAX_SILENCE {
                endpoint.liveness = Liveness::Down;
                self.events.push(GossipEvent::Down(*address));
            }
        }
    }

    /// Forgets non-members that are silent for long, or whose status names a time in the past.
    fn forget(&mut self, now: Duration) {
        let (own, now_s) = (self.own, self.present_s(now));
        self.endpoints.retain(|address, endpoint| {
            if *address != own && has_expired(endpoint.whole_status(), now_s) {
                return false;
            }
            let limit = if endpoint.has_departed() {
                DEPARTED_LIMIT
            } else if !matches!(endpoint.status(), "" | "BOOT" | "BOOT_REPLACE") {
                return true;
            } else {
                MAX_SILENCE_WITHOUT_STATUS
            };
            *address == own || now.saturating_sub(endpoint.heard_at) <= limit
        });
    }

    /// Returns the present time in seconds since 1970.
    fn present_s(&self, now: Duration) -> i32 {
        let start = self.endpoints.get(&self.own).map_or(0, |own| own.generation);
        start.saturating_add(i32::try_from(now.as_secs()).unwrap_or(i32::MAX))
    }

    fn digests(&self) -> Vec<GossipDigest> {
        let digest = |(endpoint, state): (&SocketAddr, &Endpoint)| GossipDigest {
            endpoint: *endpoint,
            generation: state.generation,
            max_version: state.max_version(),
        };
        self.endpoints.iter().map(digest).collect()
    }

    /// Returns the answer to SYN; `None` if the sender belongs to another cluster.
    pub fn on_syn(&mut self, from: SocketAddr, syn: &GossipSyn) -> Option<Outgoing> {
        if syn.cluster != self.cluster || syn.partitioner != PARTITIONER {
            return None;
        }
        let mut ack = GossipAck::default();
        if syn.digests.is_empty() {
            // A node that starts sends no digests, and so asks for all states.
            let all = self.endpoints.iter();
            ack.states = all.filter_map(|(at, e)| Some((*at, e.newer_than(-1)?))).collect();
        }
        let mut seen = BTreeSet::new();
        for digest in &syn.digests {
            let GossipDigest { endpoint, generation, max_version } = *digest;
            // A repeated digest must not make the answer longer.
            if !seen.insert(endpoint) {
                continue;
            }
            let ask = |max_version| GossipDigest { endpoint, generation, max_version };
            let Some(known) = self.endpoints.get(&endpoint) else {
                if self.has_place_for(&endpoint) && !self.is_removed(&endpoint, generation) {
                    ack.digests.push(ask(0));
                    self.record_unknown(digest);
                }
                continue;
            };
            let newer_than = if generation < known.generation { 0 } else { max_version };
            if generation > known.generation {
                ack.digests.push(ask(0));
            } else if generation == known.generation && max_version > known.max_version() {
                ack.digests.push(ask(known.max_version()));
            } else if let Some(newer) = known.newer_than(newer_than) {
                ack.states.push((endpoint, newer));
            }
        }
        let payload = Payload::GossipAck(ack);
        Some(Outgoing { to: from, verb: Verb::GOSSIP_DIGEST_ACK, payload })
    }

    /// Takes the states of ACK, and returns the answer and the probes that follow.
    pub fn on_ack(&mut self, from: SocketAddr, ack: GossipAck, now: Duration) -> Vec<Outgoing> {
        let mut outgoing = self.take_states(ack.states, now);
        let (mut states, mut seen) = (Vec::new(), BTreeSet::new());
        for digest in ack.digests {
            if !seen.insert(digest.endpoint) {
                continue;
            }
            let Some(known) = self.endpoints.get(&digest.endpoint) else { continue };
            let from_start = digest.generation != known.generation;
            let version = if from_start { 0 } else { digest.max_version };
            states.extend(known.newer_than(version).map(|newer| (digest.endpoint, newer)));
        }
        if !states.is_empty() {
            let payload = Payload::GossipAck2(GossipAck2 { states });
            outgoing.push(Outgoing { to: from, verb: Verb::GOSSIP_DIGEST_ACK2, payload });
        }
        outgoing
    }

    /// Takes the states of ACK2, and returns the probes that follow.
    pub fn on_ack2(&mut self, ack: GossipAck2, now: Duration) -> Vec<Outgoing> {
        self.take_states(ack.states, now)
    }

    /// Takes the shutdown of an endpoint.
    pub fn on_shutdown(&mut self, from: SocketAddr, state: Option<EndpointState>, now: Duration) {
        // The node sends no ECHO for this state, because the endpoint is about to stop.
        self.take_states(state.map(|state| (from, state)), now);
        if let Some(endpoint) = self.endpoints.get_mut(&from).filter(|_| from != self.own)
            && endpoint.liveness != Liveness::Down
        {
            endpoint.liveness = Liveness::Down;
            self.events.push(GossipEvent::Down(from));
        }
    }

    /// Takes the answer to ECHO.
    pub fn on_echo(&mut self, from: SocketAddr, now: Duration) {
        if let Some(endpoint) = self.endpoints.get_mut(&from)
            && endpoint.liveness != Liveness::Alive
            && !endpoint.has_departed()
        {
            endpoint.liveness = Liveness::Alive;
            endpoint.heard_at = now;
            self.events.push(GossipEvent::Up(from));
        }
    }

    fn take_states(
        &mut self,
        states: impl IntoIterator<Item = (SocketAddr, EndpointState)>,
        now: Duration,
    ) -> Vec<Outgoing> {
        let (mut probes, mut room) = (Vec::new(), self.room_for_values());
        for (address, state) in states {
            // A peer's state of this node is a copy of this node's own state.
            if address == self.own || !self.has_place_for(&address) {
                continue;
            }
            let is_over = has_expired(state.status().unwrap_or_default(), self.present_s(now));
            let is_new = !self.endpoints.contains_key(&address);
            if (is_new && is_over) || self.is_removed(&address, state.generation) {
                continue;
            }
            if !self.is_plausible(state.generation, now) {
                let generation = state.generation;
                tracing::debug!(%address, generation, "ignored gossip of the far future");
                continue;
            }
            if !self.take_state(address, state, now, &mut room) {
                continue;
            }
            let is_silent = |e: &Endpoint| e.liveness != Liveness::Alive && !e.has_departed();
            if self.endpoints.get(&address).is_some_and(is_silent) {
                let payload = Payload::None;
                probes.push(Outgoing { to: address, verb: Verb::ECHO_REQ, payload });
            }
        }
        probes
    }

    /// Applies a state of an endpoint. Returns whether the endpoint has a new heartbeat.
    fn take_state(
        &mut self,
        address: SocketAddr,
        state: EndpointState,
        now: Duration,
        room: &mut usize,
    ) -> bool {
        let EndpointState { generation, heartbeat, states } = state;
        let known = self.endpoints.entry(address).or_insert_with(|| Endpoint::new(generation, now));
        if generation < known.generation {
            return false;
        }
        if generation > known.generation {
            // The endpoint has restarted, so its former states do not count.
            *known = Endpoint::new(generation, now);
        }
        let goes_on = heartbeat > known.heartbeat;
        if goes_on {
            known.heartbeat = heartbeat;
            known.heard_at = now;
        }
        let mut has_changed = false;
        for (kind, value) in states {
            let is_newer =
                known.states.get(&kind).is_none_or(|former| former.version < value.version);
            if is_newer && limits::take_room(known, kind, &value, room) {
                known.states.insert(kind, value);
                has_changed = true;
                self.places_changed |= is_of_place(kind);
            }
        }
        if has_changed {
            self.events.push(GossipEvent::Changed(address));
        }
        if known.liveness == Liveness::Alive && known.has_departed() {
            known.liveness = Liveness::Down;
            self.events.push(GossipEvent::Down(address));
        }
        goes_on
    }
}

/// Returns whether a status is that of an endpoint that takes no part in the ring.
pub(super) fn is_departed(status: &str) -> bool {
    DEPARTED.contains(&status.split(',').next().unwrap_or_default())
}

fn pick(from: &[SocketAddr], below: &mut dyn FnMut(usize) -> usize) -> Option<SocketAddr> {
    match from.len() {
        0 => None,
        count => from.get(below(count)).copied(),
    }
}
