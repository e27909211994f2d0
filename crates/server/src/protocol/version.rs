//! Protocol versions, and the answer to a client with an unsupported version.
//!
//! A driver starts with the newest version that it knows and steps down when the answer is a
//! PROTOCOL error with a message that contains "unsupported protocol version" (all drivers look for
//! it; gocql also reads the list that follows). The answer must carry a version that the client can
//! read, so an old client is answered in its own version: the body of ERROR has had the same form
//! since version 1.

use super::header::StreamId;
use super::opcode::Opcode;
use super::writer::WireWrite;

/// A version of the native protocol that this node supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ProtocolVersion {
    /// Version 3, for old drivers: version 4 without unset values, warnings, custom payloads, the
    /// partition key's positions in PREPARE, and some types and errors.
    V3 = 3,
    /// Version 4: envelopes without segments, each body compressed or not.
    V4 = 4,
    /// Version 5: envelopes travel in checksummed segments once STARTUP is answered.
    V5 = 5,
}

impl ProtocolVersion {
    /// The newest version, used before the client has sent its own.
    pub const NEWEST: Self = Self::V5;
    /// The names that SUPPORTED lists under `PROTOCOL_VERSIONS`.
    pub const NAMES: [&'static str; 3] = ["3/v3", "4/v4", "5/v5"];

    /// Returns the version in the first byte of a header (its low seven bits).
    ///
    /// # Errors
    ///
    /// Returns the number if the node does not support that version.
    pub fn from_byte(byte: u8) -> Result<Self, u8> {
        match byte & 0x7f {
            3 => Ok(Self::V3),
            4 => Ok(Self::V4),
            5 => Ok(Self::V5),
            other => Err(other),
        }
    }

    /// Returns the number in the header.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the message that drivers look for when they negotiate the version.
    pub fn unsupported_message(requested: u8) -> String {
        format!(
            "Invalid or unsupported protocol version ({requested}); supported versions are ({})",
            Self::NAMES.join(", ")
        )
    }
}

/// Appends a whole ERROR envelope that answers a request in the unsupported version `requested`.
pub(super) fn write_unsupported(out: &mut Vec<u8>, requested: u8, stream: StreamId, message: &str) {
    let reply = match requested {
        1..=2 => requested,
        _ => ProtocolVersion::NEWEST.number(),
    };
    out.extend_from_slice(&[reply | 0x80, 0]);
    match i8::try_from(stream) {
        Ok(short) if reply < 3 => out.push(short as u8), // versions 1 and 2: one byte of stream
        _ => out.extend_from_slice(&stream.to_be_bytes()),
    }
    out.push(Opcode::Error as u8);
    let length_at = out.len();
    out.put_u32(0);
    out.put_u32(0x000A);
    out.put_string(message);
    let length = (out.len() - length_at - 4) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
}
