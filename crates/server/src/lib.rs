//! The server crate serves CQL clients by the native protocol, and operators by an admin HTTP API
//! with metrics.
//!
//! One [`ShardServer`] on each shard accepts connections and serves them there. A request flows
//! `connection` (frames) → `dispatch` (messages) → the CQL crate → `dispatch` → the connection's
//! send buffer.

// The futures of a request nest from the connection down to the disk.
#![recursion_limit = "256"]

mod admin;
mod admission;
mod answers;
mod audit;
mod certificates;
mod columns;
mod config;
mod connection;
mod convert;
mod dispatch;
mod events;
mod listener;
mod metrics;
mod options;
mod places;
mod planning;
pub mod protocol;
mod shard;
mod traces;

pub use admin::{AdminAccess, AdminToken};
pub use admission::{ConnectionCounter, ConnectionLimits, ConnectionSlot};
pub use audit::AuditOptions;
pub use certificates::ReloadCertificates;
pub use config::{ClientEncryption, ServerConfig};
pub use options::CQL_VERSION;
pub use places::{Places, Waiting};
pub use shard::{Counters, ShardServer, SharedState};
