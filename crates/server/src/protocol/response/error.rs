//! ERROR: a code, a message for people, and for some codes the fields by which a driver decides on
//! a retry.

use std::net::IpAddr;

use bytes::Bytes;

use super::super::consistency::Consistency;
use super::super::version::ProtocolVersion;
use super::super::writer::WireWrite;

/// The kind of write that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum WriteType {
    Simple,
    Counter,
    Cas,
}

impl WriteType {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Counter => "COUNTER",
            Self::Cas => "CAS",
        }
    }
}

/// The code of an error, with the fields that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ErrorDetail {
    /// 0x0000: a defect of the server.
    Server,
    /// 0x000A: the client broke the protocol.
    Protocol,
    /// 0x0100
    Authentication,
    /// 0x1001: too much work at once; the client may try later or elsewhere.
    Overloaded,
    /// 0x1002
    IsBootstrapping,
    /// 0x1003: TRUNCATE failed.
    Truncate,
    /// 0x1100
    WriteTimeout { consistency: Consistency, write_type: WriteType },
    /// 0x1200
    ReadTimeout { consistency: Consistency },
    /// 0x1300; `failures` are the failed replicas with the reasons of version 5.
    ReadFailure { consistency: Consistency, failures: Vec<(IpAddr, u16)> },
    /// 0x1400
    FunctionFailure { keyspace: String, function: String, argument_types: Vec<String> },
    /// 0x1500
    WriteFailure { consistency: Consistency, write_type: WriteType },
    /// 0x2000: the statement does not parse.
    Syntax,
    /// 0x2100
    Unauthorized,
    /// 0x2200: the statement parses but cannot be executed.
    Invalid,
    /// 0x2300: the configuration forbids the statement.
    Config,
    /// 0x2400; `table` is empty if the keyspace exists.
    AlreadyExists { keyspace: String, table: String },
    /// 0x2500: the driver prepares the statement again and retries.
    Unprepared { id: Bytes },
}

impl ErrorDetail {
    /// Returns the code in `version`.
    pub fn code(&self, version: ProtocolVersion) -> i32 {
        match self {
            Self::Server => 0x0000,
            Self::Protocol => 0x000A,
            Self::Authentication => 0x0100,
            Self::Overloaded => 0x1001,
            Self::IsBootstrapping => 0x1002,
            Self::Truncate => 0x1003,
            Self::WriteTimeout { .. } => 0x1100,
            Self::ReadTimeout { .. } => 0x1200,
            // Version 3 has no code for failures of replicas or of functions.
            Self::ReadFailure { .. } if version < ProtocolVersion::V4 => 0x1200,
            Self::ReadFailure { .. } => 0x1300,
            Self::FunctionFailure { .. } if version < ProtocolVersion::V4 => 0x2200,
            Self::FunctionFailure { .. } => 0x1400,
            Self::WriteFailure { .. } if version < ProtocolVersion::V4 => 0x1100,
            Self::WriteFailure { .. } => 0x1500,
            Self::Syntax => 0x2000,
            Self::Unauthorized => 0x2100,
            Self::Invalid => 0x2200,
            Self::Config => 0x2300,
            Self::AlreadyExists { .. } => 0x2400,
            Self::Unprepared { .. } => 0x2500,
        }
    }

    /// Appends the fields that follow the message.
    fn put_fields(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        match self {
            Self::WriteTimeout { consistency, write_type } => {
                put_replicas(out, *consistency);
                out.put_string(write_type.name());
                if version >= ProtocolVersion::V5 && *write_type == WriteType::Cas {
                    out.put_u16(0); // the number of contentions
                }
            }
            Self::ReadTimeout { consistency } => {
                put_replicas(out, *consistency);
                out.push(NO_DATA);
            }
            Self::ReadFailure { consistency, failures } => {
                put_replicas(out, *consistency);
                put_failures(out, version, failures);
                out.push(NO_DATA);
            }
            Self::FunctionFailure { keyspace, function, argument_types } => {
                out.put_string(keyspace);
                out.put_string(function);
                out.put_string_list(argument_types);
            }
            Self::WriteFailure { consistency, write_type } => {
                put_replicas(out, *consistency);
                put_failures(out, version, &[]);
                out.put_string(write_type.name());
            }
            Self::AlreadyExists { keyspace, table } => {
                out.put_string(keyspace);
                out.put_string(table);
            }
            Self::Unprepared { id } => out.put_short_bytes(id),
            Self::Server
            | Self::Protocol
            | Self::Authentication
            | Self::Overloaded
            | Self::IsBootstrapping
            | Self::Truncate
            | Self::Syntax
            | Self::Unauthorized
            | Self::Invalid
            | Self::Config => {}
        }
    }
}

/// An error for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The message for people.
    pub message: String,
    /// The code and fields for drivers.
    pub detail: ErrorDetail,
    /// The warnings of the request that failed.
    pub warnings: Vec<String>,
}

impl ErrorResponse {
    /// Creates an error with a message.
    pub fn new(detail: ErrorDetail, message: impl Into<String>) -> Self {
        Self { message: message.into(), detail, warnings: Vec::new() }
    }

    /// Returns the error with the warnings of its request.
    pub fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    pub(super) fn encode(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        out.put_i32(self.detail.code(version));
        match &self.detail {
            ErrorDetail::FunctionFailure { .. } if version < ProtocolVersion::V4 => {
                // As in Cassandra: the text names the code, and no fields follow it.
                out.put_string(&format!("ERROR FUNCTION_FAILURE: {}", self.message));
            }
            detail => {
                out.put_string(&self.message);
                detail.put_fields(version, out);
            }
        }
    }
}

/// The field of a read that says that no replica has sent data.
const NO_DATA: u8 = 0;

/// Appends the fields with which four errors begin: the consistency, the number of replicas that
/// answered, and the number of answers that the request needed. The numbers are those of a cluster
/// of one node that did not answer.
fn put_replicas(out: &mut Vec<u8>, consistency: Consistency) {
    out.put_u16(consistency.code());
    out.put_i32(0);
    out.put_i32(1);
}

/// Appends the failed replicas. Version 4 counts them; version 5 names each ([inetaddr]) with its
/// reason. Version 3 has neither, and sends the failure as a timeout.
fn put_failures(out: &mut Vec<u8>, version: ProtocolVersion, failures: &[(IpAddr, u16)]) {
    if version < ProtocolVersion::V4 {
        return;
    }
    out.put_u32(failures.len() as u32);
    if version >= ProtocolVersion::V5 {
        for (address, reason) in failures {
            out.put_address(*address);
            out.put_u16(*reason);
        }
    }
}
