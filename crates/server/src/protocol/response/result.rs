//! RESULT messages: rows and prepared statements.

use super::super::version::ProtocolVersion;
use super::super::writer::WireWrite;
use super::columns::EncodedColumns;

pub(super) const VOID: i32 = 1;
pub(super) const ROWS: i32 = 2;
pub(super) const SET_KEYSPACE: i32 = 3;
pub(super) const PREPARED: i32 = 4;
pub(super) const SCHEMA_CHANGE: i32 = 5;

const GLOBAL_TABLE_SPEC: i32 = 0x01;
const HAS_MORE_PAGES: i32 = 0x02;
const NO_METADATA: i32 = 0x04;
const METADATA_CHANGED: i32 = 0x08;

/// The description of the columns in a result.
#[derive(Clone, Copy, Debug)]
pub enum RowsMetadata<'a> {
    /// Only the number of columns. The client knows the columns from PREPARE and asked the server
    /// to leave them out.
    Skipped {
        /// Number of columns.
        column_count: u32,
    },
    /// All columns.
    Full(&'a EncodedColumns),
    /// The columns and a new metadata id, in version 5 only. The statement's columns have changed
    /// since the client got the id that it sent.
    Changed {
        /// The new id of the result metadata, 16 bytes.
        id: &'a [u8],
        /// The columns.
        columns: &'a EncodedColumns,
    },
}

/// A result with rows.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The columns.
    pub metadata: RowsMetadata<'a>,
    /// The position of the next page, if there is one.
    pub paging_state: Option<&'a [u8]>,
    /// Number of rows in `content`.
    pub row_count: u32,
    /// The cells of all rows in sequence: be32 length (-1 for null), then the value.
    pub content: &'a [u8],
}

impl Rows<'_> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.content.len() + 64);
        match self.metadata {
            RowsMetadata::Skipped { column_count } => {
                self.encode_flags(NO_METADATA, column_count, out);
            }
            RowsMetadata::Full(columns) => {
                self.encode_flags(spec_flag(columns), columns.count(), out);
                out.extend_from_slice(columns.bytes());
            }
            RowsMetadata::Changed { id, columns } => {
                self.encode_flags(spec_flag(columns) | METADATA_CHANGED, columns.count(), out);
                out.put_short_bytes(id);
                out.extend_from_slice(columns.bytes());
            }
        }
        out.put_u32(self.row_count);
        out.extend_from_slice(self.content);
    }

    fn encode_flags(&self, flags: i32, column_count: u32, out: &mut Vec<u8>) {
        out.put_i32(flags | self.paging_state.map_or(0, |_| HAS_MORE_PAGES));
        out.put_u32(column_count);
        if let Some(state) = self.paging_state {
            out.put_bytes(Some(state));
        }
    }
}

fn spec_flag(columns: &EncodedColumns) -> i32 {
    if columns.one_table() { GLOBAL_TABLE_SPEC } else { 0 }
}

/// A prepared statement.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    /// The id by which EXECUTE names the statement.
    pub id: &'a [u8],
    /// Version 5: the id of the result's columns. The client sends it with EXECUTE, so that the
    /// node detects that the columns changed.
    pub result_metadata_id: &'a [u8],
    /// For each column of the partition key in order, the index of its bind variable; empty if a
    /// column is not bound. Version 3 does not send it.
    pub partition_key_indices: &'a [u16],
    /// The bind variables.
    pub variables: &'a EncodedColumns,
    /// The columns of the result, if the statement returns rows.
    pub result: Option<&'a EncodedColumns>,
}

impl Prepared<'_> {
    pub(super) fn encode(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        out.put_short_bytes(self.id);
        if version >= ProtocolVersion::V5 {
            out.put_short_bytes(self.result_metadata_id);
        }
        out.put_i32(spec_flag(self.variables));
        out.put_u32(self.variables.count());
        if version >= ProtocolVersion::V4 {
            out.put_u32(self.partition_key_indices.len() as u32);
            for &index in self.partition_key_indices {
                out.put_u16(index);
            }
        }
        out.extend_from_slice(self.variables.bytes());
        match self.result {
            Some(columns) => {
                out.put_i32(spec_flag(columns));
                out.put_u32(columns.count());
                out.extend_from_slice(columns.bytes());
            }
            None => {
                out.put_i32(NO_METADATA);
                out.put_u32(0);
            }
        }
    }
}
