//! The `<query_parameters>` that QUERY and EXECUTE share. The fields have the order of the flags'
//! bits, except that `NAMED_VALUES` only adds names to the values.

use bytes::Bytes;

use super::super::consistency::Consistency;
use super::super::error::DecodeError;
use super::super::reader::BodyReader;
use super::super::version::ProtocolVersion;
use super::values::Values;

pub(super) const VALUES: u32 = 0x001;
pub(super) const SKIP_METADATA: u32 = 0x002;
pub(super) const PAGE_SIZE: u32 = 0x004;
pub(super) const PAGING_STATE: u32 = 0x008;
pub(super) const SERIAL_CONSISTENCY: u32 = 0x010;
pub(super) const DEFAULT_TIMESTAMP: u32 = 0x020;
pub(super) const NAMED_VALUES: u32 = 0x040;
pub(super) const KEYSPACE: u32 = 0x080;
pub(super) const NOW_IN_SECONDS: u32 = 0x100;

/// The parameters with which a statement is executed.
#[derive(Clone, Debug)]
pub struct QueryParameters<'a> {
    /// The consistency level.
    pub consistency: Consistency,
    /// The bound values.
    pub values: Values<'a>,
    /// True if the client knows the columns of the result and wants only the rows.
    pub skip_metadata: bool,
    /// Rows of a page; zero and less mean that the client wants no pages.
    pub page_size: Option<i32>,
    /// The position at which the previous page ended.
    pub paging_state: Option<&'a [u8]>,
    /// The parameters after the paging state. BATCH has them, too.
    pub tail: ParametersTail<'a>,
}

/// The parameters that BATCH has too.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParametersTail<'a> {
    /// The consistency of the condition of a lightweight transaction.
    pub serial_consistency: Option<Consistency>,
    /// The timestamp of the written data, in microseconds since 1970.
    pub timestamp_us: Option<i64>,
    /// The default keyspace of the statement's names.
    pub keyspace: Option<&'a str>,
    /// The current time for TTLs, in seconds since 1970.
    pub now_in_seconds: Option<i32>,
}

impl<'a> QueryParameters<'a> {
    pub(super) fn decode(
        version: ProtocolVersion,
        body: &'a Bytes,
        reader: &mut BodyReader<'a>,
    ) -> Result<Self, DecodeError> {
        let consistency = Consistency::from_code(reader.short("consistency")?)?;
        let flags = decode_flags(version, reader)?;
        let values = if flags & VALUES != 0 {
            Values::decode(version, body, reader, flags & NAMED_VALUES != 0)?
        } else {
            Values::none(body)
        };
        let page_size = if flags & PAGE_SIZE != 0 { Some(reader.int("page size")?) } else { None };
        let paging_state =
            if flags & PAGING_STATE != 0 { reader.bytes("paging state")? } else { None };
        Ok(Self {
            consistency,
            values,
            skip_metadata: flags & SKIP_METADATA != 0,
            page_size,
            paging_state,
            tail: ParametersTail::decode(flags, reader)?,
        })
    }
}

impl<'a> ParametersTail<'a> {
    pub(super) fn decode(flags: u32, reader: &mut BodyReader<'a>) -> Result<Self, DecodeError> {
        let mut tail = Self::default();
        if flags & SERIAL_CONSISTENCY != 0 {
            let code = reader.short("serial consistency")?;
            tail.serial_consistency = Some(Consistency::from_code(code)?);
        }
        if flags & DEFAULT_TIMESTAMP != 0 {
            let timestamp = reader.long("default timestamp")?;
            if timestamp == i64::MIN {
                return Err(DecodeError::TimestampOutOfBounds);
            }
            tail.timestamp_us = Some(timestamp);
        }
        if flags & KEYSPACE != 0 {
            tail.keyspace = Some(reader.string("keyspace")?);
        }
        if flags & NOW_IN_SECONDS != 0 {
            tail.now_in_seconds = Some(reader.int("now in seconds")?);
        }
        Ok(tail)
    }
}

/// Reads the flags, one byte before version 5, four bytes since. Unknown flags are ignored, as in
/// Cassandra.
pub(super) fn decode_flags(
    version: ProtocolVersion,
    reader: &mut BodyReader<'_>,
) -> Result<u32, DecodeError> {
    match version {
        ProtocolVersion::V3 | ProtocolVersion::V4 => reader.byte("query flags").map(u32::from),
        ProtocolVersion::V5 => reader.int("query flags").map(|flags| flags as u32),
    }
}
