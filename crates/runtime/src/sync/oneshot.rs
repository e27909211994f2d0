//! A oneshot channel moves one value from one task to another.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Shared<T> {
    value: Option<T>,
    sender_gone: bool,
    receiver_gone: bool,
    waker: Option<Waker>,
}

/// The end that sends the value.
pub struct Sender<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// The end that waits for the value.
#[must_use = "a receiver does nothing until it is awaited"]
pub struct Receiver<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// The sender was dropped without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sender was dropped without a value")]
pub struct SenderGone;

/// Creates two connected ends.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Rc::new(RefCell::new(Shared {
        value: None,
        sender_gone: false,
        receiver_gone: false,
        waker: None,
    }));
    (Sender { shared: Rc::clone(&shared) }, Receiver { shared })
}

impl<T> Sender<T> {
    /// Sends the value.
    ///
    /// # Errors
    /// Returns the value if the receiver was dropped.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut shared = self.shared.borrow_mut();
        if shared.receiver_gone {
            return Err(value);
        }
        shared.value = Some(value);
        Ok(())
        // Dropping `self` wakes the receiver.
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut shared = self.shared.borrow_mut();
        shared.sender_gone = true;
        let waker = shared.waker.take();
        drop(shared);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, SenderGone>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.shared.borrow_mut();
        if let Some(value) = shared.value.take() {
            return Poll::Ready(Ok(value));
        }
        if shared.sender_gone {
            return Poll::Ready(Err(SenderGone));
        }
        match &mut shared.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut shared = self.shared.borrow_mut();
        shared.receiver_gone = true;
        let unwanted = (shared.value.take(), shared.waker.take());
        drop(shared);
        drop(unwanted);
    }
}
