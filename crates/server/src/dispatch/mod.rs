//! The dispatch serves one request of a connection that is past STARTUP: from its envelope to its
//! response in the send buffer.
//!
//! An EXECUTE that is neither traced nor audited is first tried without a future ([`serve_now`]).
//! If that EXECUTE is a write, the connection's [`acknowledge`] queue answers it once the write is
//! durable. Every other request, and an EXECUTE that has to wait, is a future, which is polled once
//! before it becomes a task.

pub(crate) mod acknowledge;
mod execute;
mod kind;
mod read;
mod respond;
mod ring;

use std::rc::Rc;

use espalier_cql as cql;
use espalier_runtime::{maybe_yield, trace, trace_event};

use crate::admission::InFlight;
use crate::audit::AuditedRequest;
use crate::connection::Connection;
use crate::convert::{
    BoundValues, Levels, batch_options, batch_values, error_response, query_options,
};
use crate::protocol::request::{Batch, BatchStatement, Prepare, Query, StatementRef};
use crate::protocol::response::{EncodedColumns, ErrorDetail, ErrorResponse, Prepared};
use crate::protocol::{
    Consistency, Envelope, EventTypes, Header, Request, Response, ResponseExtras,
};

use crate::traces::{TraceChoice, TracedRequest};

use execute::{find_prepared, serve_execute};
pub(crate) use execute::{look_ahead, serve_now};
use kind::{kind_of, may_return_rows};
use read::execute_with_room;
use respond::{Columns, finish};

/// Serves the request of `envelope`. The request's bytes count as in flight until it is done.
pub(crate) async fn serve_request(
    connection: Rc<Connection>,
    envelope: Envelope,
    in_flight: InFlight,
    choice: TraceChoice,
) {
    let mut traced = TracedRequest::begin(&connection, choice);
    let request = Request::decode(&envelope);
    if let (Some(traced), Ok(request)) = (&mut traced, &request) {
        traced.describe(&connection, request);
    }
    let audited = request.as_ref().ok();
    let audited = audited.and_then(|request| AuditedRequest::begin(&connection, request));
    let timed = in_flight.taken_at.and(request.as_ref().ok());
    let kind = timed.and_then(|request| kind_of(&connection, request));
    let served = async {
        let header = envelope.header;
        let served = match request {
            Err(error) => Err(error.response()),
            Ok(request) => serve(&connection, header, request).await,
        };
        if let Some(audited) = audited {
            Box::pin(audited.end(&connection, served.as_ref().err())).await;
        }
        if let Err(error) = served {
            connection.refuse(header.stream, &error);
        }
    };
    trace::traced(traced.as_ref().map(|traced| traced.trace().clone()), served).await;
    if let Some(kind) = kind {
        connection.server.metrics.latencies.end(kind, in_flight.taken_at);
    }
    if let Some(traced) = traced {
        traced.end(&connection);
    }
}

async fn serve(
    connection: &Rc<Connection>,
    header: Header,
    request: Request<'_>,
) -> Result<(), ErrorResponse> {
    let metrics = &connection.server.metrics;
    match request {
        Request::Query(query) => {
            metrics.requests_query.increment();
            serve_query(connection, header, query).await
        }
        Request::Execute(execute) => serve_execute(connection, header, execute).await,
        Request::Batch(batch) => {
            metrics.requests_batch.increment();
            serve_batch(connection, header, batch).await
        }
        Request::Prepare(prepare) => {
            metrics.requests_prepare.increment();
            serve_prepare(connection, header, prepare).await
        }
        Request::Register(types) => {
            metrics.requests_register.increment();
            register(connection, types);
            connection.respond(header.stream, &ResponseExtras::default(), &Response::Ready);
            Ok(())
        }
        Request::Options => {
            metrics.requests_options.increment();
            let options = crate::options::supported(connection.server.shard);
            let response = Response::Supported(&options);
            connection.respond(header.stream, &ResponseExtras::default(), &response);
            Ok(())
        }
        Request::AuthResponse(_) => {
            metrics.requests_auth_response.increment();
            Err(protocol_error("Unexpected message AUTH_RESPONSE: no authentication needed"))
        }
        // The connection's reader serves STARTUP itself.
        Request::Startup(_) => Err(protocol_error("Unexpected message STARTUP")),
    }
}

