//! The admin API: HTTP with ScyllaDB's paths, and the metrics for Prometheus.
//!
//! The API listens on the loopback address by default. At another address it requires a token or a
//! client certificate; see `access`.

mod access;
mod audit;
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

pub use access::{AdminAccess, AdminToken};
pub(crate) use serve::listen;
