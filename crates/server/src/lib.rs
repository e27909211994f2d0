//! Native protocol, sessions, admin HTTP, metrics.

pub mod protocol;
