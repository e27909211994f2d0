//! A thread's own side of its calls: the outboxes, and the calls that wait for an answer.
//!
//! Memory: one outbox and one semaphore for each inbox that the thread has ever sent a message to,
//! and one slot for each unanswered call, kept for reuse.

use super::call::{CallMessage, Outcome, Reply, Request};
use super::inbox::Message;
use super::{BATCH, Inbox, MAX_IN_FLIGHT, ShardStopped};
use crate::event_loop::{self, LoopState};
use crate::scheduling::SchedulingGroup;
use crate::sync::Semaphore;
use crate::trace;
use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{Location, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

#[derive(Default)]
pub(crate) struct LocalCalls {
    outboxes: RefCell<Vec<Outbox>>,
    waiting: RefCell<Waiting>,
}

struct Outbox {
    to: Arc<Inbox>,
    messages: Vec<Message>,
    permits: Semaphore,
}

#[derive(Default)]
struct Waiting {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

struct Slot {
    state: SlotState,
    permits: Option<Semaphore>,
}

enum SlotState {
    Free,
    Waiting(Option<Waker>),
    Answered(Outcome),
    /// The caller dropped its future; the answer frees the slot.
    Abandoned,
}

/// Sends a call, or returns a future that sends it once the bound has a free permit.
#[track_caller]
pub(crate) fn begin_call<R, F, W>(
    state: &LoopState,
    to: &Arc<Inbox>,
    work: W,
) -> impl Future<Output = Result<R, ShardStopped>> + use<R, F, W>
where
    R: Send + 'static,
    F: Future<Output = R> + 'static,
    W: FnOnce() -> F + Send + 'static,
{
    let location = Location::caller();
    let permits = state.calls.permits(to);
    let begun = if permits.try_acquire(1).map(|permit| permit.forget()).is_some() {
        Ok(state.calls.begin(state, to, &permits, work, location))
    } else {
        Err((Arc::clone(to), permits, work))
    };
    async move {
        let answer = match begun {
            Ok(answer) => answer,
            Err((to, permits, work)) => {
                permits.acquire(1).await.forget();
                let state = event_loop::expect_current();
                state.calls.begin(&state, &to, &permits, work, location)
            }
        };
        answer.await
    }
}

impl LocalCalls {
    /// Puts a message into the outbox for `to`.
    pub(crate) fn send(&self, to: &Arc<Inbox>, message: Message) {
        let mut outboxes = self.outboxes.borrow_mut();
        let outbox = find(&mut outboxes, to);
        outbox.messages.push(message);
        if outbox.messages.len() >= BATCH {
            let mut batch = std::mem::take(&mut outbox.messages);
            drop(outboxes);
            to.hand_over(&mut batch);
            self.keep_capacity(to, batch);
        }
    }

    /// Hands over the messages of all outboxes.
    pub(crate) fn flush_all(&self) {
        loop {
            let mut outboxes = self.outboxes.borrow_mut();
            // Each pass begins at the first outbox, because a hand-over may post to any outbox.
            let filled = outboxes.iter_mut().find(|outbox| !outbox.messages.is_empty());
            let Some(outbox) = filled else { return };
            let to = Arc::clone(&outbox.to);
            let mut batch = std::mem::take(&mut outbox.messages);
            // Not borrowed during the hand-over: a closed inbox drops the messages, and their
            // destructors may post answers here.
            drop(outboxes);
            to.hand_over(&mut batch);
            self.keep_capacity(&to, batch);
        }
    }

    fn keep_capacity(&self, to: &Arc<Inbox>, batch: Vec<Message>) {
        let mut outboxes = self.outboxes.borrow_mut();
        let outbox = find(&mut outboxes, to);
        if outbox.messages.is_empty() {
            outbox.messages = batch;
        }
    }

    fn permits(&self, to: &Arc<Inbox>) -> Semaphore {
        find(&mut self.outboxes.borrow_mut(), to).permits.clone()
    }

    fn begin<R, F, W>(
        &self,
        state: &LoopState,
        to: &Arc<Inbox>,
        permits: &Semaphore,
        work: W,
        location: &'static Location<'static>,
    ) -> Answer<R>
    where
        R: Send + 'static,
        F: Future<Output = R> + 'static,
        W: FnOnce() -> F + Send + 'static,
    {
        let key = self.waiting.borrow_mut().insert(permits.clone());
        let reply = Reply::new(Arc::clone(&state.inbox), key);
        let (trace, group) = (trace::seed(), SchedulingGroup::current());
        let request: Box<dyn CallMessage> =
            Box::new(Request { work, reply, location, trace, group });
        self.send(to, Message::Call(request));
        Answer { key, done: false, output: PhantomData }
    }

    /// Stores an answer, frees the permit of the call and wakes its caller.
    pub(crate) fn answer(&self, key: usize, outcome: Outcome) {
        let (waker, permits, unwanted);
        {
            let mut waiting = self.waiting.borrow_mut();
            let Some(slot) = waiting.slots.get_mut(key) else { return };
            permits = slot.permits.take();
            match std::mem::replace(&mut slot.state, SlotState::Free) {
                SlotState::Waiting(waiter) => {
                    slot.state = SlotState::Answered(outcome);
                    waker = waiter;
                    unwanted = None;
                }
                _ => {
                    waiting.free.push(key);
                    waker = None;
                    unwanted = Some(outcome);
                }
            }
        }
        if let Some(permits) = permits {
            permits.release(1);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        drop(unwanted);
    }
}

fn find<'a>(outboxes: &'a mut Vec<Outbox>, to: &Arc<Inbox>) -> &'a mut Outbox {
    let index = match outboxes.iter().position(|outbox| Arc::ptr_eq(&outbox.to, to)) {
        Some(index) => index,
        None => {
            let permits = Semaphore::new(MAX_IN_FLIGHT);
            outboxes.push(Outbox { to: Arc::clone(to), messages: Vec::new(), permits });
            outboxes.len() - 1
        }
    };
    &mut outboxes[index]
}

impl Waiting {
    fn insert(&mut self, permits: Semaphore) -> usize {
        let slot = Slot { state: SlotState::Waiting(None), permits: Some(permits) };
        match self.free.pop() {
            Some(key) => {
                self.slots[key] = slot;
                key
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }
}

/// A future that waits for the answer under `key`. It stays on the thread that made it.
struct Answer<R> {
    key: usize,
    done: bool,
    output: PhantomData<(R, *const ())>,
}

impl<R> Unpin for Answer<R> {}

impl<R: 'static> Future for Answer<R> {
    type Output = Result<R, ShardStopped>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(state) = event_loop::current() else { return Poll::Ready(Err(ShardStopped)) };
        let mut waiting = state.calls.waiting.borrow_mut();
        let key = self.key;
        let Some(slot) = waiting.slots.get_mut(key) else { return Poll::Ready(Err(ShardStopped)) };
        if let SlotState::Waiting(waker) = &mut slot.state {
            match waker {
                Some(waker) if waker.will_wake(context.waker()) => {}
                _ => *waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        let answered = std::mem::replace(&mut slot.state, SlotState::Free);
        waiting.free.push(key);
        self.done = true;
        drop(waiting);
        let SlotState::Answered(mut outcome) = answered else {
            return Poll::Ready(Err(ShardStopped));
        };
        if let Outcome::Traced(traced) = outcome {
            trace::absorb(traced.1);
            outcome = traced.0;
        }
        Poll::Ready(match outcome {
            Outcome::Done(value) => match value.downcast() {
                Ok(value) => Ok(*value),
                Err(_) => Err(ShardStopped),
            },
            Outcome::Panicked(panic) => resume_unwind(panic),
            Outcome::Traced(_) | Outcome::Stopped => Err(ShardStopped),
        })
    }
}

impl<R> Drop for Answer<R> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let Some(state) = event_loop::current() else { return };
        let mut waiting = state.calls.waiting.borrow_mut();
        let Some(slot) = waiting.slots.get_mut(self.key) else { return };
        match std::mem::replace(&mut slot.state, SlotState::Abandoned) {
            SlotState::Waiting(_) => {}
            answered => {
                slot.state = SlotState::Free;
                waiting.free.push(self.key);
                drop(waiting);
                drop(answered);
            }
        }
    }
}
