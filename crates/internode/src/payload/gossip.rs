//! Gossip: each node's generation, heartbeat and states, exchanged in three messages.
//!
//! A node sends SYN with the digests of all endpoints that it knows. Its peer answers with ACK: the
//! states that the node lacks, and digests of the endpoints whose states the peer lacks. The node
//! sends the latter states in ACK2.

use std::net::SocketAddr;

use bytes::BufMut;
use espalier_mutation::Token;

use crate::{
    error::{DecodeError, Result},
    input::Input,
    output::{put_address, put_utf},
};

/// The generation of an endpoint, and the greatest version of its states that a node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipDigest {
    /// The broadcast address of the endpoint.
    pub endpoint: SocketAddr,
    /// The time of the endpoint's start, in seconds since 1970.
    pub generation: i32,
    /// The greatest version of its states.
    pub max_version: i32,
}

/// The first message of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipSyn {
    /// The name of the cluster. A node of another cluster does not answer.
    pub cluster: String,
    /// The partitioner's class.
    pub partitioner: String,
    /// The endpoints that the sender knows.
    pub digests: Vec<GossipDigest>,
}

/// The second message of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GossipAck {
    /// The endpoints of which the sender wants the states that are newer than the digests.
    pub digests: Vec<GossipDigest>,
    /// States that the receiver lacks.
    pub states: Vec<(SocketAddr, EndpointState)>,
}

/// The third message of an exchange: the states that the receiver wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GossipAck2 {
    /// The states.
    pub states: Vec<(SocketAddr, EndpointState)>,
}

/// The state of an endpoint, or the part of it that is newer than a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointState {
    /// The time of the endpoint's start, in seconds since 1970.
    pub generation: i32,
    /// The version of its heartbeat.
    pub heartbeat: i32,
    /// Its states in the order of the message.
    pub states: Vec<(ApplicationState, VersionedValue)>,
}

/// The value of a state, with the version at which the endpoint has set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedValue {
    /// The value.
    pub value: String,
    /// The version.
    pub version: i32,
}

/// The kind of a state. Messages encode the kind as its position in Cassandra's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are Cassandra's")]
pub enum ApplicationState {
    Status,
    Load,
    Schema,
    Dc,
    Rack,
    ReleaseVersion,
    RemovalCoordinator,
    InternalIp,
    RpcAddress,
    X11Padding,
    Severity,
    NetVersion,
    HostId,
    Tokens,
    RpcReady,
    InternalAddressAndPort,
    NativeAddressAndPort,
    StatusWithPort,
    SstableVersions,
    DiskUsage,
    IndexStatus,
    X1,
    X2,
    X3,
    X4,
    X5,
    X6,
    X7,
    X8,
    X9,
    X10,
}

impl ApplicationState {
    /// All kinds in Cassandra's order.
    pub const ALL: [Self; 31] = [
        Self::Status,
        Self::Load,
        Self::Schema,
        Self::Dc,
        Self::Rack,
        Self::ReleaseVersion,
        Self::RemovalCoordinator,
        Self::InternalIp,
        Self::RpcAddress,
        Self::X11Padding,
        Self::Severity,
        Self::NetVersion,
        Self::HostId,
        Self::Tokens,
        Self::RpcReady,
        Self::InternalAddressAndPort,
        Self::NativeAddressAndPort,
        Self::StatusWithPort,
        Self::SstableVersions,
        Self::DiskUsage,
        Self::IndexStatus,
        Self::X1,
        Self::X2,
        Self::X3,
        Self::X4,
        Self::X5,
        Self::X6,
        Self::X7,
        Self::X8,
        Self::X9,
        Self::X10,
    ];
}

