//! A queue of waiters in the order of arrival, each with its need.
//!
//! Invariant: entries before `cursor` are granted or gone, entries from it on are waiting or gone;
//! so the next waiter is found without a search. A ticket is a position that never moves. Entries
//! that are gone are removed at both ends, so that gone entries after the last waiting one take no
//! memory. The future of a gone entry does not use its ticket any more, so a later entry may get an
//! equal ticket.

use std::collections::VecDeque;
use std::task::Waker;

pub(crate) struct WaitQueue<T> {
    entries: VecDeque<Entry<T>>,
    /// The ticket of the first entry.
    first: u64,
    /// Position of the first entry that may be waiting.
    cursor: usize,
}

enum Entry<T> {
    Waiting { waker: Waker, need: T },
    Granted,
    Gone,
}

/// The place of a future in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl<T> Default for WaitQueue<T> {
    fn default() -> Self {
        WaitQueue { entries: VecDeque::new(), first: 0, cursor: 0 }
    }
}

impl<T> WaitQueue<T> {
    pub(crate) fn enqueue(&mut self, need: T, waker: Waker) -> Ticket {
        self.entries.push_back(Entry::Waiting { waker, need });
        Ticket(self.first + self.entries.len() as u64 - 1)
    }

    /// Returns the need of the next waiter.
    pub(crate) fn next_need(&mut self) -> Option<&T> {
        while let Some(Entry::Gone) = self.entries.get(self.cursor) {
            self.cursor += 1;
        }
        self.trim();
        match self.entries.get(self.cursor) {
            Some(Entry::Waiting { need, .. }) => Some(need),
            _ => None,
        }
    }

    /// Grants the next waiter its need; the caller wakes it after ending its borrows.
    pub(crate) fn grant_next(&mut self) -> Option<(Waker, T)> {
        self.next_need()?;
        let entry = self.entries.get_mut(self.cursor)?;
        match std::mem::replace(entry, Entry::Granted) {
            Entry::Waiting { waker, need } => {
                self.cursor += 1;
                Some((waker, need))
            }
            other => {
                *entry = other;
                None
            }
        }
    }

    /// Returns whether the waiter was granted its need (its ticket is then used up); otherwise
    /// `waker` will be woken.
    pub(crate) fn poll(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        match self.entry(ticket) {
            Some(Entry::Waiting { waker: registered, .. }) => {
                registered.clone_from(waker);
                false
            }
            Some(entry) => {
                *entry = Entry::Gone;
                self.trim();
                true
            }
            None => true,
        }
    }

    /// Removes a waiter. Returns true if the waiter had been granted its need, which the caller
    /// must pass on.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> bool {
        let Some(entry) = self.entry(ticket) else { return false };
        let granted = matches!(entry, Entry::Granted);
        *entry = Entry::Gone;
        self.trim();
        granted
    }

    fn entry(&mut self, ticket: Ticket) -> Option<&mut Entry<T>> {
        let position = ticket.0.checked_sub(self.first)?;
        self.entries.get_mut(usize::try_from(position).ok()?)
    }

    fn trim(&mut self) {
        while let Some(Entry::Gone) = self.entries.front() {
            self.entries.pop_front();
            self.first += 1;
            self.cursor = self.cursor.saturating_sub(1);
        }
        while let Some(Entry::Gone) = self.entries.back() {
            self.entries.pop_back();
        }
        self.cursor = self.cursor.min(self.entries.len());
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn waiters_that_leave_the_queue_free_their_entries() {
        let mut queue = WaitQueue::default();
        let first = queue.enqueue(1, Waker::noop().clone());
        for round in 0..1_000 {
            let given_up = [round, round].map(|need| queue.enqueue(need, Waker::noop().clone()));
            for ticket in given_up {
                assert!(!queue.leave(ticket));
            }
        }
        assert_eq!(queue.entries.len(), 1);
        let last = queue.enqueue(2, Waker::noop().clone());
        assert_eq!(queue.grant_next().map(|(_, need)| need), Some(1));
        assert!(queue.poll(first, Waker::noop()));
        assert!(!queue.poll(last, Waker::noop()));
        assert_eq!(queue.grant_next().map(|(_, need)| need), Some(2));
        assert!(queue.leave(last), "it was granted and passes that on");
        assert!(queue.entries.is_empty());
    }
}
