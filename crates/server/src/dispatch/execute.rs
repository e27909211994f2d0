//! Serves EXECUTE: without a future if nothing has to wait, else as a future.

use std::rc::Rc;
use std::sync::Arc;

use espalier_cql as cql;
use espalier_runtime::{trace, trace_event};
use smallvec::SmallVec;

use super::acknowledge::PendingWrite;
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
    let served = match Request::decode(envelope) {
        Ok(Request::Execute(execute)) => execute_now(connection, header, &execute, in_flight),
        Ok(_) => return Some(in_flight),
        Err(error) => Err(error.response()),
    };
    served.unwrap_or_else(|error| {
        connection.server.metrics.requests_execute.increment();
        connection.refuse(header.stream, &error);
        None
    })
}

/// Maximum body, in bytes, of a request that is looked ahead. For a longer one, looking at its
/// values twice would cost more than it gains.
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
    // Wrong requests, and statements without a plan on this shard, are left to the serving of each
    // request.
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

/// Executes a statement without waiting; returns `in_flight` if the statement has to wait.
fn execute_now(
    connection: &Rc<Connection>,
    header: Header,
    execute: &Execute<'_>,
    in_flight: InFlight,
) -> Result<Option<InFlight>, ErrorResponse> {
    let prepared = find_served(connection, execute)?;
    if prepared.returns_rows() && connection.is_behind() {
        return Ok(Some(in_flight));
    }
    let client = connection.client();
    let values = BoundValues::new(&execute.parameters.values);
    let options = query_options(&execute.parameters, &values);
    let levels = Levels::of(&execute.parameters);
    let metrics = &connection.server.metrics;
    let mut row = connection.server.row.borrow_mut();
    match connection.server.processor.execute_now(&prepared, &client, &options, &mut row) {
        // A large row waits for memory.
        cql::Now::Row { .. } if !connection.hold_row(row.len()) => {
            *row = Vec::new();
            Ok(Some(in_flight))
        }
        cql::Now::Row { found } => {
            let columns = columns_of(execute, &prepared);
            let rows = RowsRef { row_count: u32::from(found), content: &row, ..RowsRef::NONE };
            respond_rows(connection, header, columns, &prepared.result, rows);
            if row.capacity() > MAX_KEPT_ROW {
                *row = Vec::new();
            }
            metrics.requests_execute.increment();
            metrics.latencies.end(RequestKind::Read, in_flight.taken_at);
            Ok(None)
        }
        cql::Now::MustWait => Ok(Some(in_flight)),
        cql::Now::AfterSync(ticket) => {
            metrics.requests_execute.increment();
            let write = PendingWrite { ticket, levels, applied: None };
            connection.acknowledge_later(header, write, in_flight);
            Ok(None)
        }
        cql::Now::AppliedAfterSync(ticket, columns) => {
            metrics.requests_execute.increment();
            let write = PendingWrite { ticket, levels, applied: Some(columns) };
            connection.acknowledge_later(header, write, in_flight);
            Ok(None)
        }
        cql::Now::Done(result) => {
            let columns = columns_of(execute, &prepared);
            let warnings = cql::Warnings::default();
            finish(connection, header, levels, columns, result, &warnings)?;
            metrics.requests_execute.increment();
            let kind = if prepared.returns_rows() { RequestKind::Read } else { RequestKind::Write };
            metrics.latencies.end(kind, in_flight.taken_at);
            Ok(None)
        }
    }
}

/// Serves a traced EXECUTE by the path that it would take untraced. Returns false, without an
/// answer, if that is the path of requests that have to wait.
async fn execute_traced(
    connection: &Rc<Connection>,
    header: Header,
    execute: &Execute<'_>,
) -> Result<bool, ErrorResponse> {
    let prepared = find_served(connection, execute)?;
    if prepared.returns_rows() && connection.is_behind() {
        return Ok(false);
    }
    let client = connection.client();
    let values = BoundValues::new(&execute.parameters.values);
    let options = query_options(&execute.parameters, &values);
    let levels = Levels::of(&execute.parameters);
    let (columns, mut row) = (columns_of(execute, &prepared), Vec::new());
    let processor = &connection.server.processor;
    let result = match processor.execute_now(&prepared, &client, &options, &mut row) {
        cql::Now::MustWait => {
            trace_event!("The memtable alone cannot answer: executing with waits");
            return Ok(false);
        }
        cql::Now::Row { .. } if !connection.hold_row(row.len()) => return Ok(false),
        cql::Now::Row { found } => {
            let rows = RowsRef { row_count: u32::from(found), content: &row, ..RowsRef::NONE };
            respond_rows(connection, header, columns, &prepared.result, rows);
            return Ok(true);
        }
        cql::Now::AfterSync(ticket) => match ticket.wait().await {
            Ok(()) => Ok(cql::QueryResult::Void),
            Err(error) => Err(error.into()),
        },
        cql::Now::AppliedAfterSync(ticket, metadata) => match ticket.wait().await {
            Ok(()) => {
                let rows = RowsRef { row_count: 1, content: cql::APPLIED, ..RowsRef::NONE };
                respond_rows(connection, header, columns, &metadata, rows);
                return Ok(true);
            }
            Err(error) => Err(cql::Error::from(error).of_conditional()),
        },
        cql::Now::Done(result) => result,
    };
    finish(connection, header, levels, columns, result, &cql::Warnings::default())?;
    Ok(true)
}

/// Serves an EXECUTE that has to wait or is traced.
pub(super) async fn serve_execute(
    connection: &Rc<Connection>,
    header: Header,
    execute: Execute<'_>,
) -> Result<(), ErrorResponse> {
    connection.server.metrics.requests_execute.increment();
    // In a box: nearly all requests are untraced, and their futures need no space for it.
    if trace::is_on() && Box::pin(execute_traced(connection, header, &execute)).await? {
        return Ok(());
    }
    let prepared = find_served(connection, &execute)?;
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
    // Before version 5 the request does not say which columns the client knows: once they have
    // changed, each answer describes them.
    let knows = execute.result_metadata_id.is_some() || !prepared.result_changed;
    let skip = execute.parameters.skip_metadata && knows;
    Columns::Prepared { skip, known_id: execute.result_metadata_id }
}

/// Returns the statement of an EXECUTE, if the node serves it.
fn find_served(
    connection: &Connection,
    execute: &Execute<'_>,
) -> Result<Arc<cql::Prepared>, ErrorResponse> {
    let prepared = match find_prepared(connection, execute.id) {
        Ok(prepared) => prepared,
        // A member of a ring would refuse to prepare the statement too.
        Err(error) => return Err(ring::check_member(connection).err().unwrap_or(error)),
    };
    ring::check_statement(connection, &prepared, execute.parameters.consistency)?;
    Ok(prepared)
}

/// Returns the prepared statement of an id, or the error that makes the driver prepare it again.
pub(super) fn find_prepared(
    connection: &Connection,
    id: &[u8],
) -> Result<Arc<cql::Prepared>, ErrorResponse> {
    connection.server.processor.prepared(id).ok_or_else(|| {
        connection.server.metrics.responses_unprepared.increment();
        error_response(cql::unprepared(id), Levels::DEFAULT)
    })
}
