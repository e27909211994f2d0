//! Wakes tasks that wait for a notification that something changed.

use super::wait_queue::{Ticket, WaitQueue};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A stored notification and a queue of waiters. Clones share them.
#[derive(Clone, Default)]
pub struct Notify {
    shared: Rc<RefCell<Shared>>,
}

#[derive(Default)]
struct Shared {
    stored: bool,
    queue: WaitQueue<()>,
}

impl Notify {
    /// Creates a `Notify` without a stored notification.
    pub fn new() -> Self {
        Notify::default()
    }

    /// Wakes the first waiter; if no task waits, stores the notification for the next waiter. At
    /// most one notification is stored.
    pub fn notify_one(&self) {
        let mut shared = self.shared.borrow_mut();
        let granted = shared.queue.grant_next();
        shared.stored |= granted.is_none();
        drop(shared);
        if let Some((waker, ())) = granted {
            waker.wake();
        }
    }

    /// Wakes all tasks that wait at this moment; stores nothing.
    pub fn notify_all(&self) {
        loop {
            let granted = self.shared.borrow_mut().queue.grant_next();
            match granted {
                Some((waker, ())) => waker.wake(),
                None => return,
            }
        }
    }

    /// Waits for a notification.
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, ticket: None, done: false }
    }
}

/// The future of [`Notify::notified`]. If it is dropped after it was woken, it passes the
/// notification on.
#[must_use = "nothing waits before it is awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    ticket: Option<Ticket>,
    done: bool,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.done {
            return Poll::Ready(());
        }
        let mut shared = self.notify.shared.borrow_mut();
        let ready = match self.ticket {
            Some(ticket) => shared.queue.poll(ticket, context.waker()),
            None => std::mem::take(&mut shared.stored),
        };
        if ready {
            drop(shared);
            self.done = true;
            return Poll::Ready(());
        }
        let ticket = match self.ticket {
            Some(ticket) => ticket,
            None => shared.queue.enqueue((), context.waker().clone()),
        };
        drop(shared);
        self.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        if let Some(ticket) = self.ticket {
            let granted = self.notify.shared.borrow_mut().queue.leave(ticket);
            if granted {
                self.notify.notify_one();
            }
        }
    }
}
