//! Hints, batches of the batch log, and increments of counters.

use bytes::{BufMut, Bytes};
use espalier_types::vint;
use uuid::Uuid;

use super::{Mutation, Tables};
use crate::{
    error::Result,
    input::Input,
    output::{put_utf, put_vint_bytes},
};

/// A write that a coordinator has kept for a replica that did not answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    /// The host id of the replica.
    pub host: Uuid,
    /// The time at which the coordinator made the hint, in ms since 1970.
    pub created_ms: i64,
    /// The shortest grace period of the changed tables, in seconds. The node drops an older hint,
    /// because the node may have purged deletions that the hint would undo.
    pub gc_grace_seconds: u32,
    /// The write.
    pub mutation: Mutation,
}

impl Hint {
    pub(crate) fn decode(input: &mut Input<'_>, tables: &dyn Tables) -> Result<Self> {
        let (host, content) = (input.uuid()?, input.vint_bytes()?);
        Input::whole(&content, |input| {
            let (created_ms, gc_grace_seconds) = (input.i64()?, input.count()?);
            let mutation = Mutation::decode(input, tables)?;
            Ok(Self { host, created_ms, gc_grace_seconds, mutation })
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(self.host.as_bytes());
        let mut content = Vec::new();
        content.put_i64(self.created_ms);
        vint::write_unsigned(self.gc_grace_seconds.into(), &mut content);
        self.mutation.encode(&mut content)?;
        put_vint_bytes(&content, out);
        Ok(())
    }
}

/// A logged batch. Two nodes keep it until its coordinator has applied it.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The id, a UUID of version 1.
    pub id: Uuid,
    /// The time at which the coordinator made the batch, in µs since 1970.
    pub created_us: i64,
    /// The number of mutations.
    pub count: u32,
    /// The serialised mutations, each after its vint length; see [`Batch::mutations`].
    pub encoded: Bytes,
}

impl Batch {
    pub(crate) fn decode(input: &mut Input<'_>) -> Result<Self> {
        let (id, created_us) = (input.uuid()?, input.i64()?);
        let count = input.count()?;
        let encoded = input.clone().take(input.remaining())?;
        for _ in 0..count {
            input.vint_bytes()?;
        }
        let length = encoded.len() - input.remaining();
        Ok(Self { id, created_us, count, encoded: encoded.slice(..length) })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.id.as_bytes());
        out.put_i64(self.created_us);
        vint::write_unsigned(self.count.into(), out);
        out.extend_from_slice(&self.encoded);
    }

    /// Makes a batch of serialised mutations.
    pub fn of_parts(id: Uuid, created_us: i64, parts: &[Bytes]) -> Self {
        let mut encoded = Vec::new();
        parts.iter().for_each(|part| put_vint_bytes(part, &mut encoded));
        Self { id, created_us, count: parts.len() as u32, encoded: encoded.into() }
    }

    /// Returns the serialised mutations, each without its length.
    pub fn parts(&self) -> Vec<Bytes> {
        let mut batch = Input::new(&self.encoded);
        // The lengths are valid: `decode` has read them, or `of_parts` has written them.
        (0..self.count).map_while(|_| batch.vint_bytes().ok()).collect()
    }

    /// Decodes the mutations.
    ///
    /// # Errors
    ///
    /// Fails if a mutation does not follow the format, or changes a table or column that does not
    /// exist.
    pub fn mutations(&self, tables: &dyn Tables) -> Result<Vec<Mutation>> {
        let decode = |batch: &mut Input<'_>| {
            let bytes = batch.vint_bytes()?;
            Input::whole(&bytes, |input| Mutation::decode(input, tables))
        };
        Input::whole(&self.encoded, |batch| batch.list(self.count, decode))
    }
}

/// An increment of counters. The replica that receives it leads the write.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterMutation {
    /// The increments.
    pub mutation: Mutation,
    /// The name of the consistency level (`QUORUM`, …).
    pub consistency: String,
}

impl CounterMutation {
    pub(crate) fn decode(input: &mut Input<'_>, tables: &dyn Tables) -> Result<Self> {
        Ok(Self { mutation: Mutation::decode(input, tables)?, consistency: input.utf()? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        self.mutation.encode(out)?;
        put_utf(&self.consistency, out)
    }
}
