//! A queue of waiters in the order of arrival, each with its need.
//!
//! The waiters are a doubly linked list of slots, so that a waiter leaves any position in constant
//! time. A granted waiter leaves the list but keeps its slot until its future uses the ticket for
//! the last time. A new waiter takes a free slot if there is one, so the number of slots is the
//! maximum number of waiters at one time. A ticket is the index of a slot, so a later waiter may
//! get an equal ticket.

use std::task::Waker;

/// An index that no slot has.
const NONE: u32 = u32::MAX;

pub(crate) struct WaitQueue<T> {
    slots: Vec<Slot<T>>,
    first: u32,
    last: u32,
    free: u32,
}

struct Slot<T> {
    /// `None` if the waiter was granted its need, or if the slot is free.
    waiter: Option<(Waker, T)>,
    previous: u32,
    /// The next waiter, or after a free slot the next free one.
    next: u32,
}

/// The place of a future in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

impl<T> Default for WaitQueue<T> {
    fn default() -> Self {
        WaitQueue { slots: Vec::new(), first: NONE, last: NONE, free: NONE }
    }
}

impl<T> WaitQueue<T> {
    pub(crate) fn enqueue(&mut self, need: T, waker: Waker) -> Ticket {
        let slot = Slot { waiter: Some((waker, need)), previous: self.last, next: NONE };
        let index = match self.slots.get_mut(self.free as usize) {
            Some(free) => {
                let next_free = std::mem::replace(free, slot).next;
                std::mem::replace(&mut self.free, next_free)
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        match self.slots.get_mut(self.last as usize) {
            Some(last) => last.next = index,
            None => self.first = index,
        }
        self.last = index;
        Ticket(index)
    }

    /// Returns the need of the next waiter.
    pub(crate) fn next_need(&self) -> Option<&T> {
        let (_, need) = self.slots.get(self.first as usize)?.waiter.as_ref()?;
        Some(need)
    }

    /// Grants the next waiter its need; the caller wakes it after ending its borrows.
    pub(crate) fn grant_next(&mut self) -> Option<(Waker, T)> {
        let next = Ticket(self.first);
        let waiter = self.slots.get_mut(next.0 as usize)?.waiter.take()?;
        self.unlink(next);
        Some(waiter)
    }

    /// Returns whether the waiter was granted its need (its ticket is then used up); otherwise
    /// `waker` will be woken.
    pub(crate) fn poll(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        let slot = self.slots.get_mut(ticket.0 as usize);
        match slot.and_then(|slot| slot.waiter.as_mut()) {
            Some((registered, _)) => {
                registered.clone_from(waker);
                false
            }
            None => {
                self.release(ticket);
                true
            }
        }
    }

    /// Removes a waiter. Returns true if the waiter had been granted its need, which the caller
    /// must pass on.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> bool {
        let Some(slot) = self.slots.get_mut(ticket.0 as usize) else { return false };
        let granted = slot.waiter.take().is_none();
        if !granted {
            self.unlink(ticket);
        }
        self.release(ticket);
        granted
    }

    /// Takes a slot out of the list of waiters.
    fn unlink(&mut self, ticket: Ticket) {
        let Some(slot) = self.slots.get(ticket.0 as usize) else { return };
        let (previous, next) = (slot.previous, slot.next);
        match self.slots.get_mut(previous as usize) {
            Some(slot) => slot.next = next,
            None => self.first = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(slot) => slot.previous = previous,
            None => self.last = previous,
        }
    }

    /// Adds a slot that is not in the list of waiters to the free ones.
    fn release(&mut self, ticket: Ticket) {
        if let Some(slot) = self.slots.get_mut(ticket.0 as usize) {
            slot.next = std::mem::replace(&mut self.free, ticket.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;

    type Waiters = Vec<(Ticket, usize)>;

    #[test]
    fn waiters_that_leave_behind_a_waiting_one_free_their_slots() {
        let mut queue = WaitQueue::default();
        let first = queue.enqueue(0, Waker::noop().clone());
        let mut short = queue.enqueue(1, Waker::noop().clone());
        for need in 2..1_000 {
            let next = queue.enqueue(need, Waker::noop().clone());
            assert!(!queue.leave(short));
            short = next;
        }
        assert_eq!(queue.slots.len(), 3);
        assert_eq!(queue.grant_next().map(|(_, need)| need), Some(0));
        assert!(queue.poll(first, Waker::noop()));
        assert!(!queue.poll(short, Waker::noop()));
        assert_eq!(queue.grant_next().map(|(_, need)| need), Some(999));
        assert!(queue.leave(short), "it was granted and passes that on");
        assert_eq!(queue.next_need(), None);
    }

    proptest! {
        #![proptest_config(espalier_testing::properties(2000))]

        /// Compares with a model: the tickets and needs in the order of arrival.
        #[test]
        fn waiters_are_granted_in_order_and_reuse_slots(
            steps in prop::collection::vec((0..7u8, 0..100usize), 1..100)
        ) {
            let mut queue = WaitQueue::default();
            let (mut waiting, mut granted) = (Waiters::new(), Waiters::new());
            let mut most = 0;
            for (need, (kind, at)) in steps.into_iter().enumerate() {
                match kind {
                    0..=2 => waiting.push((queue.enqueue(need, Waker::noop().clone()), need)),
                    3 => {
                        let next = (!waiting.is_empty()).then(|| waiting.remove(0));
                        let need = queue.grant_next().map(|(_, need)| need);
                        prop_assert_eq!(need, next.map(|(_, need)| need));
                        granted.extend(next);
                    }
                    4 if !waiting.is_empty() => {
                        let (ticket, _) = waiting.remove(at % waiting.len());
                        prop_assert!(!queue.poll(ticket, Waker::noop()) && !queue.leave(ticket));
                    }
                    5 if !granted.is_empty() => {
                        let (ticket, _) = granted.remove(at % granted.len());
                        prop_assert!(queue.poll(ticket, Waker::noop()));
                    }
                    6 if !granted.is_empty() => {
                        let (ticket, _) = granted.remove(at % granted.len());
                        prop_assert!(queue.leave(ticket));
                    }
                    _ => {}
                }
                most = most.max(waiting.len() + granted.len());
                prop_assert_eq!(queue.slots.len(), most);
                prop_assert_eq!(queue.next_need(), waiting.first().map(|(_, need)| need));
            }
        }
    }
}
