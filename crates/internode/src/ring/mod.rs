//! A node as a member of a Cassandra ring: connections, gossip, and the answers to its peers.
//!
//! | module | content |
//! | --- | --- |
//! | [`settings`] | the facts about the node that it announces |
//! | [`gossiper`] | the state of gossip, without sockets and clock |
//! | [`member`] | the tasks of a member, which run on one shard |
//! | `inbound`, `outbound` | connections from a peer, and to a peer |
//! | `dispatch` | the answer to each message |
//! | `schema` | the schema of the ring, and writes to its tables |
//! | `backend` | the node behind a member |
//!
//! A request that a member does not understand or cannot carry out gets a failure response, a log
//! line and a count in [`RingMetrics`]. docs/ring.md says what works.

mod backend;
mod dispatch;
pub mod gossiper;
mod inbound;
pub mod member;
mod metrics;
mod outbound;
mod schema;
pub mod settings;

pub use backend::{Backend, LocalFuture};
pub use gossiper::{GossipEvent, Gossiper, Liveness};
pub use member::RingMember;
pub use metrics::RingMetrics;
pub use settings::{LocalView, RingSettings};
