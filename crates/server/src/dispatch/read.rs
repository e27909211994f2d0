//! Executes a statement within the memory that its answer may take.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use espalier_cql as cql;

use crate::connection::Connection;
use crate::protocol::response::{ErrorDetail, ErrorResponse};

/// Executes `prepared`. A read of a user's table waits for memory first; if that memory is not
/// enough, the read runs again with more. Reads of the node's own tables, which drivers need to
/// connect, reserve nothing: they wait only for each other, and until their client has read its
/// answers. A LIST of roles waits for other such requests of its connection only. A SELECT ends
/// when its connection closes. Another statement about roles waits only until its client has read
/// its answers. Other statements start at once.
///
/// The permits of a read end here, so the caller adds the answer to the send buffer before it waits
/// again.
pub(super) async fn execute_with_room(
    connection: &Rc<Connection>,
    prepared: &Arc<cql::Prepared>,
    client: &cql::ClientState,
    options: &cql::QueryOptions<'_>,
) -> Result<cql::Result<cql::QueryResult>, ErrorResponse> {
    let processor = &connection.server.processor;
    if !prepared.reads_user_table() {
        let is_list = prepared.lists_roles();
        let _places = if is_list || prepared.reads_own_tables() {
            Some(connection.places_for_own_tables(is_list).await?)
        } else {
            None
        };
        if prepared.concerns_roles() && !is_list {
            connection.taken_answers().await?;
        }
        // Each future waits in one place only, so that both have the same memory.
        return if prepared.is_select() {
            connection.while_open(pin!(processor.execute(prepared, client, options))).await
        } else {
            Ok(processor.execute(prepared, client, options).await)
        };
    }
    let mut least = 0;
    loop {
        if let Some(warnings) = options.warnings {
            // Drop the warnings of an earlier attempt, because this one warns again.
            warnings.take();
        }
        let room = connection.room_for_rows(least, prepared.returns_one_row()).await?;
        let bounded = cql::QueryOptions { answer_bytes: room.bytes(), ..*options };
        let read = pin!(processor.execute(prepared, client, &bounded));
        let result = connection.while_open(read).await?;
        match connection.keep_answer(room, &result) {
            Ok(()) => return refuse_too_large(result, &bounded),
            Err(needed) => least = needed.max(least),
        }
    }
}

/// Refuses an answer that does not fit into the shard's whole limit, since it will never fit.
fn refuse_too_large(
    result: cql::Result<cql::QueryResult>,
    options: &cql::QueryOptions<'_>,
) -> Result<cql::Result<cql::QueryResult>, ErrorResponse> {
    match result {
        Err(error) if error.detail == cql::ErrorDetail::AnswerTooLarge => {
            let mebibytes = options.answer_bytes >> 20;
            let message = match options.page_size.filter(|rows| *rows > 0) {
                None => format!("The result is larger than {mebibytes} MiB; use paging"),
                Some(_) => format!(
                    "A row of the result is larger than {mebibytes} MiB; select fewer values"
                ),
            };
            Err(ErrorResponse::new(ErrorDetail::Invalid, message))
        }
        result => Ok(result),
    }
}
