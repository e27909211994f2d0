//! Tests of the codec of messages between nodes, and of the answers to reads.
#![allow(clippy::unwrap_used, reason = "tests")]

mod frames;
mod gossip;
mod handshakes;
mod hostile;
mod invariants;
mod member;
mod oracle;
mod paxos;
mod replica;
mod replica_limits;
mod sent_by_cassandra;
mod values;
mod vectors;
