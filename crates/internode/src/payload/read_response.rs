//! The answer of a replica to a read: the rows, or their digest.

use bytes::Bytes;

use super::{Partition, ReadCommand};
use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::{put_boolean, put_vint_bytes},
};

/// The answer of a replica to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadResponse {
    /// The MD5 of the rows ([`crate::digest`]).
    Digest(Bytes),
    /// The rows.
    Data {
        /// The digest of the repaired data; empty if the replica does not track it.
        repaired_digest: Bytes,
        /// Whether no unrepaired data or pending repair makes the digest doubtful.
        is_conclusive: bool,
        /// The serialised partitions, see [`ReadResponse::partitions`].
        data: Bytes,
    },
}

impl ReadResponse {
    /// Makes the answer of a replica that does not track repaired data.
    ///
    /// # Errors
    ///
    /// Fails if the partitions have columns that the command does not fetch.
    pub fn of_partitions(command: &ReadCommand, partitions: &[Partition]) -> Result<Self, String> {
        let data = encode_partitions(command, partitions)?.into();
        Ok(Self::Data { repaired_digest: Bytes::new(), is_conclusive: true, data })
    }

    pub(crate) fn decode(input: &mut Input<'_>) -> Result<Self> {
        let digest = input.vint_bytes()?;
        if !digest.is_empty() {
            return Ok(Self::Digest(digest));
        }
        Ok(Self::Data {
            repaired_digest: input.vint_bytes()?,
            is_conclusive: input.boolean()?,
            data: input.vint_bytes()?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Digest(digest) => put_vint_bytes(digest, out),
            Self::Data { repaired_digest, is_conclusive, data } => {
                put_vint_bytes(&[], out);
                put_vint_bytes(repaired_digest, out);
                put_boolean(*is_conclusive, out);
                put_vint_bytes(data, out);
            }
        }
    }

    /// Decodes the partitions of an answer to `command`; a digest has none.
    ///
    /// # Errors
    ///
    /// Fails if the data does not follow the format.
    pub fn partitions(&self, command: &ReadCommand) -> Result<Vec<Partition>> {
        match self {
            Self::Digest(_) => Ok(Vec::new()),
            Self::Data { data, .. } => decode_partitions(command, data),
        }
    }
}

fn decode_partitions(command: &ReadCommand, data: &Bytes) -> Result<Vec<Partition>> {
    let mut input = Input::new(data);
    // Formerly whether the read came from Thrift.
    if input.boolean()? {
        return Err(DecodeError::Unsupported("an answer for Thrift"));
    }
    let mut partitions = Vec::new();
    while input.boolean()? {
        let fetched = command.columns.fetched();
        partitions.push(Partition::decode(&mut input, &command.table, fetched)?);
    }
    input.end()?;
    Ok(partitions)
}

/// Serialises the partitions of an answer.
///
/// # Errors
///
/// Fails if the partitions have columns that the command does not fetch.
pub fn encode_partitions(
    command: &ReadCommand,
    partitions: &[Partition],
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    put_boolean(false, &mut out);
    for partition in partitions {
        put_boolean(true, &mut out);
        partition.encode(&command.table, command.columns.fetched(), &mut out)?;
    }
    put_boolean(false, &mut out);
    Ok(out)
}
