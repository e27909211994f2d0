//! Calls to other shards that may wait for turns there.
//!
//! A call holds a permit of the mailbox of its pair of shards until it is answered. The holder of a
//! turn needs permits, too: it reads and writes on other shards. If calls that wait for its turn
//! took all permits, the holder would wait for them, and they for the holder. Each shard therefore
//! has at most [`MAX_TURN_CALLS`] such calls at a time, and each call counts until its *answer*
//! comes, because a caller that gives up does not stop the call.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use espalier_runtime::{spawn_local, sync::Permit};
use futures_util::future::LocalBoxFuture;

use super::Node;
use crate::{StorageError, TurnDeadline};

/// Maximum calls of a shard that may wait for turns on other shards at the same time (arbitrary). A
/// pair of shards has 4,096 permits.
pub(super) const MAX_TURN_CALLS: usize = 512;

/// The reason in the error of a statement whose call has not begun at its deadline.
const CROWD: &str = "Too many statements of its shard waited for rows of other shards";

/// The right to call other shards and to wait for turns there. Without a permit, the statement
/// calls no other shard.
#[must_use = "a call that waits for turns runs in `until_answered`"]
pub struct TurnCall {
    permit: Option<Permit>,
}

impl Node {
    /// Waits until a statement may take turns on these shards.
    ///
    /// # Errors
    /// [`StorageError::TurnTimedOut`] at the deadline.
    pub async fn begin_turn_call(
        &self,
        shards: &[usize],
        deadline: TurnDeadline,
    ) -> Result<TurnCall, StorageError> {
        if shards.iter().all(|shard| *shard == self.store().routing.context.index) {
            return Ok(TurnCall { permit: None });
        }
        // A transaction calls from shard to shard, and takes one unit for each shard of the node.
        // So the transactions of all shards together make at most as many calls between two shards
        // as one shard may make.
        let units = if shards.len() == 1 { 1 } else { self.store().routing.context.count };
        let permit = self.inner.turn_calls.acquire(units.min(MAX_TURN_CALLS));
        Ok(TurnCall { permit: Some(deadline.limit(permit, CROWD).await?) })
    }

    /// Runs `work` with the handle of a shard, where it may wait for turns until the deadline. Work
    /// on another shard continues if the caller drops the future.
    ///
    /// # Errors
    /// [`StorageError::TurnTimedOut`] if the call has not begun at the deadline.
    pub async fn call_in_turn<R, F, W>(
        &self,
        shard: usize,
        deadline: TurnDeadline,
        work: W,
    ) -> Result<R, StorageError>
    where
        R: Send + 'static,
        F: Future<Output = R> + 'static,
        W: FnOnce(Node) -> F + Send + 'static,
    {
        let call = self.begin_turn_call(&[shard], deadline).await?;
        Ok(call.until_answered(self.on_shard(shard, work)).await)
    }
}

impl TurnCall {
    /// Runs a call to other shards, and counts it until it is answered.
    pub async fn until_answered<F>(self, call: F) -> F::Output
    where
        F: Future + 'static,
    {
        match self.permit {
            None => call.await,
            Some(permit) => CountedCall { counted: Some((Box::pin(call), permit)) }.await,
        }
    }
}

/// A call with its permit. If it is dropped, a task of its own waits for the answer.
struct CountedCall<R: 'static> {
    counted: Option<(LocalBoxFuture<'static, R>, Permit)>,
}

impl<R: 'static> Future for CountedCall<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        // Taken out, so that a call that panics is not polled again.
        let Some((mut call, permit)) = self.counted.take() else { return Poll::Pending };
        let outcome = call.as_mut().poll(context);
        if outcome.is_pending() {
            self.counted = Some((call, permit));
        }
        outcome
    }
}

impl<R: 'static> Drop for CountedCall<R> {
    fn drop(&mut self) {
        if let Some((call, permit)) = self.counted.take() {
            let answered = async move {
                let _ = call.await;
                drop(permit);
            };
            spawn_local(answered).detach();
        }
    }
}
