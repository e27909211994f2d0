//! Counters of one shard, and their export to Prometheus.
//!
//! A counter is a plain cell: no other core touches it. A scrape asks every shard for a snapshot
//! and adds the `shard` label. Names are ScyllaDB's where the meaning is the same, so that existing
//! dashboards work.

mod latency;
mod render;
mod storage;

use std::cell::Cell;

pub(crate) use latency::{RequestKind, RequestLatencies};
pub(crate) use render::{Kind, Sample, render};
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
        let mut push = |name, help, kind, label: Option<(&'static str, &str)>, value: &Counter| {
            let mut labels = format!("shard=\"{shard}\"");
            if let Some((key, value)) = label {
                labels.push_str(&format!(",{key}=\"{value}\""));
            }
            let value = value.get() as f64;
            samples.push(Sample { name, suffix: "", help, kind, labels, value });
        };
        push(
            "scylla_transport_cql_connections",
            "Connections accepted since the start.",
            Kind::Counter,
            None,
            &self.connections_opened,
        );
        push(
            "scylla_transport_current_connections",
            "Connections that are open.",
            Kind::Gauge,
            None,
            &self.connections_open,
        );
        push(
            "scylla_transport_connections_blocked",
            "Connections refused because a limit was reached.",
            Kind::Counter,
            None,
            &self.connections_refused,
        );
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
            push(
                "scylla_transport_cql_requests_count",
                "Requests by kind.",
                Kind::Counter,
                Some(("kind", kind)),
                counter,
            );
        }
        push(
            "scylla_transport_requests_serving",
            "Requests that are waiting for a disk, a timer or another shard.",
            Kind::Gauge,
            None,
            &self.requests_serving,
        );
        push(
            "espalier_transport_requests_waited",
            "Requests that had to wait for a disk, a timer or another shard.",
            Kind::Counter,
            None,
            &self.requests_waited,
        );
        push(
            "scylla_transport_requests_shed",
            "Requests answered OVERLOADED because too much was in flight.",
            Kind::Counter,
            None,
            &self.requests_shed,
        );
        push(
            "scylla_transport_cql_errors_total",
            "ERROR responses.",
            Kind::Counter,
            None,
            &self.responses_error,
        );
        push(
            "espalier_transport_unprepared",
            "EXECUTE and BATCH requests of a statement that is not prepared on this node.",
            Kind::Counter,
            None,
            &self.responses_unprepared,
        );
        push(
            "espalier_transport_received_bytes",
            "Bytes received from clients.",
            Kind::Counter,
            None,
            &self.bytes_received,
        );
        push(
            "espalier_transport_sent_bytes",
            "Bytes sent to clients.",
            Kind::Counter,
            None,
            &self.bytes_sent,
        );
        push(
            "espalier_transport_writes",
            "Writes to sockets: responses of one batch of requests share one.",
            Kind::Counter,
            None,
            &self.writes,
        );
        push(
            "espalier_traces_written",
            "Traces of requests written to system_traces.",
            Kind::Counter,
            None,
            &self.traces_written,
        );
        push(
            "espalier_traces_dropped",
            "Traces of requests that were dropped: too many waited, or the write failed.",
            Kind::Counter,
            None,
            &self.traces_dropped,
        );
        self.latencies.samples(shard, samples);
    }
}
