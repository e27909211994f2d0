//! The handshake. The initiator of a connection describes it, and the acceptor chooses the version.
//!
//! ```text
//! initiate  be32 CA552DFA, be32 flags, address with port, be32 CRC32
//! flags     kind (2 bits) | framing's low bit | streaming | framing's high bit | 0 (3) |
//!           minimum version (8) | minimum version (8) | maximum version (8)
//! accept    be32 maximum version, be32 version to use, be32 CRC32
//! ```
//!
//! The CRC32 is the same as in frames, but big-endian. Only the initiator sends messages over a
//! connection; the acceptor answers over a connection of its own.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes};
use espalier_server::protocol::segment::crc32;

use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::put_address,
};

const MAGIC: u32 = 0xCA55_2DFA;
const STREAMING: u32 = 1 << 3;

/// The kind of a connection. Each kind has a queue of its own, so that short messages do not wait
/// behind long ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionKind {
    /// Gossip and other messages that must not wait.
    Urgent,
    /// Messages of at most 64 KiB.
    Small,
    /// All other messages.
    Large,
    /// Files; without frames.
    Streaming,
}

/// The form of a connection's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No checksums; only streaming uses this form.
    Unprotected,
    /// LZ4 blocks with checksums.
    Lz4,
    /// Checksums without compression.
    Crc,
}

impl Framing {
    fn number(self) -> u32 {
        match self {
            Self::Unprotected => 0,
            Self::Lz4 => 1,
            Self::Crc => 2,
        }
    }
}

/// The first message of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initiate {
    /// The least version that the initiator speaks.
    pub min_version: u8,
    /// The greatest version that the initiator speaks.
    pub max_version: u8,
    /// The kind of the connection.
    pub kind: ConnectionKind,
    /// The form of its frames.
    pub framing: Framing,
    /// The broadcast address of the initiator.
    pub from: SocketAddr,
}

impl Initiate {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let kind = match self.kind {
            ConnectionKind::Urgent => 1,
            ConnectionKind::Small => 2,
            ConnectionKind::Large => 3,
            ConnectionKind::Streaming => STREAMING,
        };
        let framing = self.framing.number();
        let (min, max) = (u32::from(self.min_version), u32::from(self.max_version));
        out.put_u32(MAGIC);
        out.put_u32(
            kind | (framing & 1) << 2 | (framing & 2) << 3 | min << 8 | min << 16 | max << 24,
        );
        put_address(self.from, out);
        let checksum = crc32(&out[start..]);
        out.put_u32(checksum);
    }

    /// Decodes the message at the front of `bytes`, and returns its length too; `None` if it has
    /// not arrived as a whole.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are of another protocol, or of Cassandra before 4.0, if they have an
    /// unknown framing or form of address, or if the checksum does not match.
    pub fn decode(bytes: &Bytes) -> Result<Option<(Self, usize)>> {
        unless_ended(Self::decode_whole(&mut Input::new(bytes), bytes))
    }

    fn decode_whole(input: &mut Input<'_>, bytes: &Bytes) -> Result<(Self, usize)> {
        if input.u32()? != MAGIC {
            return Err(DecodeError::Malformed("the connection does not begin with a handshake"));
        }
        let flags = input.u32()?;
        let [max_version, min_version, requested, bits] = flags.to_be_bytes();
        if requested < 12 || max_version < 12 {
            return Err(DecodeError::Unsupported("a handshake of Cassandra before 4.0"));
        }
        let framing = match bits >> 2 & 1 | bits >> 3 & 2 {
            0 => Framing::Unprotected,
            1 => Framing::Lz4,
            2 => Framing::Crc,
            _ => return Err(DecodeError::Malformed("a connection of unknown framing")),
        };
        let kind = match bits & 3 {
            _ if flags & STREAMING != 0 => ConnectionKind::Streaming,
            1 => ConnectionKind::Urgent,
            2 => ConnectionKind::Small,
            3 => ConnectionKind::Large,
            _ => return Err(DecodeError::Unsupported("a connection of Cassandra before 4.0")),
        };
        let from = input.address()?;
        check_sum(input, bytes)?;
        Ok((Self { min_version, max_version, kind, framing, from }, input.offset()))
    }
}

/// The answer to [`Initiate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The greatest version that the acceptor speaks.
    pub max_version: u32,
    /// The version of the messages on this connection.
    pub use_version: u32,
}

impl Accept {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32(self.max_version);
        out.put_u32(self.use_version);
        let checksum = crc32(&out[start..]);
        out.put_u32(checksum);
    }

    /// Decodes the message at the front of `bytes`, and returns its length too; `None` if it has
    /// not arrived as a whole.
    ///
    /// # Errors
    ///
    /// Fails if the checksum does not match.
    pub fn decode(bytes: &Bytes) -> Result<Option<(Self, usize)>> {
        let decode = |input: &mut Input<'_>| {
            let (max_version, use_version) = (input.u32()?, input.u32()?);
            check_sum(input, bytes)?;
            Ok((Self { max_version, use_version }, input.offset()))
        };
        unless_ended(decode(&mut Input::new(bytes)))
    }
}

/// Reads the checksum of the bytes before it.
fn check_sum(input: &mut Input<'_>, bytes: &Bytes) -> Result<()> {
    let computed = crc32(&bytes[..input.offset()]);
    match input.u32()? {
        read if read == computed => Ok(()),
        read => Err(DecodeError::Checksum { read, computed }),
    }
}

fn unless_ended<T>(decoded: Result<T>) -> Result<Option<T>> {
    match decoded {
        Ok(message) => Ok(Some(message)),
        Err(DecodeError::Ended) => Ok(None),
        Err(error) => Err(error),
    }
}
