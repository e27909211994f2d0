//! Shards: each has one thread, which may be pinned to a processor, and one contiguous range of
//! tokens.
//!
//! A shard lives until the `main` futures of all shards are done: until then it answers calls, so
//! that shards may finish in any order. Lineage: Seastar, and ScyllaDB's token-to-shard map (here
//! with an ignore-MSB of 0, so that a shard's range is contiguous).

mod start;
mod token;

pub use start::{ShardCaller, ShardOptions, ShardPanic, Shards, start_shards};
pub use token::{shard_of_token, token_range_of_shard};

use crate::event_loop;
pub use crate::event_loop::LoopReport;
use crate::mailbox::Inbox;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The identity of a shard: its index, and the count of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShardContext {
    /// From 0 to `count - 1`.
    pub index: usize,
    /// The number of shards.
    pub count: usize,
}

impl ShardContext {
    /// Returns the first and last token that this shard owns, both included.
    pub fn token_range(&self) -> (i64, i64) {
        token_range_of_shard(self.index, self.count)
    }

    /// Returns whether this shard owns `token`.
    pub fn owns(&self, token: i64) -> bool {
        shard_of_token(token, self.count) == self.index
    }
}

/// The state that all shards of one start share.
pub(crate) struct Peers {
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    /// The number of shards with a `main` that is not done.
    pub(crate) running: AtomicUsize,
}

/// The identity of the shard that an event loop runs.
pub(crate) struct ShardIdentity {
    pub(crate) index: usize,
    pub(crate) peers: Arc<Peers>,
}

/// Returns the shard of the calling thread, or `None` on other threads (also inside of `block_on`).
pub fn current_shard() -> Option<ShardContext> {
    let state = event_loop::current()?;
    let identity = state.shard.get()?;
    Some(ShardContext { index: identity.index, count: identity.peers.inboxes.len() })
}

/// Returns the counters of the event loop of the calling thread, or `None` outside of one.
pub fn loop_report() -> Option<LoopReport> {
    event_loop::current().map(|state| state.report())
}

#[track_caller]
pub(crate) fn expect_identity<R>(look: impl FnOnce(&ShardIdentity) -> R) -> R {
    match event_loop::expect_current().shard.get() {
        Some(identity) => look(identity),
        None => panic!("this works on shards only"),
    }
}
