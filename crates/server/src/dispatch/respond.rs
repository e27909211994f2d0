//! Encodes the result of a statement as its response.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use espalier_cql as cql;
use espalier_runtime::trace_event;

use crate::connection::Connection;
use crate::convert::{Levels, encode_columns, error_response};
use crate::events::broadcast_schema_change;
use crate::protocol::response::{ErrorResponse, Rows, RowsMetadata};
use crate::protocol::{Header, ProtocolVersion, Response, ResponseExtras};

/// The columns that a response describes to the client.
#[derive(Clone, Copy)]
pub(super) enum Columns<'a> {
    /// The statement was sent as text.
    Unprepared {
        /// True if the client needs no columns.
        skip: bool,
    },
    /// The statement was prepared.
    Prepared {
        /// True if the client knows the columns from PREPARE and needs none.
        skip: bool,
        /// Version 5: the id of the columns that the client knows.
        known_id: Option<&'a [u8]>,
    },
}

/// Writes the response of a statement, with the warnings of its execution.
pub(super) fn finish(
    connection: &Rc<Connection>,
    header: Header,
    levels: Levels,
    columns: Columns<'_>,
    result: cql::Result<cql::QueryResult>,
    warnings: &cql::Warnings,
) -> Result<(), ErrorResponse> {
    let warnings = warnings.take();
    let respond = |response: &Response<'_>| {
        let extras = ResponseExtras { warnings: &warnings, ..ResponseExtras::default() };
        connection.respond(header.stream, &extras, response);
    };
    let result = match result {
        Ok(result) => result,
        Err(error) => return Err(error_response(error, levels).with_warnings(warnings)),
    };
    match result {
        cql::QueryResult::Void => respond(&Response::Void),
        cql::QueryResult::Rows(rows) => {
            let page = RowsRef {
                row_count: rows.row_count as u32,
                content: Cow::Owned(rows.content),
                paging_state: rows.paging_state.as_deref(),
                warnings: &warnings,
            };
            respond_rows(connection, header, columns, &rows.metadata, page);
        }
        cql::QueryResult::SetKeyspace(keyspace) => {
            respond(&Response::SetKeyspace(&keyspace));
            connection.set_keyspace(keyspace);
        }
        cql::QueryResult::SchemaChange(change) => {
            respond(&Response::SchemaChange(&change));
            broadcast_schema_change(change);
        }
    }
    Ok(())
}

/// A page of rows, see [`cql::Rows`].
pub(super) struct RowsRef<'a> {
    pub row_count: u32,
    pub content: Cow<'a, [u8]>,
    pub paging_state: Option<&'a [u8]>,
    pub warnings: &'a [String],
}

impl RowsRef<'_> {
    pub const NONE: RowsRef<'static> =
        RowsRef { row_count: 0, content: Cow::Borrowed(&[]), paging_state: None, warnings: &[] };
}

/// Writes the response of a page of rows.
pub(super) fn respond_rows(
    connection: &Connection,
    header: Header,
    columns: Columns<'_>,
    metadata: &Arc<cql::ResultMetadata>,
    rows: RowsRef<'_>,
) {
    trace_event!(
        "Answering with {} rows in {} bytes{}",
        rows.row_count,
        rows.content.len(),
        if rows.paging_state.is_some() { "; there are more pages" } else { "" }
    );
    let version = header.version;
    let write = |metadata: RowsMetadata<'_>| {
        let RowsRef { row_count, content, paging_state, warnings } = rows;
        let rows = Rows { metadata, paging_state, row_count, content: &[] };
        let extras = ResponseExtras { warnings, ..ResponseExtras::default() };
        connection.respond_rows(header.stream, &extras, rows, content);
    };
    let skipped = RowsMetadata::Skipped { column_count: metadata.columns.len() as u32 };
    match columns {
        Columns::Prepared { known_id: Some(known), .. }
            if version >= ProtocolVersion::V5 && known != metadata.id =>
        {
            let cached = connection.server.columns.get(metadata);
            write(RowsMetadata::Changed { id: &metadata.id, columns: cached.encoded(version) });
        }
        Columns::Unprepared { skip: true } | Columns::Prepared { skip: true, .. } => write(skipped),
        Columns::Prepared { skip: false, .. } => {
            write(RowsMetadata::Full(connection.server.columns.get(metadata).encoded(version)));
        }
        Columns::Unprepared { skip: false } => {
            write(RowsMetadata::Full(&encode_columns(version, &metadata.columns)));
        }
    }
}
