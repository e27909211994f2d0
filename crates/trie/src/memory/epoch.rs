//! Epochs decide which retired blocks and contents readers may still reach.
//!
//! The writer counts epochs. It tags each block and content that it retires with the present epoch.
//! A reader that pins records the epoch that it found. The writer recycles the blocks and contents
//! that were retired before the earliest recorded epoch. (The paper leaves recycling to future
//! work. The scheme is K. Fraser's, "Practical lock-freedom", 2004, section 5.2.3, for a single
//! writer, which alone advances the epoch and looks for the oldest pin.)
//!
//! Why it is right: a reader stores its pin, then fences, then reads the root; the writer unlinks,
//! advances the epoch, fences, then reads the pins. If the writer misses a pin, the writer's fence
//! came before the reader's, and the reader sees the structure without the unlinked nodes. If the
//! writer sees a pin later than the tag, the reader loaded an epoch that was stored after the
//! unlinking, and also sees the structure without them.
//!
//! Memory bound: as many cache lines as the greatest number of readers that ever existed at the
//! same time.

#![allow(unsafe_code)]

use super::atomics::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, fence};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// The value of a slot whose reader is not pinned.
const IDLE: u64 = u64::MAX;

/// The record of one reader's epoch. A slot lives as long as the trie, and can be claimed again.
#[repr(align(64))]
pub(crate) struct Slot {
    pinned: AtomicU64,
    claimed: AtomicBool,
    next: AtomicPtr<Slot>,
}

impl Slot {
    /// Records the present epoch. Everything that is read from the structure afterwards stays until
    /// [`Slot::unpin`].
    pub(crate) fn pin(&self, epochs: &Epochs) {
        let epoch = epochs.current.load(Ordering::Acquire);
        // Release: for a writer that sees this value, the accesses of this reader's last pin have
        // happened, even if the writer never saw the slot idle.
        self.pinned.store(epoch, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn unpin(&self) {
        self.pinned.store(IDLE, Ordering::Release);
    }
}

pub(crate) struct Epochs {
    current: AtomicU64,
    readers: AtomicUsize,
    /// A list that only grows.
    slots: AtomicPtr<Slot>,
}

impl Epochs {
    pub(crate) fn new() -> Epochs {
        Epochs {
            current: AtomicU64::new(0),
            readers: AtomicUsize::new(0),
            slots: AtomicPtr::new(null_mut()),
        }
    }

    /// Returns whether there is any reader besides the writer. Only the writer and the owners of a
    /// reader make readers, so if the writer finds none, there will be none while it works.
    pub(crate) fn has_readers(&self) -> bool {
        // Acquire: if the last reader has left, all of its accesses have happened.
        self.readers.load(Ordering::Acquire) != 0
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        let mut next = self.slots.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: slots live as long as self, and are initialised before they are listed.
            let slot = unsafe { next.as_ref() }?;
            next = slot.next.load(Ordering::Relaxed);
            Some(slot)
        })
    }

    /// Returns a slot for a new reader, to be given back with [`Epochs::release`].
    pub(crate) fn claim(&self) -> &Slot {
        self.readers.fetch_add(1, Ordering::Relaxed);
        for slot in self.slots() {
            let claim =
                slot.claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
            if claim.is_ok() {
                return slot;
            }
        }
        let slot = Box::into_raw(Box::new(Slot {
            pinned: AtomicU64::new(IDLE),
            claimed: AtomicBool::new(true),
            next: AtomicPtr::new(null_mut()),
        }));
        let mut head = self.slots.load(Ordering::Relaxed);
        loop {
            // SAFETY: not listed yet, so only this thread knows it; from then on it is only shared.
            unsafe { &*slot }.next.store(head, Ordering::Relaxed);
            match self.slots.compare_exchange_weak(head, slot, Ordering::Release, Ordering::Relaxed)
            {
                // SAFETY: slots live as long as self.
                Ok(_) => return unsafe { &*slot },
                Err(other) => head = other,
            }
        }
    }

    /// Gives a claimed slot back.
    pub(crate) fn release(&self, slot: &Slot) {
        slot.unpin();
        slot.claimed.store(false, Ordering::Release);
        self.readers.fetch_sub(1, Ordering::Release);
    }

    /// Returns the tag for units retired at this moment.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Relaxed)
    }

    /// Begins a new epoch and returns the bound below which no reader has pinned: units retired
    /// under a lesser tag are out of reach.
    pub(crate) fn advance(&self) -> u64 {
        let next = self.current.load(Ordering::Relaxed) + 1;
        // Release: a reader that finds the new epoch sees the structure without the nodes unlinked
        // before.
        self.current.store(next, Ordering::Release);
        fence(Ordering::SeqCst);
        // Acquire: a reader's accesses before it unpinned happen before the recycling.
        self.slots().map(|slot| slot.pinned.load(Ordering::Acquire)).min().unwrap_or(IDLE).min(next)
    }
}

