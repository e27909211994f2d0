//! A cross-shard call: the closure on its way out, the obligation to answer, the outcome on its way
//! back.

use super::Inbox;
use super::inbox::Message;
use crate::scheduling::SchedulingGroup;
use crate::trace::{self, Trace, TraceLog, TraceSeed};
use crate::{event_loop, task, trace_event};
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The target shard ended before it answered; whether the work was done is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shard stopped before it answered")]
pub struct ShardStopped;

/// The outcome of a call.
pub(crate) enum Outcome {
    /// The output, a boxed `R`.
    Done(Box<dyn Any + Send>),
    Panicked(Box<dyn Any + Send>),
    /// The outcome of a traced call, and the events that it recorded.
    Traced(Box<(Outcome, TraceLog)>),
    Stopped,
}

/// A call as the target shard sees it.
pub(crate) trait CallMessage: Send {
    /// Spawns a task on the target shard, which makes the future and polls it.
    fn start(self: Box<Self>);
}

pub(crate) struct Request<W> {
    pub(crate) work: W,
    pub(crate) reply: Reply,
    pub(crate) location: &'static Location<'static>,
    pub(crate) trace: Option<TraceSeed>,
    pub(crate) group: SchedulingGroup,
}

impl<R, F, W> CallMessage for Request<W>
where
    R: Send + 'static,
    F: Future<Output = R> + 'static,
    W: FnOnce() -> F + Send + 'static,
{
    fn start(self: Box<Self>) {
        let Request { work, reply, location, trace, group } = *self;
        let trace = trace.map(Trace::of_seed);
        let future = async move {
            let made = catch_unwind(AssertUnwindSafe(|| match &trace {
                None => work(),
                Some(trace) => trace.enter(|| {
                    trace_event!("Message of another shard received");
                    work()
                }),
            }));
            let outcome = match made {
                Ok(future) => CatchPanic(trace::traced(trace.clone(), future)).await,
                Err(panic) => Err(panic),
            };
            let outcome = match outcome {
                Ok(value) => Outcome::Done(Box::new(value)),
                Err(panic) => Outcome::Panicked(panic),
            };
            reply.send(match trace {
                None => outcome,
                Some(trace) => Outcome::Traced(Box::new((outcome, trace.take_log()))),
            });
        };
        task::spawn_in(group, location, future).detach();
    }
}

/// The obligation to answer. A reply that is dropped without [`Reply::send`] answers
/// [`Outcome::Stopped`].
pub(crate) struct Reply {
    to: Arc<Inbox>,
    key: usize,
    sent: bool,
}

impl Reply {
    pub(crate) fn new(to: Arc<Inbox>, key: usize) -> Self {
        Reply { to, key, sent: false }
    }

    fn send(mut self, outcome: Outcome) {
        self.sent = true;
        post(&self.to, Message::Answer { key: self.key, outcome });
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.sent {
            post(&self.to, Message::Answer { key: self.key, outcome: Outcome::Stopped });
        }
    }
}

fn post(to: &Arc<Inbox>, message: Message) {
    match event_loop::current() {
        Some(state) => state.calls.send(to, message),
        None => to.hand_over_one(message),
    }
}

/// Turns a panic of the inner future into an output.
struct CatchPanic<F>(F);

impl<F: Future> Future for CatchPanic<F> {
    type Output = Result<F::Output, Box<dyn Any + Send>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the only field is pinned with `self` and never moved out; there is no `Drop`.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
