//! Counts of a member of a ring.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of a member. Other threads may read them.
#[derive(Debug, Default)]
pub struct RingMetrics {
    received: AtomicU64,
    sent: AtomicU64,
    refused: AtomicU64,
    broken: AtomicU64,
    dropped: AtomicU64,
    read: AtomicU64,
    expired: AtomicU64,
}

impl RingMetrics {
    pub(super) fn count_received(&self) {
        self.received.fetch_add(1, Relaxed);
    }

    pub(super) fn count_sent(&self, messages: u64) {
        self.sent.fetch_add(messages, Relaxed);
    }

    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn count_broken(&self) {
        self.broken.fetch_add(1, Relaxed);
    }

    pub(super) fn count_dropped(&self, messages: u64) {
        self.dropped.fetch_add(messages, Relaxed);
    }

    pub(super) fn count_read(&self) {
        self.read.fetch_add(1, Relaxed);
    }

    pub(super) fn count_expired(&self) {
        self.expired.fetch_add(1, Relaxed);
    }

    /// Returns the name, the description and the value of each count.
    pub fn counts(&self) -> [(&'static str, &'static str, u64); 7] {
        let get = |count: &AtomicU64| count.load(Relaxed);
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
