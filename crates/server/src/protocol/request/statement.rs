//! QUERY, PREPARE and EXECUTE.

use bytes::Bytes;

use super::super::error::DecodeError;
use super::super::reader::BodyReader;
use super::super::version::ProtocolVersion;
use super::parameters::QueryParameters;

/// The only flag of PREPARE: a keyspace follows.
const PREPARE_WITH_KEYSPACE: i32 = 0x01;

/// A request to execute CQL text.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// The CQL.
    pub text: &'a str,
    /// The parameters of the execution.
    pub parameters: QueryParameters<'a>,
}

impl<'a> Query<'a> {
    pub(super) fn decode(
        version: ProtocolVersion,
        body: &'a Bytes,
        reader: &mut BodyReader<'a>,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            text: reader.long_string("query")?,
            parameters: QueryParameters::decode(version, body, reader)?,
        })
    }
}

/// A request to prepare CQL text.
#[derive(Clone, Copy, Debug)]
pub struct Prepare<'a> {
    /// The CQL.
    pub text: &'a str,
    /// Version 5: the default keyspace of the statement's names.
    pub keyspace: Option<&'a str>,
}

impl<'a> Prepare<'a> {
    pub(super) fn decode(
        version: ProtocolVersion,
        reader: &mut BodyReader<'a>,
    ) -> Result<Self, DecodeError> {
        let text = reader.long_string("query")?;
        let mut keyspace = None;
        if version >= ProtocolVersion::V5
            && reader.int("prepare flags")? & PREPARE_WITH_KEYSPACE != 0
        {
            keyspace = Some(reader.string("keyspace")?);
        }
        Ok(Self { text, keyspace })
    }
}

/// A request to execute a prepared statement.
#[derive(Clone, Debug)]
pub struct Execute<'a> {
    /// The statement's id from PREPARE.
    pub id: &'a [u8],
    /// Version 5: the id of the result columns that the client knows.
    pub result_metadata_id: Option<&'a [u8]>,
    /// The parameters of the execution.
    pub parameters: QueryParameters<'a>,
}

impl<'a> Execute<'a> {
    pub(super) fn decode(
        version: ProtocolVersion,
        body: &'a Bytes,
        reader: &mut BodyReader<'a>,
    ) -> Result<Self, DecodeError> {
        let id = reader.short_bytes("prepared statement id")?;
        let result_metadata_id = match version {
            ProtocolVersion::V3 | ProtocolVersion::V4 => None,
            ProtocolVersion::V5 => Some(reader.short_bytes("result metadata id")?),
        };
        let parameters = QueryParameters::decode(version, body, reader)?;
        Ok(Self { id, result_metadata_id, parameters })
    }
}
