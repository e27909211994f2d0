//! The inbox of a shard, in which other threads leave messages: a locked vector that the shard
//! swaps out whole.
//!
//! The lock is held while a batch of messages is moved or the vector is swapped. Only threads that
//! use the inbox at the same moment contend for it.
//!
//! Memory: two vectors that grow to the largest backlog (bounded by the callers, see [`super`]) and
//! keep their capacity.

use super::call::{CallMessage, Outcome};
use crate::event_loop::LoopState;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

pub(crate) enum Message {
    /// A call that the inbox's thread starts.
    Call(Box<dyn CallMessage>),
    /// The answer to the call that this thread keeps under `key`.
    Answer { key: usize, outcome: Outcome },
    /// Only wakes the loop, which then looks at its state.
    Nudge,
}

pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    has_messages: AtomicBool,
    waker: Waker,
}

#[derive(Default)]
struct Queue {
    messages: Vec<Message>,
    closed: bool,
}

thread_local! {
    /// The vector that the next [`Inbox::receive`] swaps in, so that no iteration allocates.
    static SPARE: RefCell<Vec<Message>> = const { RefCell::new(Vec::new()) };
}

impl Inbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Inbox { queue: Mutex::default(), has_messages: AtomicBool::new(false), waker }
    }

    /// Returns the waker of the inbox's thread. Its wake is async-signal-safe (an atomic and at
    /// most one `write`).
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Hands over `batch` (left empty) and wakes the thread. Messages to a closed inbox are
    /// dropped, which answers the calls among them with [`super::ShardStopped`].
    pub(crate) fn hand_over(&self, batch: &mut Vec<Message>) {
        if batch.is_empty() {
            return;
        }
        let mut queue = self.lock();
        if queue.closed {
            drop(queue);
            batch.clear();
            return;
        }
        queue.messages.append(batch);
        self.has_messages.store(true, Ordering::Release);
        drop(queue);
        self.waker.wake_by_ref();
    }

    pub(crate) fn hand_over_one(&self, message: Message) {
        self.hand_over(&mut vec![message]);
    }

    /// Returns whether messages wait. The answer is reliable only after a full fence that follows
    /// the last call to the kernel.
    pub(crate) fn has_messages(&self) -> bool {
        self.has_messages.load(Ordering::Acquire)
    }

    /// Takes all messages: starts the calls as tasks, and passes the answers to their callers.
    pub(crate) fn receive(&self, state: &LoopState) {
        if !self.has_messages() {
            return;
        }
        let mut messages = SPARE.with(|spare| std::mem::take(&mut *spare.borrow_mut()));
        {
            let mut queue = self.lock();
            std::mem::swap(&mut messages, &mut queue.messages);
            self.has_messages.store(false, Ordering::Release);
        }
        for message in messages.drain(..) {
            match message {
                Message::Call(call) => call.start(),
                Message::Answer { key, outcome } => state.calls.answer(key, outcome),
                Message::Nudge => {}
            }
        }
        SPARE.with(|spare| *spare.borrow_mut() = messages);
    }

    /// Refuses further messages and drops the waiting ones.
    pub(crate) fn close(&self) {
        let messages = {
            let mut queue = self.lock();
            queue.closed = true;
            std::mem::take(&mut queue.messages)
        };
        drop(messages);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
