//! The parameters of a message, such as addresses to forward to, the session of a trace, and
//! warnings of reads.

use std::net::SocketAddr;

use bytes::Bytes;
use espalier_types::vint;
use uuid::Uuid;

use super::Header;
use crate::{error::Result, input::Input, output::put_address};

/// A parameter as the message has it. Its number may be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Cassandra's number, see [`ParameterKind`].
    pub kind: u32,
    /// The serialised value.
    pub value: Bytes,
}

/// Cassandra's numbers of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are Cassandra's")]
pub enum ParameterKind {
    ForwardTo = 0,
    RespondTo = 1,
    TraceSession = 5,
    TraceType = 6,
    TombstoneFail = 8,
    TombstoneWarning = 9,
    LocalReadSizeFail = 10,
    LocalReadSizeWarn = 11,
    RowIndexReadSizeFail = 12,
    RowIndexReadSizeWarn = 13,
    CustomMap = 14,
    SnapshotRanges = 15,
    TooManyReferencedIndexesWarn = 16,
    TooManyReferencedIndexesFail = 17,
}

impl Parameter {
    /// Makes a parameter that is a be32, as the numbers of tombstones and of indexes are.
    pub fn of_i32(kind: ParameterKind, value: i32) -> Self {
        Self { kind: kind as u32, value: Bytes::copy_from_slice(&value.to_be_bytes()) }
    }

    /// Makes the parameter that names another node to respond to.
    pub fn respond_to(address: SocketAddr) -> Self {
        let mut value = Vec::new();
        put_address(address, &mut value);
        Self { kind: ParameterKind::RespondTo as u32, value: value.into() }
    }

    /// Makes the parameter that names the nodes to which the message is forwarded, each with the id
    /// of its message.
    pub fn forward_to(targets: &[(SocketAddr, u64)]) -> Self {
        let mut value = Vec::new();
        vint::write_unsigned(targets.len() as u64, &mut value);
        for (address, id) in targets {
            put_address(*address, &mut value);
            vint::write_unsigned(*id, &mut value);
        }
        Self { kind: ParameterKind::ForwardTo as u32, value: value.into() }
    }
}

impl Header {
    /// Reads the value of a parameter, if the message has it.
    fn read<T>(
        &self,
        kind: ParameterKind,
        read: impl FnOnce(&mut Input<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let found = self.parameters.iter().find(|parameter| parameter.kind == kind as u32);
        found.map(|parameter| Input::whole(&parameter.value, read)).transpose()
    }

    /// Returns the nodes to which the receiver forwards the message, each with the id of its
    /// message.
    ///
    /// # Errors
    ///
    /// Fails if the parameter does not follow the format.
    pub fn forward_to(&self) -> Result<Vec<(SocketAddr, u64)>> {
        let targets = self.read(ParameterKind::ForwardTo, |input| {
            let count = input.count()?;
            input.list(count, |input| Ok((input.address()?, input.vint()?)))
        });
        Ok(targets?.unwrap_or_default())
    }

    /// Returns the node to respond to, if it is not the sender.
    ///
    /// # Errors
    ///
    /// Fails if the parameter does not follow the format.
    pub fn respond_to(&self) -> Result<Option<SocketAddr>> {
        self.read(ParameterKind::RespondTo, |input| input.address())
    }

    /// Returns the session of a traced request.
    ///
    /// # Errors
    ///
    /// Fails if the parameter does not follow the format.
    pub fn trace_session(&self) -> Result<Option<Uuid>> {
        self.read(ParameterKind::TraceSession, |input| input.uuid())
    }

    /// Returns the parameters that extensions of Cassandra have added, by name.
    ///
    /// # Errors
    ///
    /// Fails if the parameter does not follow the format.
    pub fn custom_parameters(&self) -> Result<Vec<(String, Bytes)>> {
        let custom = self.read(ParameterKind::CustomMap, |input| {
            let count = input.count()?;
            input.list(count, |input| Ok((input.utf()?, input.vint_bytes()?)))
        });
        Ok(custom?.unwrap_or_default())
    }
}
