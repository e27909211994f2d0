//! The messages that the server sends. A response borrows its parts and is encoded straight into
//! the send buffer.

mod columns;
mod error;
mod result;
mod type_option;

use espalier_cql::SchemaChange;

use super::event::{EventType, put_change};
use super::opcode::Opcode;
use super::version::ProtocolVersion;
use super::writer::WireWrite;

pub use columns::{ColumnSpec, EncodedColumns};
pub use error::{ErrorDetail, ErrorResponse, WriteType};
pub use result::{Prepared, Rows, RowsMetadata};

/// A message to a client.
#[derive(Clone, Copy, Debug)]
pub enum Response<'a> {
    /// The request failed.
    Error(&'a ErrorResponse),
    /// STARTUP or REGISTER succeeded.
    Ready,
    /// STARTUP succeeded, and the client must authenticate with the protocol of this class.
    Authenticate(&'a str),
    /// The authentication succeeded.
    AuthSuccess,
    /// The options that STARTUP accepts, and further information for drivers.
    Supported(&'a [(String, Vec<String>)]),
    /// A result without content.
    Void,
    /// Rows.
    Rows(Rows<'a>),
    /// USE changed the connection's keyspace to this one.
    SetKeyspace(&'a str),
    /// A statement is prepared.
    Prepared(Prepared<'a>),
    /// The statement changed the schema.
    SchemaChange(&'a SchemaChange),
    /// The event of a change of the schema, for which the connection registered.
    Event(&'a SchemaChange),
}

impl Response<'_> {
    /// Returns the opcode.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Error(_) => Opcode::Error,
            Self::Ready => Opcode::Ready,
            Self::Authenticate(_) => Opcode::Authenticate,
            Self::AuthSuccess => Opcode::AuthSuccess,
            Self::Supported(_) => Opcode::Supported,
            Self::Void
            | Self::Rows(_)
            | Self::SetKeyspace(_)
            | Self::Prepared(_)
            | Self::SchemaChange(_) => Opcode::Result,
            Self::Event(_) => Opcode::Event,
        }
    }

    /// Appends the body.
    pub(super) fn encode(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        match self {
            Self::Error(error) => error.encode(version, out),
            Self::Ready => {}
            Self::Authenticate(class) => out.put_string(class),
            // The server has no further token for the client.
            Self::AuthSuccess => out.put_bytes(None),
            Self::Supported(options) => {
                out.put_u16(options.len() as u16);
                for (name, values) in *options {
                    out.put_string(name);
                    out.put_string_list(values);
                }
            }
            Self::Void => out.put_i32(result::VOID),
            Self::Rows(rows) => {
                out.put_i32(result::ROWS);
                rows.encode(out);
            }
            Self::SetKeyspace(keyspace) => {
                out.put_i32(result::SET_KEYSPACE);
                out.put_string(keyspace);
            }
            Self::Prepared(prepared) => {
                out.put_i32(result::PREPARED);
                prepared.encode(version, out);
            }
            Self::SchemaChange(change) => {
                out.put_i32(result::SCHEMA_CHANGE);
                put_change(change, out);
            }
            Self::Event(change) => {
                out.put_string(EventType::SchemaChange.name());
                put_change(change, out);
            }
        }
    }
}
