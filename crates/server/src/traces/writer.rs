//! Writes complete traces: one task of the shard, which ends when no trace is left.

use std::rc::Rc;

use espalier_mutation::Mutation;
use espalier_runtime::{maybe_yield, spawn_local, sync::GatePass, trace::TraceEvent, yield_now};
use espalier_storage::{
    StorageError,
    system::{TraceSession, TraceWriter},
};

use super::TracedRequest;
use crate::shard::ShardServer;

/// Maximum number of events in one mutation: some hundred microseconds of work. Most traces have
/// fewer, so one mutation makes them visible as a whole. Some drivers do not wait long for that.
const EVENTS_AT_ONCE: usize = 128;

/// Traces that are written at the same time, so that they share syncs of the commit log.
const TRACES_AT_ONCE: usize = 16;

/// Starts the task, unless it runs.
pub(super) fn start(server: Rc<ShardServer>) {
    if server.traces.is_writing.replace(true) {
        return;
    }
    // A stop waits for the traces in the queue. Once the stop has begun, no new task starts.
    match server.gate.enter() {
        Ok(pass) => spawn_local(write_all(server, pass)).detach(),
        Err(_) => server.traces.is_writing.set(false),
    }
}

async fn write_all(server: Rc<ShardServer>, _pass: GatePass) {
    // The answer goes out first.
    yield_now().await;
    loop {
        let requests: Vec<_> = {
            let mut queue = server.traces.queue.borrow_mut();
            let count = queue.len().min(TRACES_AT_ONCE);
            queue.drain(..count).collect()
        };
        if requests.is_empty() {
            break;
        }
        let writes = requests.iter().map(|request| write(&server, request));
        for outcome in futures_util::future::join_all(writes).await {
            match outcome {
                Ok(()) => server.metrics.traces_written.increment(),
                Err(error) => {
                    server.metrics.traces_dropped.increment();
                    tracing::debug!(%error, "writing a trace failed, it is dropped");
                }
            }
        }
    }
    server.traces.is_writing.set(false);
}

/// Writes the events, and with the last of them the session: a client that reads the session
/// assumes that the trace is complete.
async fn write(server: &ShardServer, request: &TracedRequest) -> Result<(), StorageError> {
    let database = server.processor.database();
    let config = &server.config;
    let node = (config.broadcast_address, config.listen.port());
    let started_at_us = request.started_at_us;
    let schema = database.store().schema();
    let writer = TraceWriter::new(&schema, request.id, started_at_us, node, config.trace_ttl_s);
    let Some(mut writer) = writer else { return Ok(()) };
    let log = request.trace.take_log();
    let left_out = log.left_out();
    let note = format!("Tracing was cut off: {left_out} more events found no room");
    let mut events = log.events();
    if left_out > 0 {
        let (elapsed_us, shard) = (request.duration_us, server.shard.index);
        events.push(TraceEvent { elapsed_us, shard, text: &note });
    }
    let (first, last) = events.split_at(events.len().saturating_sub(EVENTS_AT_ONCE));
    for events in first.chunks(EVENTS_AT_ONCE) {
        database.apply(Mutation { updates: vec![writer.events(events)] }).await?;
        maybe_yield().await;
    }
    let session = TraceSession {
        client: request.client,
        request: request.name,
        parameters: &request.parameters,
        duration_us: request.duration_us,
    };
    let updates = vec![writer.events(last), writer.session(&session)];
    database.apply(Mutation { updates }).await
}
