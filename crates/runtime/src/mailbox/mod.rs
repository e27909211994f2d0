//! Calls from shard to shard. Shards share nothing else.
//!
//! A call is a closure that makes a future on the target shard; its result travels back the same
//! way.
//! - Batched: messages gather in an outbox of the sending shard. The shard hands them over once per
//!   iteration of its loop, or when [`BATCH`] have gathered. A batch takes one lock and at most one
//!   wake.
//! - Bounded: each event loop has at most [`MAX_IN_FLIGHT`] unanswered calls to each shard. Further
//!   calls wait in their own event loop, without any cross-thread wake. An inbox therefore never
//!   has more than (event loops × `MAX_IN_FLIGHT`) calls and as many answers.
//! - Ordered: the calls that one event loop makes to one shard in one scheduling group begin in the
//!   order in which they were made, unless they reach the bound.
//! - An answer wakes its caller on the caller's own thread. Task wakers never cross threads,
//!   because the runtime underneath spins while the bounded wake queue of the other thread is full,
//!   and two shards that wait for each other in this way would spin for ever.
//!
//! Chains of calls that return to a shard that waits for them (A→B→A) can exhaust the bound under
//! overload and wait for ever, as in Seastar; let the first shard make both calls instead.

mod call;
mod inbox;
mod local;

pub use call::ShardStopped;
pub(crate) use inbox::Inbox;
pub(crate) use local::LocalCalls;

use crate::{event_loop, trace_event};
use std::future::Future;
use std::sync::Arc;

/// Number of messages at which the shard hands a batch over before the end of the iteration.
pub const BATCH: usize = 64;

/// Maximum number of unanswered calls from one event loop to one shard.
pub const MAX_IN_FLIGHT: usize = 4096;

/// Runs `work` on `shard` and returns its output. If `shard` is the calling shard, `work` is called
/// at once, without a message. This function itself sends the call; a call that reaches the bound
/// is sent by a later poll of the future. Dropping the future stops `work` on the calling shard,
/// but not on another shard once the call was sent.
///
/// A panic of `work` continues in the caller. Panics outside of a shard, if there is no such shard,
/// and if the target shard has died.
#[track_caller]
pub fn submit_to<R, F, W>(shard: usize, work: W) -> impl Future<Output = R> + use<R, F, W>
where
    R: Send + 'static,
    F: Future<Output = R> + 'static,
    W: FnOnce() -> F + Send + 'static,
{
    let state = event_loop::expect_current();
    let Some(identity) = state.shard.get() else {
        panic!("submit_to works on shards only; on other threads use ShardCaller::submit_to");
    };
    let Some(inbox) = identity.peers.inboxes.get(shard) else {
        panic!("there is no shard {shard} of {}", identity.peers.inboxes.len());
    };
    let call = if shard == identity.index {
        Call::Local(work())
    } else {
        trace_event!("Sending a message to shard {shard}");
        Call::Remote(local::begin_call(&state, inbox, work))
    };
    async move {
        match call {
            Call::Local(future) => future.await,
            Call::Remote(future) => match future.await {
                Ok(value) => {
                    trace_event!("Answer of shard {shard} received");
                    value
                }
                Err(stopped) => panic!("shard {shard}: {stopped}"),
            },
        }
    }
}

enum Call<L, R> {
    Local(L),
    Remote(R),
}

/// Runs `work`, which gets the shard's index, on every shard and returns the outputs in shard
/// order.
pub async fn submit_to_all<R, F, W>(work: W) -> Vec<R>
where
    R: Send + 'static,
    F: Future<Output = R> + 'static,
    W: Fn(usize) -> F + Clone + Send + 'static,
{
    let count = crate::shard::expect_identity(|identity| identity.peers.inboxes.len());
    let calls = (0..count).map(|shard| {
        let work = work.clone();
        submit_to(shard, move || work(shard))
    });
    futures_util::future::join_all(calls).await
}

/// Calls `inbox` from any thread that has an event loop.
pub(crate) fn call_from_anywhere<R, F, W>(
    inbox: &Arc<Inbox>,
    work: W,
) -> impl Future<Output = Result<R, ShardStopped>> + use<R, F, W>
where
    R: Send + 'static,
    F: Future<Output = R> + 'static,
    W: FnOnce() -> F + Send + 'static,
{
    local::begin_call(&event_loop::expect_current(), inbox, work)
}

/// Makes a message that only wakes its receiver.
pub(crate) fn nudge() -> inbox::Message {
    inbox::Message::Nudge
}
