//! This module chooses the requests that are traced, bounds the memory of their traces, and writes
//! the traces to `system_traces`.
//!
//! A request is traced if its client asks for it, by a flag of the protocol (cqlsh's `TRACING ON`),
//! or by chance (`POST /storage_service/trace_probability`). While the node serves the request, its
//! [`Trace`] is entered, and the code that runs adds events ([`espalier_runtime::trace`]). The
//! answer carries the trace's id if the client asked; a task of the shard writes the rows after the
//! answer, so that no client waits for them.
//!
//! Memory: the bound of each trace (see [`espalier_runtime::trace`]), and at most
//! [`MAX_QUEUED`] traces that wait to be written; more are dropped and counted.

mod parameters;
mod writer;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use espalier_runtime::{random, time, trace::Trace};
use uuid::Uuid;

use crate::connection::Connection;
use crate::protocol::{Flags, Header, Opcode, Request};

/// Limit of the traces of one shard that wait to be written.
const MAX_QUEUED: usize = 256;

/// The decision whether a request is traced, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceChoice {
    No,
    /// Traced by chance; the answer does not carry the id.
    Drawn,
    /// The client asked for the trace; the answer carries the id.
    Asked,
}

/// The traces of one shard.
#[derive(Default)]
pub(crate) struct Traces {
    probability: Cell<f64>,
    /// The probability as a bound for random numbers; 0 means never.
    threshold: Cell<u64>,
    queue: RefCell<VecDeque<Box<TracedRequest>>>,
    is_writing: Cell<bool>,
}

/// A request that is traced.
pub(crate) struct TracedRequest {
    trace: Trace,
    id: Uuid,
    started_at_us: i64,
    /// The name of the request in Cassandra's words.
    name: &'static str,
    parameters: Vec<(String, String)>,
    client: std::net::IpAddr,
    duration_us: u64,
}

impl Traces {
    /// Returns whether to trace a request.
    #[inline]
    pub fn choose(&self, header: Header) -> TraceChoice {
        if !header.flags.has(Flags::TRACING) && self.threshold.get() == 0 {
            return TraceChoice::No;
        }
        self.choose_slowly(header)
    }

    #[cold]
    fn choose_slowly(&self, header: Header) -> TraceChoice {
        let statements = [Opcode::Query, Opcode::Prepare, Opcode::Execute, Opcode::Batch];
        if !statements.contains(&header.opcode) {
            return TraceChoice::No;
        }
        if header.flags.has(Flags::TRACING) {
            return TraceChoice::Asked;
        }
        if random::next_u64() < self.threshold.get() { TraceChoice::Drawn } else { TraceChoice::No }
    }

    /// Returns the share of requests that are traced by chance.
    pub fn probability(&self) -> f64 {
        self.probability.get()
    }

    /// Sets the share of requests that are traced by chance: 0 to 1.
    pub fn set_probability(&self, probability: f64) {
        self.probability.set(probability);
        // At 1.0 the threshold is the largest random number, so one request of 2^64 is not traced.
        self.threshold.set((probability * u64::MAX as f64) as u64);
    }
}

impl TracedRequest {
    /// Begins a trace if `choice` asks for one.
    pub fn begin(connection: &Connection, choice: TraceChoice) -> Option<Box<Self>> {
        let reported = match choice {
            TraceChoice::No => return None,
            TraceChoice::Drawn => false,
            TraceChoice::Asked => true,
        };
        let id = random::timeuuid_now();
        Some(Box::new(Self {
            trace: Trace::new(reported.then_some(id)),
            id,
            started_at_us: time::now_micros(),
            name: "",
            parameters: Vec::new(),
            client: connection.peer.ip(),
            duration_us: 0,
        }))
    }

    /// Records the request's name and parameters.
    pub fn describe(&mut self, connection: &Connection, request: &Request<'_>) {
        let (name, parameters) = parameters::describe(connection, request);
        self.name = name;
        let bytes = parameters.iter().map(|(key, value)| key.len() + value.len()).sum();
        if self.trace.charge(bytes) {
            self.parameters = parameters;
        }
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Ends the trace after the answer, and queues it to be written or drops it if the queue is
    /// full.
    pub fn end(mut self: Box<Self>, connection: &Connection) {
        self.duration_us = u64::try_from(self.trace.elapsed().as_micros()).unwrap_or(u64::MAX);
        let server = &connection.server;
        let mut queue = server.traces.queue.borrow_mut();
        if queue.len() >= MAX_QUEUED {
            server.metrics.traces_dropped.increment();
            return;
        }
        queue.push_back(self);
        drop(queue);
        writer::start(Rc::clone(server));
    }
}
