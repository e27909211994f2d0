//! Who gave way, in the order in which they run again, and for how long each had held the core.
//!
//! Invariant: of one waker there is one entry at most, however often what it wakes gives way meanwhile. A task of several futures, of
//! which each gives way, is polled as a whole for the first entry, and each future gives way again: with an entry for each of them
//! there would be more from turn to turn, and others would wait ever longer behind them.
//! Memory: three words and a waker per task that gave way; where a task has wakers of its own for its futures, per future.

use std::{
    collections::{HashSet, VecDeque},
    task::Waker,
};

#[derive(Default)]
pub(super) struct GaveWay {
    /// The first of them first; the last `new` gave way since the kernel was asked.
    entries: VecDeque<Entry>,
    new: usize,
    /// The wakers of `entries`, by identity.
    listed: HashSet<Identity>,
}

struct Entry {
    waker: Waker,
    held_ticks: u64,
}

type Identity = (usize, usize);

/// As [`Waker::will_wake`] compares them. A clone may have another one than what it is a clone of, which may lie on the stack.
fn identity(waker: &Waker) -> Identity {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

impl GaveWay {
    /// Somebody gave way after so many ticks.
    pub(super) fn push(&mut self, waker: Waker, held_ticks: u64) {
        if self.listed.insert(identity(&waker)) {
            self.entries.push_back(Entry { waker, held_ticks });
            self.new += 1;
        } else if let Some(last) =
            self.entries.back_mut().filter(|last| last.waker.will_wake(&waker))
        {
            // Another future of the same poll.
            last.held_ticks = held_ticks;
        }
    }

    /// The kernel was asked: all may run again.
    pub(super) fn let_run(&mut self) {
        self.new = 0;
    }

    /// Of those that may run again, the waker of the first, and for how many ticks that one had held the core.
    pub(super) fn pop_first(&mut self) -> Option<(Waker, u64)> {
        if self.entries.len() == self.new {
            return None;
        }
        let Entry { waker, held_ticks } = self.entries.pop_front()?;
        self.listed.remove(&identity(&waker));
        Some((waker, held_ticks))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        task::{RawWaker, RawWakerVTable, Wake},
    };

    use super::*;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }

    /// A waker whose clones are others.
    fn on_the_stack(clones: &Waker) -> Waker {
        const TABLE: RawWakerVTable = RawWakerVTable::new(
            |data| {
                // SAFETY: `data` is the waker that the test holds.
                let waker = unsafe { &*data.cast::<Waker>() }.clone();
                let (data, vtable) = (waker.data(), waker.vtable());
                std::mem::forget(waker);
                RawWaker::new(data, vtable)
            },
            |_| {},
            |_| {},
            |_| {},
        );
        // SAFETY: the functions keep to what they are to do; what is cloned outlives the waker.
        unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(clones).cast(), &TABLE)) }
    }

    #[test]
    fn one_entry_of_each_in_the_order_of_the_first() {
        let [first, second] = [(); 2].map(|()| Waker::from(Arc::new(Nobody)));
        let mut gave_way = GaveWay::default();
        gave_way.push(first.clone(), 10);
        gave_way.push(first.clone(), 12);
        gave_way.push(second.clone(), 3);
        gave_way.push(first.clone(), 5);
        assert!(gave_way.pop_first().is_none(), "the kernel was not asked");
        gave_way.let_run();
        let (waker, held) = gave_way.pop_first().unwrap();
        assert!(waker.will_wake(&first) && held == 12);
        gave_way.push(first, 4);
        let (waker, held) = gave_way.pop_first().unwrap();
        assert!(waker.will_wake(&second) && held == 3);
        assert!(gave_way.pop_first().is_none() && !gave_way.is_empty());
        gave_way.let_run();
        assert_eq!(gave_way.pop_first().unwrap().1, 4);
        assert!(gave_way.is_empty());
    }

    #[test]
    fn a_waker_whose_clones_are_others_is_listed_again() {
        let owned = Waker::from(Arc::new(Nobody));
        let borrowed = on_the_stack(&owned);
        let mut gave_way = GaveWay::default();
        for _ in 0..3 {
            gave_way.push(borrowed.clone(), 1);
            gave_way.let_run();
            assert!(gave_way.pop_first().is_some());
        }
    }
}
