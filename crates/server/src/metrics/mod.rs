//! Counters of one shard, and their export to Prometheus.
//!
//! A counter is a plain cell: no other core touches it. A scrape asks every shard for its samples,
//! which have the label `shard`. Names are ScyllaDB's where the meaning is the same, so that
//! existing dashboards work.

mod latency;
mod render;
mod scheduling;
mod shard_samples;
mod storage;

use std::cell::Cell;

pub(crate) use latency::{RequestKind, RequestLatencies};
pub(crate) use render::{Kind, Sample, render};
pub(crate) use scheduling::samples as scheduling_samples;
pub(crate) use shard_samples::ShardSamples;
pub(crate) use storage::samples as storage_samples;

/// A number that only grows, or a gauge, which also goes down.
#[derive(Debug, Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.set(self.0.get().wrapping_add(count));
    }

    /// Subtracts one from a gauge.
    pub fn decrement(&self) {
        self.0.set(self.0.get().wrapping_sub(1));
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// Counters of the native transport.
#[derive(Debug, Default)]
#[allow(missing_docs)] // each is documented by its help text below
pub(crate) struct TransportMetrics {
    pub connections_opened: Counter,
    pub connections_open: Counter,
    pub connections_refused: Counter,
    pub handshakes_failed: Counter,
    pub logins_failed: Counter,
    pub requests_startup: Counter,
    pub requests_options: Counter,
    pub requests_query: Counter,
    pub requests_prepare: Counter,
    pub requests_execute: Counter,
    pub requests_batch: Counter,
    pub requests_register: Counter,
    pub requests_auth_response: Counter,
    pub requests_waited: Counter,
    pub requests_serving: Counter,
    pub requests_shed: Counter,
    pub responses_error: Counter,
    pub responses_unprepared: Counter,
    pub bytes_received: Counter,
    pub bytes_sent: Counter,
    pub writes: Counter,
    pub traces_written: Counter,
    pub traces_dropped: Counter,
    pub latencies: RequestLatencies,
}

impl TransportMetrics {
    /// Appends the counters as samples of shard `shard`.
    pub fn samples(&self, shard: usize, samples: &mut Vec<Sample>) {
        let mut of_shard = ShardSamples::new(shard, samples);
        self.connections(&mut of_shard);
        self.requests_by_kind(&mut of_shard);
        self.requests(&mut of_shard);
        self.responses(&mut of_shard);
        self.traffic(&mut of_shard);
        self.traces(&mut of_shard);
        self.latencies.samples(shard, samples);
    }

    fn connections(&self, samples: &mut ShardSamples<'_>) {
        samples.counter(
            "scylla_transport_cql_connections",
            self.connections_opened.get(),
            "Connections accepted since the start.",
        );
        samples.gauge(
            "scylla_transport_current_connections",
            self.connections_open.get(),
            "Connections that are open.",
        );
        samples.counter(
            "scylla_transport_connections_blocked",
            self.connections_refused.get(),
            "Connections refused because a limit was reached.",
        );
        samples.counter(
            "espalier_transport_failed_handshakes",
            self.handshakes_failed.get(),
            "TLS handshakes that failed.",
        );
        samples.counter(
            "espalier_transport_failed_logins",
            self.logins_failed.get(),
            "Log-ins that failed.",
        );
    }

    fn requests_by_kind(&self, samples: &mut ShardSamples<'_>) {
        for (kind, counter) in [
            ("STARTUP", &self.requests_startup),
            ("OPTIONS", &self.requests_options),
            ("QUERY", &self.requests_query),
            ("PREPARE", &self.requests_prepare),
            ("EXECUTE", &self.requests_execute),
            ("BATCH", &self.requests_batch),
            ("REGISTER", &self.requests_register),
            ("AUTH_RESPONSE", &self.requests_auth_response),
        ] {
            samples.counter_of_kind(
                "scylla_transport_cql_requests_count",
                kind,
                counter.get(),
                "Requests by kind.",
            );
        }
    }

    fn requests(&self, samples: &mut ShardSamples<'_>) {
        samples.gauge(
            "scylla_transport_requests_serving",
            self.requests_serving.get(),
            "Requests that are waiting for a disk, a timer or another shard.",
        );
        samples.counter(
            "espalier_transport_requests_waited",
            self.requests_waited.get(),
            "Requests that had to wait for a disk, a timer or another shard.",
        );
        samples.counter(
            "scylla_transport_requests_shed",
            self.requests_shed.get(),
            "Requests answered OVERLOADED because too much was in flight.",
        );
    }

    fn responses(&self, samples: &mut ShardSamples<'_>) {
        samples.counter(
            "scylla_transport_cql_errors_total",
            self.responses_error.get(),
            "ERROR responses.",
        );
        samples.counter(
            "espalier_transport_unprepared",
            self.responses_unprepared.get(),
            "EXECUTE and BATCH requests of a statement that is not prepared on this node.",
        );
    }

    fn traffic(&self, samples: &mut ShardSamples<'_>) {
        samples.counter(
            "espalier_transport_received_bytes",
            self.bytes_received.get(),
            "Bytes received from clients.",
        );
        samples.counter(
            "espalier_transport_sent_bytes",
            self.bytes_sent.get(),
            "Bytes sent to clients.",
        );
        samples.counter(
            "espalier_transport_writes",
            self.writes.get(),
            "Writes to sockets: responses of one batch of requests share one.",
        );
    }

    fn traces(&self, samples: &mut ShardSamples<'_>) {
        samples.counter(
            "espalier_traces_written",
            self.traces_written.get(),
            "Traces of requests written to system_traces.",
        );
        samples.counter(
            "espalier_traces_dropped",
            self.traces_dropped.get(),
            "Traces of requests that were dropped: too many waited, or the write failed.",
        );
    }
}
