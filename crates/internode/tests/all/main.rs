//! Tests of the codec of messages between nodes.
#![allow(clippy::unwrap_used, reason = "tests")]

mod frames;
mod gossip;
mod handshakes;
mod hostile;
mod invariants;
mod oracle;
mod sent_by_cassandra;
mod values;
mod vectors;
