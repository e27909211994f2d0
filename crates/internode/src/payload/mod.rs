//! The payloads of messages.
//!
//! | module | verbs |
//! | --- | --- |
//! | [`mutation`], [`partition`] | MUTATION, READ_REPAIR, SCHEMA_PUSH, SCHEMA_PULL |
//! | [`hints_and_batches`] | HINT, BATCH_STORE, COUNTER_MUTATION |
//! | [`read_command`], [`read_response`] | READ, RANGE |
//! | [`column_filter`], [`row_filter`], [`limits`], [`selection`] | the parts of a read |
//! | `clusterings`, [`columns`] | parts that several of these payloads have |
//! | `check` | the checks of an update before it is stored |
//! | [`gossip`] | GOSSIP_DIGEST_SYN, _ACK, _ACK2, GOSSIP_SHUTDOWN |
//! | [`paxos`] | PAXOS_PREPARE, _PROPOSE, _COMMIT |
//! | [`failure`] | FAILURE_RSP |
//!
//! The other payloads, such as those of TRUNCATE, PING and BATCH_REMOVE, are decoded in this
//! module. [`Payload::decode`] returns an error for payloads of repair, snapshots and Paxos version
//! 2.

pub(crate) mod check;
mod clusterings;
pub mod column_filter;
pub mod columns;
pub mod failure;
pub mod gossip;
pub mod hints_and_batches;
pub mod limits;
pub mod mutation;
pub mod partition;
pub mod paxos;
pub mod read_command;
pub mod read_response;
pub mod row_filter;
pub mod selection;

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use espalier_mutation::schema::{Schema, TableId, TableMetadata};
use espalier_types::vint;
use uuid::Uuid;

pub use column_filter::{ColumnFilter, SelectedCells, SubSelection};
pub use columns::ColumnList;
pub use failure::FailureReason;
pub use gossip::{
    ApplicationState, EndpointState, GossipAck, GossipAck2, GossipDigest, GossipSyn, VersionedValue,
};
pub use hints_and_batches::{Batch, CounterMutation, Hint};
pub use limits::{Counted, DataLimits, Grouping, GroupingState};
pub use mutation::{Mutation, Update};
pub use partition::{FetchedColumns, Minima, Partition, PartitionContent};
pub use paxos::{Commit, PrepareResponse};
pub use read_command::{ReadCommand, Selection};
pub use read_response::{ReadResponse, encode_partitions};
pub use row_filter::{Expression, Operator, RowFilter};
pub use selection::{ClusteringFilter, DataRange, Position, SelectedRows};

use crate::{
    MessagingVersion,
    error::{DecodeError, Result},
    handshake::ConnectionKind,
    input::Input,
    message::Verb,
    output::{put_boolean, put_utf},
};

/// The tables whose rows are decoded.
pub trait Tables {
    /// Returns the table with this id.
    fn table(&self, id: TableId) -> Option<Arc<TableMetadata>>;
}

impl Tables for Schema {
    fn table(&self, id: TableId) -> Option<Arc<TableMetadata>> {
        self.table_by_id(id).cloned()
    }
}

/// The verbs whose messages have an empty payload.
const WITHOUT_PAYLOAD: [Verb; 17] = [
    Verb::MUTATION_RSP,
    Verb::HINT_RSP,
    Verb::READ_REPAIR_RSP,
    Verb::BATCH_STORE_RSP,
    Verb::BATCH_REMOVE_RSP,
    Verb::PAXOS_COMMIT_RSP,
    Verb::COUNTER_MUTATION_RSP,
    Verb::ECHO_RSP,
    Verb::ECHO_REQ,
    Verb::PING_RSP,
    Verb::SCHEMA_PUSH_RSP,
    Verb::SCHEMA_PULL_REQ,
    Verb::SCHEMA_VERSION_REQ,
    Verb::REPAIR_RSP,
    Verb::REPLICATION_DONE_RSP,
    Verb::REPLICATION_DONE_REQ,
    Verb::SNAPSHOT_RSP,
];

/// The payload of a message.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are Cassandra's")]
pub enum Payload {
    /// The empty payload of an acknowledgement, or of a request without parameters.
    None,
    Mutation(Mutation),
    Hint(Hint),
    BatchStore(Batch),
    /// The id of the batch.
    BatchRemove(Uuid),
    CounterMutation(CounterMutation),
    Truncate {
        keyspace: String,
        table: String,
    },
    Truncated {
        keyspace: String,
        table: String,
        is_done: bool,
    },
    Read(Box<ReadCommand>),
    ReadResponse(ReadResponse),
    GossipSyn(GossipSyn),
    GossipAck(GossipAck),
    GossipAck2(GossipAck2),
    /// Version 12 has no state.
    GossipShutdown(Option<EndpointState>),
    /// The kind of the connection to probe.
    Ping(ConnectionKind),
    /// The mutations of the schema's tables.
    Schema(Vec<Mutation>),
    SchemaVersion(Uuid),
    Paxos(Box<Commit>),
    PaxosPrepared(Box<PrepareResponse>),
    /// A payload of any verb that this node has encoded already.
    Encoded(Bytes),
    /// True if the replica has accepted the proposal.
    PaxosProposed(bool),
    Failure(FailureReason),
}

impl Payload {
    /// Decodes the payload of a message with this verb.
    ///
    /// # Errors
    ///
    /// Fails if the bytes do not follow the format, if they name an unknown table or column, or if
    /// the verb's payload is not implemented here.
    pub fn decode(
        verb: Verb,
        version: MessagingVersion,
        bytes: &Bytes,
        tables: &dyn Tables,
    ) -> Result<Self> {
        Input::whole(bytes, |input| Self::decode_from(input, verb, version, tables))
    }

