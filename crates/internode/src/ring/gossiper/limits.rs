//! Bounds the number of endpoints, their generations, and the bytes of the states that they
//! announce. The node ignores a value beyond a limit, but takes the heartbeat that comes with it.

use std::{net::SocketAddr, time::Duration};

use super::{Endpoint, Gossiper, MAX_ENDPOINTS};
use crate::payload::{ApplicationState, VersionedValue};

/// Maximum bytes of one endpoint's values. Arbitrary; 256 tokens take 3 KiB, and Cassandra also
/// announces the state of each index.
pub const MAX_ENDPOINT_BYTES: usize = 256 << 10;

/// Maximum bytes of all values. Arbitrary: 1,024 endpoints with 16 KiB each have as many.
pub const MAX_STATE_BYTES: usize = 16 << 20;

/// The time in seconds by which a generation may be ahead of the clock, as in Cassandra. If the
/// node accepted a later generation, no restart of the endpoint could correct it.
const MAX_GENERATION_AHEAD_S: i32 = 365 * 24 * 3600;

impl Gossiper {
    /// Returns whether the node may add this endpoint, or has it already.
    pub(super) fn has_place_for(&self, endpoint: &SocketAddr) -> bool {
        self.endpoints.len() < MAX_ENDPOINTS || self.endpoints.contains_key(endpoint)
    }

    /// Returns whether a generation can be the time of a start. The generation of this node and the
    /// time since its start give the present time.
    pub(super) fn is_plausible(&self, generation: i32, now: Duration) -> bool {
        generation <= self.present_s(now).saturating_add(MAX_GENERATION_AHEAD_S)
    }

    /// Returns the number of bytes that further values may take.
    pub(super) fn room_for_values(&self) -> usize {
        let taken = self.endpoints.values().map(bytes_of).sum();
        MAX_STATE_BYTES.saturating_sub(taken)
    }
}

/// Takes the bytes of a value from `room`. Returns `false` if the value exceeds a limit.
pub(super) fn take_room(
    endpoint: &Endpoint,
    kind: ApplicationState,
    value: &VersionedValue,
    room: &mut usize,
) -> bool {
    let former = endpoint.states.get(&kind).map_or(0, |former| former.value.len());
    let added = value.value.len();
    let left = room.saturating_add(former).checked_sub(added);
    let of_endpoint = bytes_of(endpoint) - former + added;
    let Some(left) = left.filter(|_| of_endpoint <= MAX_ENDPOINT_BYTES) else { return false };
    *room = left;
    true
}

fn bytes_of(endpoint: &Endpoint) -> usize {
    endpoint.states.values().map(|value| value.value.len()).sum()
}
