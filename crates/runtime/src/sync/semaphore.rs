//! A counting semaphore; its units may be bytes.

use super::wait_queue::{Ticket, WaitQueue};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Grants units in the order of the requests: small requests do not starve a large one in front of
/// them. Clones share the units.
#[derive(Clone)]
pub struct Semaphore {
    shared: Rc<RefCell<Shared>>,
}

struct Shared {
    available: usize,
    queue: WaitQueue<usize>,
}

impl Semaphore {
    /// Creates a semaphore with `units` free.
    pub fn new(units: usize) -> Self {
        Semaphore {
            shared: Rc::new(RefCell::new(Shared { available: units, queue: WaitQueue::default() })),
        }
    }

    /// Returns the number of free units.
    pub fn available(&self) -> usize {
        self.shared.borrow().available
    }

    /// Returns whether a task waits for units.
    pub fn has_waiters(&self) -> bool {
        self.shared.borrow().queue.next_need().is_some()
    }

    /// Waits for `units`. A request for more units than will ever be free waits for ever: clamp
    /// byte counts to the capacity.
    pub fn acquire(&self, units: usize) -> Acquire<'_> {
        Acquire { semaphore: self, units, state: State::New }
    }

    /// Takes `units` if they are free and no task waits.
    pub fn try_acquire(&self, units: usize) -> Option<Permit> {
        let mut shared = self.shared.borrow_mut();
        if shared.available < units || shared.queue.next_need().is_some() {
            return None;
        }
        shared.available -= units;
        Some(Permit { semaphore: self.clone(), units })
    }

    /// Puts `units` back, or adds new ones.
    pub fn release(&self, units: usize) {
        let mut shared = self.shared.borrow_mut();
        shared.available = shared.available.saturating_add(units);
        drop(shared);
        self.grant();
    }

    fn grant(&self) {
        loop {
            let mut shared = self.shared.borrow_mut();
            let available = shared.available;
            let Some(need) = shared.queue.next_need().copied() else { return };
            if need > available {
                return;
            }
            shared.available -= need;
            let granted = shared.queue.grant_next();
            drop(shared);
            if let Some((waker, _)) = granted {
                waker.wake();
            }
        }
    }
}

/// The future of [`Semaphore::acquire`].
#[must_use = "nothing is acquired before it is awaited"]
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    units: usize,
    state: State,
}

enum State {
    New,
    Waiting(Ticket),
    Done,
}

impl Future for Acquire<'_> {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let (semaphore, units) = (self.semaphore, self.units);
        match self.state {
            State::New => {
                if let Some(permit) = semaphore.try_acquire(units) {
                    self.state = State::Done;
                    return Poll::Ready(permit);
                }
                let mut shared = semaphore.shared.borrow_mut();
                let ticket = shared.queue.enqueue(units, context.waker().clone());
                self.state = State::Waiting(ticket);
                Poll::Pending
            }
            State::Waiting(ticket) => {
                if !semaphore.shared.borrow_mut().queue.poll(ticket, context.waker()) {
                    return Poll::Pending;
                }
                self.state = State::Done;
                Poll::Ready(Permit { semaphore: semaphore.clone(), units })
            }
            State::Done => Poll::Pending,
        }
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if let State::Waiting(ticket) = self.state {
            let granted = self.semaphore.shared.borrow_mut().queue.leave(ticket);
            if granted {
                self.semaphore.release(self.units);
            } else {
                // A large request that leaves may have blocked smaller ones.
                self.semaphore.grant();
            }
        }
    }
}

/// Units taken from a semaphore; dropping the permit gives them back.
#[must_use = "a dropped permit gives its units back"]
pub struct Permit {
    semaphore: Semaphore,
    units: usize,
}

impl Permit {
    /// Returns the number of units of this permit.
    pub fn units(&self) -> usize {
        self.units
    }

    /// Keeps the units taken; the caller must call [`Semaphore::release`] later.
    pub fn forget(mut self) {
        self.units = 0;
    }

    /// Gives back all but `units`; does nothing if the permit holds no more than that.
    pub fn shrink_to(&mut self, units: usize) {
        let surplus = self.units.saturating_sub(units);
        if surplus > 0 {
            self.units -= surplus;
            self.semaphore.release(surplus);
        }
    }

    /// Takes over the units of another permit of the same semaphore.
    ///
    /// Panics if the other permit is of another semaphore.
    pub fn merge(&mut self, mut other: Permit) {
        assert!(
            Rc::ptr_eq(&self.semaphore.shared, &other.semaphore.shared),
            "not the same semaphore"
        );
        self.units += std::mem::take(&mut other.units);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.units > 0 {
            self.semaphore.release(self.units);
        }
    }
}
