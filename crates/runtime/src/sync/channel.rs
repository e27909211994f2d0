//! A channel from many tasks to one, inside of one shard.

use super::{Notify, Permit, Semaphore};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

struct Shared<T> {
    queue: VecDeque<(T, Option<Permit>)>,
    senders: usize,
    receiver_gone: bool,
}

struct Channel<T> {
    shared: RefCell<Shared<T>>,
    arrived: Notify,
    /// `None` when unbounded.
    places: Option<Semaphore>,
}

/// The sending end of a channel; clone it for more senders.
pub struct Sender<T> {
    channel: Rc<Channel<T>>,
}

/// The receiving end of a channel.
pub struct Receiver<T> {
    channel: Rc<Channel<T>>,
}

/// The receiver is gone; the error returns the value.
pub struct ReceiverGone<T>(pub T);

impl<T> fmt::Debug for ReceiverGone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReceiverGone")
    }
}

/// The reason why [`Sender::try_send`] did not send; it returns the value.
pub enum TrySendError<T> {
    /// The channel is full.
    Full(T),
    /// The receiver is gone.
    ReceiverGone(T),
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "Full",
            TrySendError::ReceiverGone(_) => "ReceiverGone",
        })
    }
}

/// Creates a channel that holds at most `capacity` (at least 1) values; senders wait while it is
/// full.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    channel(Some(Semaphore::new(capacity.max(1))))
}

/// Creates a channel without a bound. Use it only if something else bounds the senders.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    channel(None)
}

fn channel<T>(places: Option<Semaphore>) -> (Sender<T>, Receiver<T>) {
    let shared = Shared { queue: VecDeque::new(), senders: 1, receiver_gone: false };
    let channel = Rc::new(Channel { shared: RefCell::new(shared), arrived: Notify::new(), places });
    (Sender { channel: Rc::clone(&channel) }, Receiver { channel })
}

impl<T> Sender<T> {
    /// Sends a value; waits for a place if the channel is full.
    ///
    /// # Errors
    /// Returns the value if the receiver is gone.
    pub async fn send(&self, value: T) -> Result<(), ReceiverGone<T>> {
        let permit = match &self.channel.places {
            Some(places) => Some(places.acquire(1).await),
            None => None,
        };
        self.push(value, permit).map_err(ReceiverGone)
    }

    /// Sends a value if there is a place.
    ///
    /// # Errors
    /// Returns the value if the channel is full or the receiver is gone.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let permit = match &self.channel.places {
            None => None,
            Some(places) => match places.try_acquire(1) {
                Some(permit) => Some(permit),
                None => return Err(TrySendError::Full(value)),
            },
        };
        self.push(value, permit).map_err(TrySendError::ReceiverGone)
    }

    /// Returns whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.channel.shared.borrow().receiver_gone
    }

    fn push(&self, value: T, permit: Option<Permit>) -> Result<(), T> {
        let mut shared = self.channel.shared.borrow_mut();
        if shared.receiver_gone {
            drop(shared);
            return Err(value);
        }
        shared.queue.push_back((value, permit));
        drop(shared);
        self.channel.arrived.notify_one();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.shared.borrow_mut().senders += 1;
        Sender { channel: Rc::clone(&self.channel) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut shared = self.channel.shared.borrow_mut();
        shared.senders -= 1;
        let last = shared.senders == 0;
        drop(shared);
        if last {
            self.channel.arrived.notify_one();
        }
    }
}

impl<T> Receiver<T> {
    /// Returns the next value; `None` when all senders are gone and the queue is empty.
    pub async fn receive(&mut self) -> Option<T> {
        loop {
            if let Some(value) = self.try_receive() {
                return Some(value);
            }
            if self.channel.shared.borrow().senders == 0 {
                return None;
            }
            self.channel.arrived.notified().await;
        }
    }

    /// Returns the next value if the queue has one.
    pub fn try_receive(&mut self) -> Option<T> {
        let next = self.channel.shared.borrow_mut().queue.pop_front();
        next.map(|(value, _permit)| value)
    }

    /// Returns the number of values in the queue.
    pub fn len(&self) -> usize {
        self.channel.shared.borrow().queue.len()
    }

    /// Returns whether no value waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut shared = self.channel.shared.borrow_mut();
        shared.receiver_gone = true;
        let unwanted = std::mem::take(&mut shared.queue);
        drop(shared);
        // Frees the places, so that waiting senders learn that the receiver is gone.
        drop(unwanted);
    }
}
