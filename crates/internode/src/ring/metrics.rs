//! Counts of a member of a ring.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of a member. Other threads may read them.
#[derive(Debug, Default)]
pub struct RingMetrics {
    pub(super) received: Count,
    pub(super) sent: Count,
    pub(super) refused: Count,
    pub(super) broken: Count,
    pub(super) dropped: Count,
    pub(super) read: Count,
    pub(super) expired: Count,
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }
}

impl RingMetrics {
    /// Returns the name, the description and the value of each count.
    pub fn counts(&self) -> [(&'static str, &'static str, u64); 7] {
        let get = |count: &Count| count.0.load(Relaxed);
        [
            ("espalier_ring_messages_received", "Messages of peers.", get(&self.received)),
            ("espalier_ring_messages_sent", "Messages to peers.", get(&self.sent)),
            (
                "espalier_ring_requests_refused",
                "Requests of peers that were not carried out.",
                get(&self.refused),
            ),
            (
                "espalier_ring_connections_broken",
                "Connections of peers that were refused, or closed because of their bytes.",
                get(&self.broken),
            ),
            (
                "espalier_ring_messages_dropped",
                "Messages to peers that could not be sent.",
                get(&self.dropped),
            ),
            ("espalier_ring_reads_answered", "Reads of peers that were answered.", get(&self.read)),
            (
                "espalier_ring_reads_expired",
                "Requests of peers that were dropped, because the coordinator had given up.",
                get(&self.expired),
            ),
        ]
    }
}
