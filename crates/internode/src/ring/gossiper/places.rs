//! Removes endpoints whose place in the ring another endpoint has taken: a node that a new node
//! replaced, and the former address of a node that came back at another address.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use espalier_mutation::Token;

use super::{Endpoint, GossipEvent, Gossiper, Liveness, MAX_ENDPOINTS};
use crate::payload::{ApplicationState, gossip::tokens_of};

/// Time for which the node ignores an endpoint whose place is taken, because peers may still
/// announce it. Cassandra's quarantine takes as long.
pub const QUARANTINE: Duration = Duration::from_secs(60);

/// An endpoint whose place is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removed {
    generation: i32,
    until: Duration,
}

impl Gossiper {
    /// Removes an endpoint if an endpoint of a later generation has its host id, or if endpoints of
    /// later generations have all its tokens. Never removes this node itself.
    pub(super) fn settle_places(&mut self, now: Duration) {
        self.removed.retain(|_, removed| removed.until > now);
        if !std::mem::take(&mut self.places_changed) {
            return;
        }
        for address in self.without_place() {
            let Some(endpoint) = self.endpoints.remove(&address) else { continue };
            tracing::info!(peer = %address, "forgot a node: another has its place in the ring");
            if endpoint.liveness == Liveness::Alive {
                self.events.push(GossipEvent::Down(address));
            }
            if self.removed.len() < MAX_ENDPOINTS {
                let Endpoint { generation, .. } = endpoint;
                let removed = Removed { generation, until: now + QUARANTINE };
                self.removed.insert(address, removed);
            }
        }
    }

    /// Returns whether the node ignores an endpoint of this generation, because another endpoint
    /// has taken its place.
    pub(super) fn is_removed(&self, address: &SocketAddr, generation: i32) -> bool {
        self.removed.get(address).is_some_and(|removed| generation <= removed.generation)
    }

    fn without_place(&self) -> Vec<SocketAddr> {
        let mut members: Vec<_> = self.endpoints.iter().filter(|(_, it)| is_member(it)).collect();
        // In the maps, members of later generations replace members of earlier ones.
        members.sort_by_key(|(address, endpoint)| (endpoint.generation, **address));
        let (mut hosts, mut owners) = (HashMap::new(), HashMap::<Token, SocketAddr>::new());
        let host_of = |endpoint: &Endpoint| {
            endpoint.value(ApplicationState::HostId).map(str::to_ascii_lowercase)
        };
        let tokens = |endpoint: &Endpoint| {
            endpoint.value(ApplicationState::Tokens).and_then(tokens_of).unwrap_or_default()
        };
        for (address, endpoint) in &members {
            hosts.extend(host_of(endpoint).map(|host| (host, **address)));
            owners.extend(tokens(endpoint).into_iter().map(|token| (token, **address)));
        }
        let is_lost = |(address, endpoint): &(&SocketAddr, &Endpoint)| {
            let of_other = |owner: Option<&SocketAddr>| owner.is_some_and(|it| it != *address);
            let tokens = tokens(endpoint);
            let has_none = tokens.iter().all(|token| of_other(owners.get(token)));
            host_of(endpoint).is_some_and(|host| of_other(hosts.get(&host)))
                || (!tokens.is_empty() && has_none)
        };
        let lost = members.into_iter().filter(is_lost).map(|(address, _)| *address);
        lost.filter(|address| *address != self.own).collect()
    }
}

fn is_member(endpoint: &Endpoint) -> bool {
    matches!(endpoint.status(), "NORMAL" | "shutdown")
}

/// Returns whether a change of this state may give an endpoint another place in the ring.
pub(super) fn is_of_place(kind: ApplicationState) -> bool {
    use ApplicationState::{HostId, Status, StatusWithPort, Tokens};
    matches!(kind, HostId | Status | StatusWithPort | Tokens)
}

/// Returns the time in seconds since 1970 at which nodes forget an endpoint of this status. Only
/// the statuses of endpoints that have left the ring or were removed name such a time.
fn expiry_s(status: &str) -> Option<i64> {
    let mut parts = status.split(',');
    let is_final = matches!(parts.next(), Some("LEFT" | "removed"));
    let expiry_ms: i64 = parts.nth(1).filter(|_| is_final)?.parse().ok()?;
    Some(expiry_ms / 1000)
}

/// Returns whether the time at which nodes forget an endpoint of this status has passed.
pub(super) fn has_expired(status: &str, now_s: i32) -> bool {
    expiry_s(status).is_some_and(|expiry_s| expiry_s <= i64::from(now_s))
}
