//! Who gave way, in the order in which they run again.
//!
//! Invariant: of one waker there is one entry at most, however often what it wakes gives way meanwhile. A task of several futures, of
//! which each gives way, is polled as a whole for the first entry, and each future gives way again: with an entry for each of them
//! there would be more from turn to turn, and others would wait ever longer behind them.
//! Memory: two words and a waker per task that gave way.

use std::{
    collections::{HashSet, VecDeque},
    task::Waker,
};

#[derive(Default)]
pub(super) struct GaveWay {
    /// The first of them first; the last `new` gave way since the kernel was asked.
    wakers: VecDeque<Waker>,
    new: usize,
    /// What `wakers` holds, by identity.
    listed: HashSet<(usize, usize)>,
}

/// As [`Waker::will_wake`] compares them.
fn identity(waker: &Waker) -> (usize, usize) {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

impl GaveWay {
    /// Returns whether `waker` was not there yet.
    pub(super) fn push(&mut self, waker: &Waker) -> bool {
        let is_new = self.listed.insert(identity(waker));
        if is_new {
            self.wakers.push_back(waker.clone());
            self.new += 1;
        }
        is_new
    }

    /// The kernel was asked: all may run again.
    pub(super) fn let_run(&mut self) {
        self.new = 0;
    }

    /// The first of those that may run again.
    pub(super) fn pop_first(&mut self) -> Option<Waker> {
        if self.wakers.len() == self.new {
            return None;
        }
        let waker = self.wakers.pop_front()?;
        self.listed.remove(&identity(&waker));
        Some(waker)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }
}
