//! A queue of the yielded tasks in the order in which they run again. Each entry has the time for
//! which its task had held the core.
//!
//! Invariant: there is at most one entry per waker, however often its task yields meanwhile. A task
//! of several futures, each of which yields, is polled as a whole for the first entry, and each
//! future yields again. With an entry for each future, the number of entries would grow from one
//! iteration to the next, and other tasks would wait ever longer behind these entries.
//!
//! Memory: three words and a waker per yielded task, or per yielded future if a task has separate
//! wakers for its futures.

use std::{
    collections::{HashSet, VecDeque},
    task::Waker,
};

#[derive(Default)]
pub(super) struct YieldedTasks {
    /// In order of yielding; the last `new` ones yielded since the kernel was asked.
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

/// Returns the parts that [`Waker::will_wake`] compares. A waker that lies on the stack may differ
/// from its clones.
fn identity(waker: &Waker) -> Identity {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

impl YieldedTasks {
    /// Adds a task that yielded after `held_ticks`.
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

    /// Lets all entries run again, because the kernel was asked.
    pub(super) fn let_run(&mut self) {
        self.new = 0;
    }

    /// Removes the first entry that may run again. Returns its waker, and the number of ticks for
    /// which its task had held the core.
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

    /// Makes a waker whose clones are not equal to it.
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
        // SAFETY: the functions meet the contract of a vtable, and `clones` outlives the waker.
        unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(clones).cast(), &TABLE)) }
    }

    #[test]
    fn a_yielded_task_has_one_entry_in_order_of_its_first_yield() {
        let [first, second] = [(); 2].map(|()| Waker::from(Arc::new(Nobody)));
        let mut yielded = YieldedTasks::default();
        yielded.push(first.clone(), 10);
        yielded.push(first.clone(), 12);
        yielded.push(second.clone(), 3);
        yielded.push(first.clone(), 5);
        assert!(yielded.pop_first().is_none(), "the kernel was not asked");
        yielded.let_run();
        let (waker, held) = yielded.pop_first().unwrap();
        assert!(waker.will_wake(&first) && held == 12);
        yielded.push(first, 4);
        let (waker, held) = yielded.pop_first().unwrap();
        assert!(waker.will_wake(&second) && held == 3);
        assert!(yielded.pop_first().is_none() && !yielded.is_empty());
        yielded.let_run();
        assert_eq!(yielded.pop_first().unwrap().1, 4);
        assert!(yielded.is_empty());
    }

    #[test]
    fn a_waker_with_unequal_clones_can_be_pushed_again() {
        let owned = Waker::from(Arc::new(Nobody));
        let borrowed = on_the_stack(&owned);
        let mut yielded = YieldedTasks::default();
        for _ in 0..3 {
            yielded.push(borrowed.clone(), 1);
            yielded.let_run();
            assert!(yielded.pop_first().is_some());
        }
    }
}
