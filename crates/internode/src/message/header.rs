//! The header of a message.

use bytes::{BufMut, Bytes};
use espalier_types::vint;

use super::{Parameter, Verb};
use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::put_vint_bytes,
};

/// Maximum number of parameters of a message. Arbitrary; Cassandra 5.0 has fewer than 20 types.
const MAX_PARAMETERS: u64 = 64;

/// The flags of a message. Unknown flags stay set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFlags(pub u32);

impl MessageFlags {
    /// The sender wants an answer even if the request fails.
    pub const CALL_BACK_ON_FAILURE: Self = Self(1);
    /// The coordinator compares the digests of repaired data.
    pub const TRACK_REPAIRED_DATA: Self = Self(1 << 1);
    /// The answer to a read that exceeds a limit reports it by a parameter, as a warning or
    /// failure.
    pub const TRACK_WARNINGS: Self = Self(1 << 2);

    /// Returns whether all flags of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The header of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number by which the sender recognises the response.
    pub id: u64,
    /// The time at which the sender made the message, in ms: the low 32 bits of its wall clock.
    pub created_ms: u32,
    /// The time for which the sender waits, in ms after the creation.
    pub expires_in_ms: u64,
    /// The verb.
    pub verb: Verb,
    /// The flags.
    pub flags: MessageFlags,
    /// The parameters in the order of the message.
    pub parameters: Vec<Parameter>,
}

/// A message whose payload is not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The header.
    pub header: Header,
    /// The payload.
    pub payload: Bytes,
}

impl Message {
    /// Decodes the envelope of a whole message.
    ///
    /// # Errors
    ///
    /// Fails if the bytes do not follow the format, or are longer than the message.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        Input::whole(bytes, |input| {
            Ok(Self { header: Header::decode(input)?, payload: input.vint_bytes()? })
        })
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.header.encode(out);
        put_vint_bytes(&self.payload, out);
    }
}

impl Header {
    /// Returns the length of the message at the front of `bytes`, including its header; `None` if
    /// the header is incomplete.
    ///
    /// # Errors
    ///
    /// Fails if a length exceeds 31 bits, or if there are more than 64 parameters.
    pub fn message_length(bytes: &[u8]) -> Result<Option<u64>> {
        match length_of(bytes) {
            Ok(length) => Ok(Some(length)),
            Err(DecodeError::Ended) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the verb of the message at the front of `bytes`.
    ///
    /// # Errors
    ///
    /// Fails if the verb has not arrived, or exceeds 32 bits.
    pub fn verb_of(bytes: &[u8]) -> Result<Verb> {
        let mut rest = bytes;
        skip_vint(&mut rest)?;
        skip(&mut rest, 4)?;
        skip_vint(&mut rest)?;
        let verb = u32::try_from(skip_vint(&mut rest)?);
        verb.map(Verb).map_err(|_| DecodeError::Malformed("a verb exceeds 32 bits"))
    }

    fn decode(input: &mut Input<'_>) -> Result<Self> {
        let id = input.vint()?;
        let created_ms = input.u32()?;
        let expires_in_ms = input.vint()?;
        let verb = Verb(input.count()?);
        let flags = MessageFlags(input.count()?);
        let count = parameter_count(input.vint()?)?;
        let parameters = input.list(count, |input| {
            Ok(Parameter { kind: input.count()?, value: input.vint_bytes()? })
        })?;
        Ok(Self { id, created_ms, expires_in_ms, verb, flags, parameters })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        vint::write_unsigned(self.id, out);
        out.put_u32(self.created_ms);
        vint::write_unsigned(self.expires_in_ms, out);
        vint::write_unsigned(self.verb.0.into(), out);
        vint::write_unsigned(self.flags.0.into(), out);
        vint::write_unsigned(self.parameters.len() as u64, out);
        for Parameter { kind, value } in &self.parameters {
            vint::write_unsigned((*kind).into(), out);
            put_vint_bytes(value, out);
        }
    }
}

fn length_of(bytes: &[u8]) -> Result<u64> {
    let mut rest = bytes;
    skip_vint(&mut rest)?;
    skip(&mut rest, 4)?;
    for _ in 0..3 {
        skip_vint(&mut rest)?;
    }
    for _ in 0..parameter_count(skip_vint(&mut rest)?)? {
        skip_vint(&mut rest)?;
        let length = bounded(skip_vint(&mut rest)?)?;
        skip(&mut rest, length)?;
    }
    let payload = bounded(skip_vint(&mut rest)?)?;
    Ok((bytes.len() - rest.len()) as u64 + payload)
}

fn parameter_count(count: u64) -> Result<u32> {
    if count <= MAX_PARAMETERS {
        Ok(count as u32)
    } else {
        Err(DecodeError::Malformed("a message has more than 64 parameters"))
    }
}

fn bounded(length: u64) -> Result<u64> {
    if length <= i32::MAX as u64 {
        Ok(length)
    } else {
        Err(DecodeError::Malformed("a length exceeds 31 bits"))
    }
}

fn skip(rest: &mut &[u8], length: u64) -> Result<()> {
    *rest = rest.get(length as usize..).ok_or(DecodeError::Ended)?;
    Ok(())
}

fn skip_vint(rest: &mut &[u8]) -> Result<u64> {
    vint::read_unsigned(rest).map_err(|_| DecodeError::Ended)
}