    fn decode_from(
        input: &mut Input<'_>,
        verb: Verb,
        version: MessagingVersion,
        tables: &dyn Tables,
    ) -> Result<Self> {
        Ok(match verb {
            verb if WITHOUT_PAYLOAD.contains(&verb) => Self::None,
            Verb::MUTATION_REQ | Verb::READ_REPAIR_REQ => {
                Self::Mutation(Mutation::decode(input, tables)?)
            }
            Verb::HINT_REQ => Self::Hint(Hint::decode(input, tables)?),
            Verb::BATCH_STORE_REQ => Self::BatchStore(Batch::decode(input)?),
            Verb::BATCH_REMOVE_REQ => Self::BatchRemove(input.uuid()?),
            Verb::COUNTER_MUTATION_REQ => {
                Self::CounterMutation(CounterMutation::decode(input, tables)?)
            }
            Verb::TRUNCATE_REQ => Self::Truncate { keyspace: input.utf()?, table: input.utf()? },
            Verb::TRUNCATE_RSP => Self::Truncated {
                keyspace: input.utf()?,
                table: input.utf()?,
                is_done: input.boolean()?,
            },
            Verb::READ_REQ | Verb::RANGE_REQ => {
                Self::Read(Box::new(ReadCommand::decode(input, tables)?))
            }
            Verb::READ_RSP | Verb::RANGE_RSP => Self::ReadResponse(ReadResponse::decode(input)?),
            Verb::GOSSIP_DIGEST_SYN => Self::GossipSyn(GossipSyn::decode(input)?),
            Verb::GOSSIP_DIGEST_ACK => Self::GossipAck(GossipAck::decode(input)?),
            Verb::GOSSIP_DIGEST_ACK2 => Self::GossipAck2(GossipAck2::decode(input)?),
            Verb::GOSSIP_SHUTDOWN => Self::GossipShutdown(match version {
                MessagingVersion::V12 => None,
                MessagingVersion::V13 => Some(EndpointState::decode(input)?),
            }),
            Verb::PING_REQ => Self::Ping(match input.u8()? {
                1 => ConnectionKind::Urgent,
                2 => ConnectionKind::Small,
                3 => ConnectionKind::Large,
                _ => return Err(DecodeError::Malformed("a ping of a connection of another kind")),
            }),
            Verb::SCHEMA_PUSH_REQ | Verb::SCHEMA_PULL_RSP => {
                let count = gossip::list_length(input)?;
                Self::Schema(input.list(count, |input| Mutation::decode(input, tables))?)
            }
            Verb::SCHEMA_VERSION_RSP => Self::SchemaVersion(input.uuid()?),
            Verb::PAXOS_PREPARE_REQ | Verb::PAXOS_PROPOSE_REQ | Verb::PAXOS_COMMIT_REQ => {
                Self::Paxos(Box::new(Commit::decode(input, tables)?))
            }
            Verb::PAXOS_PREPARE_RSP => {
                Self::PaxosPrepared(Box::new(PrepareResponse::decode(input, tables)?))
            }
            Verb::PAXOS_PROPOSE_RSP => Self::PaxosProposed(input.boolean()?),
            Verb::FAILURE_RSP => Self::Failure(FailureReason::from_number(input.count()?)),
            _ => return Err(DecodeError::Unsupported("the payload of this verb")),
        })
    }

    /// Appends the payload.
    ///
    /// # Errors
    ///
    /// Fails if a part of it has no form on the wire, for example a string of more than 65535
    /// bytes.
    pub fn encode(&self, version: MessagingVersion, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::None => {}
            Self::Mutation(mutation) => mutation.encode(out)?,
            Self::Hint(hint) => hint.encode(out)?,
            Self::BatchStore(batch) => batch.encode(out),
            Self::BatchRemove(id) | Self::SchemaVersion(id) => {
                out.extend_from_slice(id.as_bytes());
            }
            Self::CounterMutation(counter) => counter.encode(out)?,
            Self::Truncate { keyspace, table } => {
                put_utf(keyspace, out)?;
                put_utf(table, out)?;
            }
            Self::Truncated { keyspace, table, is_done } => {
                put_utf(keyspace, out)?;
                put_utf(table, out)?;
                put_boolean(*is_done, out);
            }
            Self::Read(command) => command.encode(out)?,
            Self::ReadResponse(response) => response.encode(out),
            Self::GossipSyn(syn) => syn.encode(out)?,
            Self::GossipAck(ack) => ack.encode(out)?,
            Self::GossipAck2(ack) => ack.encode(out)?,
            Self::GossipShutdown(state) => match (version, state) {
                (MessagingVersion::V12, _) => {}
                (MessagingVersion::V13, Some(state)) => state.encode(out)?,
                (MessagingVersion::V13, None) => {
                    return Err("a shutdown message without the state of its node".into());
                }
            },
            Self::Ping(kind) => out.push(match kind {
                ConnectionKind::Urgent => 1,
                ConnectionKind::Small => 2,
                ConnectionKind::Large => 3,
                ConnectionKind::Streaming => return Err("a ping of a streaming connection".into()),
            }),
            Self::Schema(mutations) => {
                out.put_u32(mutations.len() as u32);
                mutations.iter().try_for_each(|mutation| mutation.encode(out))?;
            }
            Self::Paxos(commit) => commit.encode(out)?,
            Self::Encoded(bytes) => out.extend_from_slice(bytes),
            Self::PaxosPrepared(response) => response.encode(out)?,
            Self::PaxosProposed(is_accepted) => put_boolean(*is_accepted, out),
            Self::Failure(reason) => vint::write_unsigned(*reason as u64, out),
        }
        Ok(())
    }
}
