//! Serves EXECUTE: without a future if nothing has to wait, else as a future.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use espalier_cql as cql;
use espalier_runtime::{trace, trace_event};
use smallvec::SmallVec;

use super::acknowledge::{PendingWrite, acknowledge};
use super::read::execute_with_room;
use super::respond::{Columns, RowsRef, finish, respond_rows};
use super::ring;
use crate::admission::InFlight;
use crate::connection::Connection;
use crate::convert::{BoundValues, Levels, error_response, query_options};
use crate::metrics::RequestKind;
use crate::protocol::request::Execute;
use crate::protocol::response::ErrorResponse;
use crate::protocol::{Envelope, Header, Opcode, Request};

/// Maximum capacity, in bytes, that the buffer for single rows keeps between requests.
const MAX_KEPT_ROW: usize = 64 * 1024;

/// Serves an EXECUTE without creating a future. Returns `in_flight` if the request has to wait, has
/// another opcode or is audited.
pub(crate) fn serve_now(
    connection: &Rc<Connection>,
    envelope: &Envelope,
    in_flight: InFlight,
) -> Option<InFlight> {
    let header = envelope.header;
    if header.opcode != Opcode::Execute || connection.server.audit.is_on() {
        return Some(in_flight);
    }
    let tried = match Request::decode(envelope) {
        Ok(Request::Execute(execute)) => {
            // A statement without a plan may have to be planned again, which may have to wait.
            let Some(prepared) = connection.server.processor.planned(execute.id) else {
                return Some(in_flight);
            };
            ring::check_statement(connection, &prepared, execute.parameters.consistency)
                .and_then(|()| try_execute(connection, header, &execute, &prepared))
        }
        Ok(_) => return Some(in_flight),
        Err(error) => Err(error.response()),
    };
    let metrics = &connection.server.metrics;
    match tried {
        Ok(Tried::MustWait) => return Some(in_flight),
        Ok(Tried::Answered(kind)) => metrics.latencies.end(kind, in_flight.taken_at),
        Ok(Tried::Written(write)) => connection.acknowledge_later(header, write, in_flight),
        Err(error) => connection.refuse(header.stream, &error),
    }
    metrics.requests_execute.increment();
    None
}

/// Maximum body, in bytes, of a request for which the node prefetches memory. For a longer body, it
/// would cost more to decode the values twice than the prefetch gains.
const MAX_AHEAD_BODY: usize = 4 * 1024;

/// Prefetches the memory that a batch of EXECUTEs will touch.
pub(crate) fn look_ahead<'a>(
    connection: &Connection,
    envelopes: impl IntoIterator<Item = &'a Envelope>,
) {
    let processor = &connection.server.processor;
    let executes = envelopes.into_iter().filter(|envelope| {
        envelope.header.opcode == Opcode::Execute && envelope.body.len() <= MAX_AHEAD_BODY
    });
    // The look-ahead skips malformed requests, and statements without a plan. Each is handled when
    // it is served.
    let statements: SmallVec<[_; 16]> = executes
        .filter_map(|envelope| {
            let Ok(Request::Execute(execute)) = Request::decode(envelope) else { return None };
            let prepared = processor.planned(execute.id)?;
            let worthwhile = processor.can_look_ahead(&prepared);
            worthwhile.then(|| (prepared, BoundValues::new(&execute.parameters.values)))
        })
        .collect();
    if statements.len() > 1 {
        let statements: SmallVec<[_; 16]> =
            statements.iter().map(|(prepared, values)| (&**prepared, values.borrow())).collect();
        processor.look_ahead(&statements);
    }
}

/// The outcome of an EXECUTE without waiting.
enum Tried {
    /// The client has its answer.
    Answered(RequestKind),
    /// The write is applied, and its client gets an answer once it is durable.
    Written(PendingWrite),
    /// The statement has to wait: it wrote nothing and has no answer.
    MustWait,
}

