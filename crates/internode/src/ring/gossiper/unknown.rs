//! Records members of the ring that only a peer's digest names.
//!
//! A node of Cassandra that restarts while a member is down knows only the member's address, from
//! its table of peers. It names the member in its digests, with generation 0, and cannot send the
//! member's states. If this node restarts too, it learns no tokens of that member.

use std::{net::SocketAddr, time::Duration};

use super::{Gossiper, MAX_ENDPOINTS};
use crate::payload::GossipDigest;

/// Time after which the node forgets such a member, unless a digest names it again. Arbitrary: a
/// peer sends its digests to a random node each second.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(60);

impl Gossiper {
    /// Returns whether the node knows the states of all members that its peers have named.
    pub fn knows_all_named(&self) -> bool {
        self.unknown.keys().all(|address| self.endpoints.contains_key(address))
    }

    /// Records the endpoint of a digest that this node does not know.
    pub(super) fn record_unknown(&mut self, digest: &GossipDigest) {
        let GossipDigest { endpoint, generation, .. } = *digest;
        if generation == 0 && self.unknown.len() < MAX_ENDPOINTS {
            self.unknown.insert(endpoint, None);
        }
    }

    /// Forgets members that the node knows by now, and those that no peer has named for long.
    pub(super) fn forget_unknown(&mut self, now: Duration) {
        let endpoints = &self.endpoints;
        self.unknown.retain(|address: &SocketAddr, named_at| {
            let named_at = *named_at.get_or_insert(now);
            !endpoints.contains_key(address) && now.saturating_sub(named_at) < UNKNOWN_LIMIT
        });
    }
}