impl Drop for Epochs {
    fn drop(&mut self) {
        let mut next = self.slots.load(Ordering::Relaxed);
        while !next.is_null() {
            // SAFETY: made by `Box::into_raw`, and nothing else refers to it.
            let slot = unsafe { Box::from_raw(next) };
            next = slot.next.load(Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_its_epoch_and_later_ones() {
        let epochs = Epochs::new();
        assert!(!epochs.has_readers());
        let slot = epochs.claim();
        let tag = epochs.current();
        assert!(epochs.advance() > tag);
        slot.pin(&epochs);
        let tag = epochs.current();
        assert!(epochs.advance() <= tag);
        assert!(epochs.advance() <= tag);
        slot.unpin();
        assert!(epochs.advance() > tag);
        epochs.release(slot);
        assert!(!epochs.has_readers());
    }

    #[test]
    fn slots_are_claimed_again() {
        let epochs = Epochs::new();
        let first: *const Slot = epochs.claim();
        let second = epochs.claim();
        assert_ne!(first, second as *const Slot);
        epochs.release(second);
        assert_eq!(epochs.claim() as *const Slot, second as *const Slot);
        assert_eq!(epochs.slots().count(), 2);
    }
}

/// Checks all interleavings of threads and all results that the memory model allows. `make loom`
/// runs these tests.
#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    const NODES: usize = 3;

    /// A structure with one link to one of the nodes. A node contains its number until it is
    /// recycled.
    struct Model {
        epochs: Epochs,
        link: AtomicUsize,
        nodes: [UnsafeCell<usize>; NODES],
    }

    impl Model {
        fn new() -> Arc<Model> {
            let nodes = std::array::from_fn(UnsafeCell::new);
            Arc::new(Model { epochs: Epochs::new(), link: AtomicUsize::new(0), nodes })
        }

        /// Moves the link from node to node, and recycles the nodes that no reader can reach.
        fn write(&self) {
            let mut retired: Vec<(u64, usize)> = Vec::new();
            for next in 1..NODES {
                let tag = self.epochs.current();
                self.link.store(next, Ordering::Release);
                retired.push((tag, next - 1));
                let bound = self.epochs.advance();
                retired.retain(|&(tag, node)| {
                    let is_free = tag < bound;
                    if is_free {
                        // SAFETY: loom reports a concurrent read.
                        self.nodes[node].with_mut(|content| unsafe { *content = usize::MAX });
                    }
                    !is_free
                });
            }
        }

        fn read(&self, slot: &Slot) {
            slot.pin(&self.epochs);
            let node = self.link.load(Ordering::Acquire);
            for _ in 0..2 {
                // SAFETY: loom reports a concurrent write.
                let content = self.nodes[node].with(|content| unsafe { *content });
                assert_eq!(content, node, "a recycled node was read");
            }
            slot.unpin();
        }
    }

    #[test]
    fn memory_that_a_pinned_reader_found_is_not_recycled() {
        loom::model(|| {
            let model = Model::new();
            let reader = model.clone();
            let slot: *const Slot = model.epochs.claim();
            let slot = slot as usize;
            let thread = thread::spawn(move || {
                // SAFETY: slots live as long as the model, which this thread holds.
                let slot = unsafe { &*(slot as *const Slot) };
                reader.read(slot);
                reader.read(slot);
            });
            model.write();
            thread.join().unwrap();
        });
    }

    #[test]
    fn two_readers_have_two_slots() {
        loom::model(|| {
            let model = Model::new();
            let other = model.clone();
            let claim = |model: &Model| {
                let slot = model.epochs.claim();
                model.read(slot);
                std::ptr::from_ref(slot) as usize
            };
            let thread = thread::spawn(move || claim(&other));
            let mine = claim(&model);
            assert_ne!(mine, thread.join().unwrap());
        });
    }

    #[test]
    fn a_slot_is_handed_on() {
        // There are too many interleavings to try all. Most defects show with at most three
        // switches of threads at bad moments.
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let model = Model::new();
            let other = model.clone();
            let thread = thread::spawn(move || {
                let slot = other.epochs.claim();
                other.read(slot);
                other.epochs.release(slot);
            });
            let slot = model.epochs.claim();
            model.epochs.release(slot);
            model.write();
            thread.join().unwrap();
            assert!(!model.epochs.has_readers());
        });
    }
}
