//! Makes the node a member of a Cassandra ring: connections, gossip, and answers to its peers.
//!
//! | module | content |
//! | --- | --- |
//! | [`settings`] | the facts about the node that it announces |
//! | [`gossiper`] | the state of gossip, without sockets and clock |
//! | `shadow` | the query to the seeds before the node takes its place |
//! | [`member`] | the tasks of a member, which run on one shard |
//! | `inbound`, `outbound` | connections from a peer, and to a peer |
//! | `encryption` | TLS of these connections |
//! | `dispatch` | the answer to each message |
//! | `long_payloads` | work on long payloads |
//! | `schema` | the schema of the ring |
//! | `writes` | writes, hints and truncations |
//! | `forwards` | writes that the node passes on |
//! | `batches`, `waiting_batches` | the batch log |
//! | `paxos` | conditional writes |
//! | `requests` | requests of the node to its peers |
//! | [`replicas`] | the replicas of a partition |
//! | `reads` | answers to reads |
//! | `room` | the memory of messages whose work is not done |
//! | `metrics` | counts of messages, requests and connections |
//! | `backend` | the interface from a member to its node |
//!
//! A request that a member does not understand or cannot carry out counts in [`RingMetrics`], and
//! gets a failure response if its sender waits for one. docs/ring.md says what works.
//!
//! Bounds: [`gossiper::MAX_ENDPOINTS`] endpoints, twice as many peers with queues, and limits on
//! the connections of peers and on the bytes of their messages. A member connects to seeds, to
//! endpoints of gossip, and to nodes with an open connection.

mod backend;
mod batches;
mod dispatch;
mod encryption;
mod forwards;
pub mod gossiper;
mod inbound;
mod long_payloads;
pub mod member;
mod metrics;
mod outbound;
mod paxos;
mod reads;
pub mod replicas;
mod requests;
mod room;
mod schema;
pub mod settings;
mod shadow;
mod waiting_batches;
mod writes;

pub use backend::{Backend, BatchPage, LocalFuture};
pub use gossiper::{GossipEvent, Gossiper, Liveness};
pub use member::{RingMember, StartError};
pub use metrics::RingMetrics;
pub use settings::{Compression, LocalView, RingEncryption, RingSettings};
pub use shadow::JoinError;