impl GossipSyn {
    pub(crate) fn decode(input: &mut Input<'_>) -> Result<Self> {
        Ok(Self {
            cluster: input.utf()?,
            partitioner: input.utf()?,
            digests: decode_digests(input)?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        put_utf(&self.cluster, out)?;
        put_utf(&self.partitioner, out)?;
        encode_digests(&self.digests, out);
        Ok(())
    }
}

impl GossipAck {
    pub(crate) fn decode(input: &mut Input<'_>) -> Result<Self> {
        Ok(Self { digests: decode_digests(input)?, states: decode_states(input)? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        encode_digests(&self.digests, out);
        encode_states(&self.states, out)
    }
}

impl GossipAck2 {
    pub(crate) fn decode(input: &mut Input<'_>) -> Result<Self> {
        Ok(Self { states: decode_states(input)? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        encode_states(&self.states, out)
    }
}

impl EndpointState {
    /// Returns the value of a state.
    pub fn value(&self, kind: ApplicationState) -> Option<&str> {
        let found = self.states.iter().find(|(other, _)| *other == kind);
        found.map(|(_, value)| value.value.as_str())
    }

    /// Returns the status with its arguments; `None` if the endpoint has announced none.
    pub(crate) fn status(&self) -> Option<&str> {
        self.value(ApplicationState::StatusWithPort).or(self.value(ApplicationState::Status))
    }

    pub(crate) fn decode(input: &mut Input<'_>) -> Result<Self> {
        let (generation, heartbeat) = (input.i32()?, input.i32()?);
        let count = list_length(input)?;
        let states = input.list(count, |input| {
            let kind = ApplicationState::ALL.get(input.u32()? as usize).copied();
            let kind = kind.ok_or(DecodeError::Malformed("a state of unknown kind"))?;
            Ok((kind, VersionedValue { value: input.utf()?, version: input.i32()? }))
        })?;
        Ok(Self { generation, heartbeat, states })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), String> {
        out.put_i32(self.generation);
        out.put_i32(self.heartbeat);
        out.put_u32(self.states.len() as u32);
        for (kind, VersionedValue { value, version }) in &self.states {
            out.put_u32(*kind as u32);
            put_utf(value, out)?;
            out.put_i32(*version);
        }
        Ok(())
    }
}

/// Reads a be32 that is the length of a list.
pub(crate) fn list_length(input: &mut Input<'_>) -> Result<u32> {
    let length = input.u32()?;
    if length <= i32::MAX as u32 {
        Ok(length)
    } else {
        Err(DecodeError::Malformed("a list of negative length"))
    }
}

fn decode_digests(input: &mut Input<'_>) -> Result<Vec<GossipDigest>> {
    let count = list_length(input)?;
    input.list(count, |input| {
        let (endpoint, generation) = (input.address()?, input.i32()?);
        Ok(GossipDigest { endpoint, generation, max_version: input.i32()? })
    })
}

fn encode_digests(digests: &[GossipDigest], out: &mut Vec<u8>) {
    out.put_u32(digests.len() as u32);
    for digest in digests {
        put_address(digest.endpoint, out);
        out.put_i32(digest.generation);
        out.put_i32(digest.max_version);
    }
}

fn decode_states(input: &mut Input<'_>) -> Result<Vec<(SocketAddr, EndpointState)>> {
    let count = list_length(input)?;
    input.list(count, |input| Ok((input.address()?, EndpointState::decode(input)?)))
}

fn encode_states(states: &[(SocketAddr, EndpointState)], out: &mut Vec<u8>) -> Result<(), String> {
    out.put_u32(states.len() as u32);
    for (endpoint, state) in states {
        put_address(*endpoint, out);
        state.encode(out)?;
    }
    Ok(())
}

/// Returns the value of [`ApplicationState::Tokens`]: for each token its be32 length and the token,
/// then a be32 0. Each byte becomes one character.
pub fn tokens_value(tokens: &[Token]) -> String {
    let mut bytes = Vec::with_capacity(12 * tokens.len() + 4);
    for token in tokens {
        bytes.put_u32(8);
        bytes.put_i64(token.0);
    }
    bytes.put_u32(0);
    bytes.into_iter().map(char::from).collect()
}

/// Decodes a value of [`ApplicationState::Tokens`]. Returns `None` if the value does not have the
/// format.
pub fn tokens_of(value: &str) -> Option<Vec<Token>> {
    let bytes: Vec<u8> = value.chars().map(u8::try_from).collect::<Result<_, _>>().ok()?;
    let mut rest = bytes.as_slice();
    let mut tokens = Vec::new();
    loop {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        match u32::from_be_bytes(*length) {
            0 => return behind.is_empty().then_some(tokens),
            8 => {
                let (token, behind) = behind.split_first_chunk::<8>()?;
                tokens.push(Token(i64::from_be_bytes(*token)));
                rest = behind;
            }
            _ => return None,
        }
    }
}
