//! Cassandra 5.0's protocol between nodes. It makes a node of Espalier a member of a ring of
//! unmodified Cassandra nodes. The member stores writes and answers reads (docs/ring.md).
//!
//! | module | content |
//! | --- | --- |
//! | [`handshake`] | the first bytes of a connection |
//! | [`frame`] | splits messages into frames, and joins frames to messages |
//! | [`message`] | verbs, the header of a message and its parameters |
//! | [`payload`] | the content of messages: mutations, reads, gossip, schema, Paxos |
//! | [`digest`] | the digest of a read, bit for bit as Cassandra computes it |
//! | [`replica`] | the answer to a read, from the node's storage |
//! | [`paxos`] | conditional writes: promises, proposals and commits, in the node's storage |
//! | [`ring`] | a node as a member of a ring: connections, gossip, answers |
//!
//! The codec consists of all modules but [`replica`], [`paxos`] and [`ring`]. It opens no socket
//! and reads no clock.
//!
//! Invariants:
//! - No input causes a panic. Malformed input yields an error that describes the fault.
//! - A message of Cassandra that decodes without an error encodes to the same bytes, unless it has
//!   cells of a dropped column.
//! - Memory: decoded keys and values share the memory of the message. No memory is allocated by a
//!   length field alone. A decoded message may take some 64 bytes for each of its encoded bytes
//!   (cells of two bytes are among the worst), so [`ring`] decodes only payloads that it serves,
//!   and bounds their length.
//!
//! Versions: 12 (Cassandra 4.0, 4.1, and 5.0 in its default compatibility mode) and 13 (5.0 with
//! `storage_compatibility_mode: NONE`). Sources: Cassandra 5.0.9; decision 0037.

pub mod digest;
mod error;
pub mod frame;
pub mod handshake;
mod input;
pub mod message;
mod output;
pub mod paxos;
pub mod payload;
pub mod replica;
pub mod ring;
mod version;

pub use error::DecodeError;
pub use version::MessagingVersion;
