//! Native protocol, sessions, admin HTTP, metrics.
