//! The admin API: HTTP with ScyllaDB's paths, and the metrics for Prometheus.
//!
//! It has no authentication, as in ScyllaDB. Therefore it listens on the loopback address, unless
//! the configuration names another one.

mod auto_compaction;
mod cache;
mod compaction;
mod guardrails;
mod http;
mod json;
mod node;
mod parameters;
mod routes;
mod scrub;
mod serve;
mod snapshots;
mod stop;
mod tables;
mod throughput;

pub(crate) use serve::listen;
