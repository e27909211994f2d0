//! The messages that clients send, decoded. A request borrows from its envelope's body.

mod batch;
mod parameters;
mod statement;
mod values;

use smallvec::SmallVec;

use super::decoder::Envelope;
use super::error::DecodeError;
use super::event::{EventType, EventTypes};
use super::header::Flags;
use super::opcode::Opcode;
use super::reader::BodyReader;
use super::version::ProtocolVersion;

pub use batch::{Batch, BatchStatement, StatementRef};
pub use parameters::{ParametersTail, QueryParameters};
pub use statement::{Execute, Prepare, Query};
pub use values::{Value, Values};

/// A message from a client. Bytes after its last field are ignored, as in Cassandra.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // a request lives only on the stack of its handler
pub enum Request<'a> {
    /// Opens the connection.
    Startup(Startup<'a>),
    /// Asks for the options that STARTUP accepts.
    Options,
    /// Executes CQL text.
    Query(Query<'a>),
    /// Prepares CQL text.
    Prepare(Prepare<'a>),
    /// Executes a prepared statement.
    Execute(Execute<'a>),
    /// Executes several statements as one batch.
    Batch(Batch<'a>),
    /// Asks for events.
    Register(EventTypes),
    /// Answers AUTHENTICATE or AUTH_CHALLENGE.
    AuthResponse(Option<&'a [u8]>),
}

impl<'a> Request<'a> {
    /// Decodes the body of an envelope. Checks and skips a custom payload, because the node has no
    /// custom query handler.
    ///
    /// # Errors
    ///
    /// Fails if the opcode is not a request's, if a field is missing, malformed or unknown, or if
    /// there is a custom payload before v4.
    pub fn decode(envelope: &'a Envelope) -> Result<Self, DecodeError> {
        let body = &envelope.body;
        let version = envelope.header.version;
        let mut reader = BodyReader::new(body);
        if envelope.header.flags.has(Flags::CUSTOM_PAYLOAD) {
            if version < ProtocolVersion::V4 {
                return Err(DecodeError::CustomPayload);
            }
            for _ in 0..reader.count("custom payload", 6)? {
                reader.string("custom payload key")?;
                reader.bytes("custom payload value")?;
            }
        }
        Ok(match envelope.header.opcode {
            Opcode::Startup => Self::Startup(Startup::decode(&mut reader)?),
            Opcode::Options => Self::Options,
            Opcode::Query => Self::Query(Query::decode(version, body, &mut reader)?),
            Opcode::Prepare => Self::Prepare(Prepare::decode(version, &mut reader)?),
            Opcode::Execute => Self::Execute(Execute::decode(version, body, &mut reader)?),
            Opcode::Batch => Self::Batch(Batch::decode(version, body, &mut reader)?),
            Opcode::Register => Self::Register(decode_register(&mut reader)?),
            Opcode::AuthResponse => Self::AuthResponse(reader.bytes("authentication token")?),
            opcode => return Err(DecodeError::NotARequest { opcode }),
        })
    }
}

/// STARTUP: the options that the client chooses for the connection.
#[derive(Clone, Debug)]
pub struct Startup<'a> {
    options: SmallVec<[(&'a str, &'a str); 8]>,
}

impl<'a> Startup<'a> {
    fn decode(reader: &mut BodyReader<'a>) -> Result<Self, DecodeError> {
        let count = reader.count("STARTUP options", 4)?;
        let mut options = SmallVec::new();
        for _ in 0..count {
            options.push((
                reader.string("STARTUP option name")?,
                reader.string("STARTUP option value")?,
            ));
        }
        let startup = Self { options };
        match startup.get("CQL_VERSION") {
            Some(_) => Ok(startup),
            None => Err(DecodeError::MissingCqlVersion),
        }
    }

    /// Returns an option by its name, ignoring case.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let find = |(key, _): &&(&str, &str)| key.eq_ignore_ascii_case(name);
        self.options.iter().find(find).map(|(_, value)| *value)
    }

    /// Returns all options in the order in which the client sent them.
    pub fn options(&self) -> &[(&'a str, &'a str)] {
        &self.options
    }
}

fn decode_register(reader: &mut BodyReader<'_>) -> Result<EventTypes, DecodeError> {
    let mut types = EventTypes::default();
    for _ in 0..reader.count("event types", 2)? {
        types.insert(EventType::from_name(reader.string("event type")?)?);
    }
    Ok(types)
}