/// Executes a statement without waiting.
#[inline]
fn try_execute(
    connection: &Rc<Connection>,
    header: Header,
    execute: &Execute<'_>,
    prepared: &Arc<cql::Prepared>,
) -> Result<Tried, ErrorResponse> {
    if prepared.returns_rows() && connection.is_behind() {
        return Ok(Tried::MustWait);
    }
    let client = connection.client();
    let values = BoundValues::new(&execute.parameters.values);
    let options = query_options(&execute.parameters, &values);
    let levels = Levels::of(&execute.parameters);
    let mut row = connection.server.row.borrow_mut();
    match connection.server.processor.execute_now(prepared, &client, &options, &mut row) {
        cql::Now::MustWait => Ok(Tried::MustWait),
        // A large row waits for memory.
        cql::Now::Row { .. } if !connection.hold_row(row.len()) => {
            *row = Vec::new();
            Ok(Tried::MustWait)
        }
        cql::Now::Row { found } => {
            let columns = columns_of(execute, prepared);
            let content = if row.capacity() > MAX_KEPT_ROW {
                Cow::Owned(std::mem::take(&mut *row))
            } else {
                Cow::Borrowed(&**row)
            };
            let rows = RowsRef { row_count: u32::from(found), content, ..RowsRef::NONE };
            respond_rows(connection, header, columns, &prepared.result, rows);
            Ok(Tried::Answered(RequestKind::Read))
        }
        cql::Now::AfterSync(ticket, applied) => {
            Ok(Tried::Written(PendingWrite { ticket, levels, applied }))
        }
        cql::Now::Done(result) => {
            let columns = columns_of(execute, prepared);
            finish(connection, header, levels, columns, result, &cql::Warnings::default())?;
            let is_read = prepared.returns_rows();
            let kind = if is_read { RequestKind::Read } else { RequestKind::Write };
            Ok(Tried::Answered(kind))
        }
    }
}

/// Serves an EXECUTE that has to wait, or is traced or audited.
pub(super) async fn serve_execute(
    connection: &Rc<Connection>,
    header: Header,
    execute: Execute<'_>,
) -> Result<(), ErrorResponse> {
    connection.server.metrics.requests_execute.increment();
    let prepared = find_served(connection, &execute).await?;
    // `serve_now` has tried an untraced request, unless the audit log is on.
    if trace::is_on() {
        match try_execute(connection, header, &execute, &prepared)? {
            Tried::Answered(_) => return Ok(()),
            Tried::Written(PendingWrite { ticket, levels, applied }) => {
                // Boxed, so that the futures of untraced requests, nearly all requests, stay small.
                let outcome = Box::pin(ticket.wait()).await;
                return acknowledge(connection, header, levels, applied, outcome);
            }
            Tried::MustWait => trace_event!("Not answered from memory: executing with waits"),
        }
    }
    let client = connection.client();
    let values = BoundValues::new(&execute.parameters.values);
    let warnings = cql::Warnings::default();
    let options = cql::QueryOptions {
        warnings: Some(&warnings),
        ..query_options(&execute.parameters, &values)
    };
    let result = execute_with_room(connection, &prepared, &client, &options).await?;
    let columns = columns_of(&execute, &prepared);
    let levels = Levels::of(&execute.parameters);
    finish(connection, header, levels, columns, result, &warnings)
}

fn columns_of<'a>(execute: &Execute<'a>, prepared: &cql::Prepared) -> Columns<'a> {
    if prepared.is_conditional() {
        return Columns::Unprepared { skip: false };
    }
    // Before version 5 the request does not say which columns the client knows. So once the columns
    // have changed, each answer describes them.
    let knows = execute.result_metadata_id.is_some() || !prepared.result_changed;
    let skip = execute.parameters.skip_metadata && knows;
    Columns::Prepared { skip, known_id: execute.result_metadata_id }
}

/// Returns the statement of an EXECUTE, if the node serves it.
async fn find_served(
    connection: &Connection,
    execute: &Execute<'_>,
) -> Result<Arc<cql::Prepared>, ErrorResponse> {
    let prepared = match find_prepared(connection, execute.id).await {
        Ok(prepared) => prepared,
        // A member of a ring would refuse to prepare the statement too.
        Err(error) => return Err(ring::check_member(connection).err().unwrap_or(error)),
    };
    ring::check_statement(connection, &prepared, execute.parameters.consistency)?;
    Ok(prepared)
}

/// Returns the prepared statement of an id, or the error that makes the driver prepare it again.
pub(super) async fn find_prepared(
    connection: &Connection,
    id: &[u8],
) -> Result<Arc<cql::Prepared>, ErrorResponse> {
    connection.server.processor.prepared(id).await.ok_or_else(|| {
        connection.server.metrics.responses_unprepared.increment();
        error_response(cql::unprepared(id), Levels::DEFAULT)
    })
}
