//! Tests of the codec of messages between nodes, gossip, the Paxos acceptor, the answers to reads,
//! and a member of a ring over sockets.
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
mod replica_files;
mod replica_limits;
mod sent_by_cassandra;
mod values;
mod vectors;
