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
        /// True if neither unrepaired data nor a pending repair makes the digest doubtful.
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
    Input::whole(data, |input| {
        // In older releases, this byte was 1 in an answer for Thrift.
        if input.boolean()? {
            return Err(DecodeError::Unsupported("an answer for Thrift"));
        }
        let mut partitions = Vec::new();
        while input.boolean()? {
            let fetched = command.columns.fetched();
            partitions.push(Partition::decode(input, &command.table, fetched)?);
        }
        Ok(partitions)
    })
}

/// Serialises the partitions of an answer, one after the other.
pub(crate) struct DataWriter(Vec<u8>);

impl Default for DataWriter {
    fn default() -> Self {
        // In older releases, this byte was 1 in an answer for Thrift.
        Self(vec![0])
    }
}

impl DataWriter {
    /// Appends a partition.
    pub fn add(&mut self, command: &ReadCommand, partition: &Partition) -> Result<(), String> {
        put_boolean(true, &mut self.0);
        partition.encode(&command.table, command.columns.fetched(), &mut self.0)
    }

    /// Appends a partition, and yields between rows.
    pub async fn add_and_yield(
        &mut self,
        command: &ReadCommand,
        partition: Partition,
    ) -> Result<(), String> {
        put_boolean(true, &mut self.0);
        let fetched = command.columns.fetched();
        partition.encode_and_yield(&command.table, fetched, &mut self.0).await
    }

    /// Ends the partitions, and returns their bytes.
    pub fn finish(mut self) -> Vec<u8> {
        put_boolean(false, &mut self.0);
        self.0
    }
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
    let mut writer = DataWriter::default();
    partitions.iter().try_for_each(|partition| writer.add(command, partition))?;
    Ok(writer.finish())
}
