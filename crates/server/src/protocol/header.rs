//! The header of an envelope: nine bytes, the same in versions 3 to 5.
//!
//! ```text
//!   0        1        2      3        4        5 .. 8
//! | version | flags | stream (i16) | opcode | body length (u32) |
//! ```
//! The top bit of the version byte is the direction: set in responses.

use super::opcode::Opcode;
use super::version::ProtocolVersion;

/// Length of an envelope's header, in bytes.
pub const HEADER_LENGTH: usize = 9;

/// The number that connects a response to its request. Clients choose numbers from 0; the server's
/// own events carry -1.
pub type StreamId = i16;

/// The flags of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The body is compressed. From version 5 on, the segment is compressed instead and the flag is
    /// ignored.
    pub const COMPRESSED: u8 = 0x01;
    /// Request: the client wants a trace. Response: the body begins with the tracing id.
    pub const TRACING: u8 = 0x02;
    /// The body carries a map of bytes for a custom query handler.
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    /// Response: the body carries a list of warnings.
    pub const WARNING: u8 = 0x08;
    /// Request: the client accepts a beta version of the protocol. Ignored: no supported version is
    /// beta.
    pub const USE_BETA: u8 = 0x10;

    /// Returns whether `flag` is set.
    pub fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
}

/// The header of a request, checked by the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the request; the response carries it too.
    pub version: ProtocolVersion,
    /// Flags of the request.
    pub flags: Flags,
    /// Stream of the request and of its answer.
    pub stream: StreamId,
    /// Kind of the request.
    pub opcode: Opcode,
}

/// A header as it is on the wire, before any check.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawHeader {
    pub version_byte: u8,
    pub flags: Flags,
    pub stream: StreamId,
    pub opcode: u8,
    pub body_length: u32,
}

impl RawHeader {
    /// Reads the nine bytes; `None` if there are fewer.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[version_byte, flags, s0, s1, opcode, l0, l1, l2, l3] =
            bytes.first_chunk::<HEADER_LENGTH>()?;
        Some(Self {
            version_byte,
            flags: Flags(flags),
            stream: i16::from_be_bytes([s0, s1]),
            opcode,
            body_length: u32::from_be_bytes([l0, l1, l2, l3]),
        })
    }

    /// Returns the length of the whole envelope in bytes.
    pub fn envelope_length(&self) -> usize {
        HEADER_LENGTH + self.body_length as usize
    }
}

/// Appends the header of a response with a body length of zero.
pub(super) fn begin(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    flags: Flags,
    stream: StreamId,
    opcode: Opcode,
) {
    let [s0, s1] = stream.to_be_bytes();
    out.extend_from_slice(&[version.number() | 0x80, flags.0, s0, s1, opcode as u8, 0, 0, 0, 0]);
}

/// Writes the length of the body into the header at the start of `envelope`.
pub(super) fn set_body_length(envelope: &mut [u8], length: usize) {
    envelope[HEADER_LENGTH - 4..HEADER_LENGTH].copy_from_slice(&(length as u32).to_be_bytes());
}
