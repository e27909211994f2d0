//! Bounds the memory of messages that have arrived and whose work is not done.
//!
//! A message reserves its bytes when its length is known, and releases them when its work is done:
//! a write after its sync, a conditional write after its answer, a read when its rows are read, a
//! schema before its merge, others at once. While a message waits for room, the node reads no more
//! from its connection. A message that is larger than the whole room waits until no other message
//! holds room.
//!
//! Messages on connections for urgent messages reserve nothing, so that gossip continues while
//! writes wait. They are small. The member refuses such a message if its payload would stay in
//! memory until later work is done.
//!
//! A write that the node forwards, or large gossip, also reserves its bytes in a room of the
//! receiving peer, and releases them when it is sent.

use std::{fmt, rc::Rc};

use espalier_runtime::sync::{Permit, Semaphore};

use crate::{frame::DEFAULT_MAX_MESSAGE_BYTES, handshake::ConnectionKind};

/// Maximum bytes of all messages whose work is not done. Arbitrary: two of the largest writes.
const MAX_BYTES: usize = 32 << 20;
/// Maximum bytes of those messages that came over one connection, as in Cassandra
/// (`internode_application_receive_queue_capacity`).
const MAX_BYTES_OF_CONNECTION: usize = 4 << 20;
/// Maximum length of an urgent message, in bytes. Arbitrary; Cassandra sends messages above 64 KiB
/// over another connection.
const MAX_URGENT_BYTES: usize = 256 << 10;

/// Maximum bytes that forwarded writes and large gossip reserve while they wait for one peer: as
/// many as the messages of one connection may reserve.
const MAX_FORWARDED_BYTES: usize = MAX_BYTES_OF_CONNECTION;

/// The room of the forwarded writes and the large gossip for one peer.
pub(super) struct ForwardRoom(Semaphore);

impl Default for ForwardRoom {
    fn default() -> Self {
        Self(Semaphore::new(MAX_FORWARDED_BYTES))
    }
}

impl ForwardRoom {
    /// Reserves the bytes of a write; a write that is larger than the room reserves the whole room.
    /// Returns `None` if the room has fewer bytes left.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let permit = self.0.try_acquire(bytes.min(MAX_FORWARDED_BYTES))?;
        Some(Reservation { permits: Some(Rc::new((permit, None))) })
    }
}

/// The room of all connections of a member.
#[derive(Clone)]
pub(super) struct Room(Semaphore);

/// The room of one connection.
pub(super) struct ConnectionRoom {
    /// The semaphores of this connection and of all; `None` for urgent messages.
    room: Option<(Semaphore, Semaphore)>,
}

/// Bytes that a message holds until all clones are dropped.
#[derive(Clone, Default)]
pub(super) struct Reservation {
    permits: Option<Rc<(Permit, Option<Permit>)>>,
}

impl fmt::Debug for Reservation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reservation").field("is_held", &self.is_held()).finish()
    }
}

impl Default for Room {
    fn default() -> Self {
        Self(Semaphore::new(MAX_BYTES))
    }
}

impl Room {
    pub fn connection(&self, kind: ConnectionKind) -> ConnectionRoom {
        let own = || Semaphore::new(MAX_BYTES_OF_CONNECTION);
        let is_urgent = kind == ConnectionKind::Urgent;
        ConnectionRoom { room: (!is_urgent).then(|| (own(), self.0.clone())) }
    }
}

impl Reservation {
    /// Returns whether the message has reserved its bytes. Urgent messages reserve none.
    pub fn is_held(&self) -> bool {
        self.permits.is_some()
    }
}

impl ConnectionRoom {
    /// Returns the maximum length of a message, in bytes.
    pub fn max_message_bytes(&self) -> usize {
        if self.room.is_some() { DEFAULT_MAX_MESSAGE_BYTES } else { MAX_URGENT_BYTES }
    }

    /// Reserves the bytes of a message.
    pub async fn reserve(&self, bytes: usize) -> Reservation {
        let Some((own, shared)) = &self.room else { return Reservation::default() };
        let own = own.acquire(bytes.min(MAX_BYTES_OF_CONNECTION)).await;
        let shared = shared.acquire(bytes.min(MAX_BYTES)).await;
        Reservation { permits: Some(Rc::new((own, Some(shared)))) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use espalier_runtime::{block_on, time};

    use super::*;

    async fn fits(room: &ConnectionRoom, bytes: usize) -> Option<Reservation> {
        time::timeout(Duration::from_millis(1), room.reserve(bytes)).await.ok()
    }

    #[test]
    fn messages_wait_for_room_and_gossip_does_not() {
        block_on(async {
            let all = Room::default();
            let small = all.connection(ConnectionKind::Small);
            let first = fits(&small, MAX_BYTES_OF_CONNECTION).await.unwrap();
            assert!(fits(&small, 1).await.is_none());
            // A large message waits until no other message has room.
            let large = all.connection(ConnectionKind::Large);
            assert!(fits(&large, DEFAULT_MAX_MESSAGE_BYTES).await.is_none());
            drop(first);
            let alone = fits(&large, DEFAULT_MAX_MESSAGE_BYTES).await.unwrap();
            assert!(fits(&small, 1).await.is_none());
            let urgent = all.connection(ConnectionKind::Urgent);
            assert!(!fits(&urgent, MAX_URGENT_BYTES).await.unwrap().is_held());
            drop(alone);
            assert!(fits(&small, 1).await.is_some());
        });
    }
}
