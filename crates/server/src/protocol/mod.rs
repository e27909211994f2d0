//! The CQL native protocol, versions 3 to 5, from the server's side. The module is sans-IO: it
//! decodes bytes to requests and encodes responses as bytes, but opens no socket and reads no
//! clock.
//!
//! | layer | in | out |
//! | --- | --- | --- |
//! | segments (v5, after STARTUP): checksums, LZ4 | [`segment`] | [`segment`] |
//! | envelopes: header; bodies, before v5 with LZ4 or Snappy | [`Decoder`] | [`SendBuffer`] |
//! | envelopes of large answers, in pieces | | [`LargeResponse`] |
//! | messages | [`request`] | [`response`] |
//!
//! Invariants:
//! - No input panics. Malformed input yields an error that names the wrong field, if there is one,
//!   and maps to an ERROR response.
//! - A request borrows from the body of its envelope: decoding copies no value and no string.
//! - Memory: a decoder holds at most one envelope of `max_frame_size` bytes besides the caller's
//!   buffer, and no length field makes it allocate more than that.
//!
//! Sources: `native_protocol_v4.spec` and `native_protocol_v5.spec` of Apache Cassandra. Where a
//! specification leaves something open (8-byte headers of versions 1 and 2, the seed of the CRC32,
//! the order of tracing id and warnings) the node does the same as Cassandra 5.0 on the wire.

mod checksum;
mod compression;
mod consistency;
mod decoder;
mod error;
mod event;
mod header;
mod large_response;
mod opcode;
mod reader;
pub mod request;
pub mod response;
pub mod segment;
mod send_buffer;
mod version;
mod writer;

pub use compression::Compression;
pub use consistency::Consistency;
pub use decoder::{Decoder, Envelope};
pub use error::{DecodeError, DecodeFailure};
pub use event::{EventType, EventTypes};
pub use header::{Flags, HEADER_LENGTH, Header, StreamId};
pub use large_response::{LARGE_CONTENT, LargeResponse, MAX_PIECE};
pub use opcode::Opcode;
pub use request::Request;
pub use response::Response;
pub use send_buffer::{ResponseExtras, SendBuffer};
pub use version::ProtocolVersion;

/// Default of `native_transport_max_frame_size`: the longest body of a request, in bytes.
pub const DEFAULT_MAX_FRAME_SIZE: usize = 16 * 1024 * 1024;
