//! Acknowledges writes that are applied and wait only for the commit log. One task of the
//! connection answers them in their order, and ends when none is left. Group commit makes many of
//! them durable at once, so that they share a wake and a write.
//!
//! Memory: one entry for each write that waits for the commit log.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use espalier_cql as cql;
use espalier_runtime::{maybe_yield, spawn_local};
use espalier_storage::{CommitLogError, CommitTicket};

use super::respond::{Columns, RowsRef, respond_rows};
use crate::admission::InFlight;
use crate::connection::Connection;
use crate::convert::{Levels, error_response};
use crate::metrics::RequestKind;
use crate::protocol::response::ErrorResponse;
use crate::protocol::{Header, Response, ResponseExtras};

/// The acknowledgements that a connection still has to send.
#[derive(Default)]
pub(crate) struct AcknowledgementQueue {
    waiting: RefCell<VecDeque<Acknowledgement>>,
    running: Cell<bool>,
}

/// A write that waits for its ticket.
pub(super) struct PendingWrite {
    pub(super) ticket: CommitTicket,
    pub(super) levels: Levels,
    /// The columns of the answer to a conditional write.
    pub(super) applied: Option<Arc<cql::ResultMetadata>>,
}

/// A write with its request.
struct Acknowledgement {
    header: Header,
    write: PendingWrite,
    in_flight: InFlight,
}

impl Connection {
    /// Answers a request once the ticket of its write resolves: with Void, with the row of an
    /// applied conditional write, or with an error.
    pub(super) fn acknowledge_later(
        self: &Rc<Self>,
        header: Header,
        write: PendingWrite,
        in_flight: InFlight,
    ) {
        self.begin_waiting();
        let acknowledgement = Acknowledgement { header, write, in_flight };
        self.acknowledgements.waiting.borrow_mut().push_back(acknowledgement);
        if !self.acknowledgements.running.replace(true) {
            spawn_local(acknowledge_all(Rc::clone(self))).detach();
        }
    }
}

async fn acknowledge_all(connection: Rc<Connection>) {
    let queue = &connection.acknowledgements;
    loop {
        let next = queue.waiting.borrow_mut().pop_front();
        let Some(Acknowledgement { header, write, in_flight }) = next else { break };
        let PendingWrite { ticket, levels, applied } = write;
        if !ticket.is_acknowledged() {
            // Acknowledgements that are ready go out before the next wait.
            connection.flush().await;
        }
        let outcome = ticket.await;
        if let Err(error) = acknowledge(&connection, header, levels, applied, outcome) {
            connection.refuse(header.stream, &error);
        }
        connection.server.metrics.latencies.end(RequestKind::Write, in_flight.taken_at);
        connection.end_waiting();
        drop(in_flight);
        maybe_yield().await;
    }
    queue.running.set(false);
    connection.flush().await;
}

/// Answers a write whose ticket has resolved. `applied` has the columns of the answer to a
/// conditional write.
pub(super) fn acknowledge(
    connection: &Connection,
    header: Header,
    levels: Levels,
    applied: Option<Arc<cql::ResultMetadata>>,
    outcome: Result<(), CommitLogError>,
) -> Result<(), ErrorResponse> {
    match (outcome, applied) {
        (Ok(()), None) => {
            connection.respond(header.stream, &ResponseExtras::default(), &Response::Void);
        }
        (Ok(()), Some(metadata)) => {
            let rows =
                RowsRef { row_count: 1, content: Cow::Borrowed(cql::APPLIED), ..RowsRef::NONE };
            let columns = Columns::Prepared { skip: false, known_id: None };
            respond_rows(connection, header, columns, &metadata, rows);
        }
        (Err(error), applied) => {
            let error = cql::Error::from(error);
            let error = if applied.is_some() { error.of_conditional() } else { error };
            return Err(error_response(error, levels));
        }
    }
    Ok(())
}