async fn serve_query(
    connection: &Rc<Connection>,
    header: Header,
    query: Query<'_>,
) -> Result<(), ErrorResponse> {
    let client = connection.client();
    let values = BoundValues::new(&query.parameters.values);
    let warnings = cql::Warnings::default();
    let options = cql::QueryOptions {
        warnings: Some(&warnings),
        ..query_options(&query.parameters, &values)
    };
    let consistency = query.parameters.consistency;
    let levels = Levels::of(&query.parameters);
    // A plan is much larger than its text, so only a few plans may wait until their client reads,
    // and the plans of other statements have a limit.
    let _place = if may_return_rows(query.text) {
        connection.place_for_query().await
    } else {
        connection.server.plans.reserve(query.text.len()).await
    };
    let processor = &connection.server.processor;
    let planned = processor.plan(query.text, &client, &options).await;
    let prepared = planned.map_err(|error| {
        let error = error_response(error, levels).with_warnings(warnings.take());
        let keyspace = query.parameters.tail.keyspace.or(client.keyspace.as_deref());
        ring::explain(connection, query.text, keyspace, error)
    })?;
    ring::check_statement(connection, &prepared, consistency)?;
    let result = execute_with_room(connection, &prepared, &client, &options).await?;
    let columns = Columns::Unprepared { skip: query.parameters.skip_metadata };
    finish(connection, header, levels, columns, result, &warnings)
}

async fn serve_batch(
    connection: &Rc<Connection>,
    header: Header,
    batch: Batch<'_>,
) -> Result<(), ErrorResponse> {
    ring::check_member(connection)?;
    let text_bytes = batch.statements.iter().map(|it| match it.statement {
        StatementRef::Text(text) => text.len(),
        StatementRef::Prepared(_) => 0,
    });
    let _place = connection.server.plans.reserve(text_bytes.sum()).await;
    let client = connection.client();
    let values = batch_values(&batch).await;
    let mut statements = Vec::with_capacity(batch.statements.len());
    for BatchStatement { statement, values: positions } in &batch.statements {
        maybe_yield().await;
        let statement = match *statement {
            StatementRef::Text(text) => cql::BatchedStatement::Text(text),
            StatementRef::Prepared(id) => {
                cql::BatchedStatement::Prepared(find_prepared(connection, id).await?)
            }
        };
        let values = cql::Values::Positional(values.get(positions.clone()).unwrap_or_default());
        statements.push(cql::BatchStatement { statement, values });
    }
    trace_event!("Executing a batch of {} statements", statements.len());
    let warnings = cql::Warnings::default();
    let options = cql::QueryOptions {
        warnings: Some(&warnings),
        ..batch_options(batch.consistency, &batch.tail)
    };
    let processor = &connection.server.processor;
    let batch_request = cql::Batch { kind: batch.kind, statements };
    let result = processor.batch(batch_request, &client, &options).await;
    let columns = Columns::Unprepared { skip: false };
    let levels = Levels::new(batch.consistency, &batch.tail);
    finish(connection, header, levels, columns, result, &warnings)
}

async fn serve_prepare(
    connection: &Rc<Connection>,
    header: Header,
    prepare: Prepare<'_>,
) -> Result<(), ErrorResponse> {
    let server = &connection.server;
    let mut client = connection.client();
    if let Some(keyspace) = prepare.keyspace {
        Rc::make_mut(&mut client).keyspace = Some(keyspace.to_owned());
    }
    let prepared = server.processor.prepare_apart(prepare.text, &client).await;
    let statement = prepared.map_err(|error| {
        let error = error_response(error, Levels::DEFAULT);
        ring::explain(connection, prepare.text, client.keyspace.as_deref(), error)
    })?;
    ring::check_statement(connection, &statement, Consistency::One)?;
    let variables = crate::convert::encode_columns(header.version, &statement.bind.columns);
    let result =
        (!statement.result.columns.is_empty()).then(|| server.columns.get(&statement.result));
    let result: Option<&EncodedColumns> = result.as_ref().map(|it| it.encoded(header.version));
    let response = Response::Prepared(Prepared {
        id: &statement.id,
        result_metadata_id: &statement.result.id,
        partition_key_indices: &statement.bind.partition_key_indices,
        variables: &variables,
        result,
    });
    connection.respond(header.stream, &ResponseExtras::default(), &response);
    Ok(())
}

fn register(connection: &Rc<Connection>, types: EventTypes) {
    let (none, before) = (EventTypes::default(), connection.registered.get());
    let all = before.union(types);
    if before == none && all != none {
        connection.server.events.add(connection);
    }
    connection.registered.set(all);
}

fn protocol_error(message: &str) -> ErrorResponse {
    ErrorResponse::new(ErrorDetail::Protocol, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader of a connection assumes that a waiting request takes `WAITING_TASK_BYTES`.
    #[test]
    fn a_waiting_request_takes_no_more_than_is_counted() {
        fn size_of_output<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = size_of_output(serve_request);
        assert!(bytes <= crate::connection::WAITING_TASK_BYTES, "{bytes}");
    }
}
