//! Acknowledges writes that are applied and wait only for the commit log. One task of the
//! connection answers them in their order, and ends when none is left. Group commit makes many of
//! them durable at once, so that they share a wake and a write.
//!
//! Memory: one entry for each request in flight.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use espalier_cql as cql;
use espalier_runtime::{maybe_yield, spawn_local};
use espalier_storage::CommitTicket;

use crate::admission::InFlight;
use crate::connection::Connection;
use crate::convert::error_response;
use crate::metrics::RequestKind;
use crate::protocol::{Consistency, Response, ResponseExtras, StreamId};

/// The acknowledgements that a connection still has to send.
#[derive(Default)]
pub(crate) struct AcknowledgementQueue {
    waiting: RefCell<VecDeque<(StreamId, CommitTicket, InFlight)>>,
    running: Cell<bool>,
}

impl Connection {
    /// Answers `stream` with Void once `ticket` resolves.
    pub(crate) fn acknowledge_later(
        self: &Rc<Self>,
        stream: StreamId,
        ticket: CommitTicket,
        in_flight: InFlight,
    ) {
        self.begin_waiting();
        self.acknowledgements.waiting.borrow_mut().push_back((stream, ticket, in_flight));
        if !self.acknowledgements.running.replace(true) {
            spawn_local(acknowledge_all(Rc::clone(self))).detach();
        }
    }
}

async fn acknowledge_all(connection: Rc<Connection>) {
    let queue = &connection.acknowledgements;
    loop {
        let next = queue.waiting.borrow_mut().pop_front();
        let Some((stream, ticket, in_flight)) = next else { break };
        if !ticket.is_acknowledged() {
            // Acknowledgements that are ready go out before the next wait.
            connection.flush().await;
        }
        match ticket.await {
            Ok(()) => connection.respond(stream, &ResponseExtras::default(), &Response::Void),
            Err(error) => {
                let error = error_response(cql::Error::from(error), Consistency::One);
                connection.refuse(stream, &error);
            }
        }
        connection.server.metrics.latencies.end(RequestKind::Write, in_flight.taken_at);
        connection.end_waiting();
        drop(in_flight);
        maybe_yield().await;
    }
    queue.running.set(false);
    connection.flush().await;
}
