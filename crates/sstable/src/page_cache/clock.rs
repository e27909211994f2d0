//! The clock: entries in a ring of slots, a map from keys to slots, a hand.
//!
//! Each entry counts how often it was used, up to three; the hand takes one away from whatever it passes, and the entry that
//! has none left. So a page that was read once goes before one that is read all the time, and the upper pages of a trie, which
//! every look-up reads, stay however many lower ones come by.

use std::cell::Cell;

use bytes::Bytes;
use hashbrown::HashMap;

use super::{CachedPage, PageKey};

/// Memory of an entry besides the page: its slot and its place in the map.
const ENTRY_BYTES: usize = 96;

/// Uses beyond this many do not count: the hand would have to come by too often. An arbitrary choice among small numbers.
const MAXIMUM_USES: u8 = 3;

struct Slot {
    key: PageKey,
    page: CachedPage,
    uses: Cell<u8>,
}

pub(super) struct Clock {
    budget: usize,
    used: usize,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    by_key: HashMap<PageKey, u32, foldhash::fast::RandomState>,
    hand: usize,
    evictions: u64,
}

impl Clock {
    pub(super) fn new(budget: usize) -> Self {
        Self {
            budget,
            used: 0,
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::default(),
            hand: 0,
            evictions: 0,
        }
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.used
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    pub(super) fn set_budget(&mut self, budget: usize) {
        self.budget = budget;
        self.make_room(0);
    }

    /// A page, and counts that it was used.
    #[inline]
    pub(super) fn get(&self, key: PageKey) -> Option<&Bytes> {
        let slot = self.slot(key)?;
        let uses = slot.uses.get();
        if uses < MAXIMUM_USES {
            slot.uses.set(uses + 1);
        }
        Some(&slot.page.bytes)
    }

    /// A page, as if nobody had asked.
    pub(super) fn peek(&self, key: PageKey) -> Option<&Bytes> {
        self.slot(key).map(|slot| &slot.page.bytes)
    }

    #[inline]
    fn slot(&self, key: PageKey) -> Option<&Slot> {
        let index = *self.by_key.get(&key)?;
        self.slots.get(index as usize)?.as_ref()
    }

    pub(super) fn insert(&mut self, key: PageKey, page: CachedPage) {
        if let Some(&index) = self.by_key.get(&key) {
            self.remove(index as usize);
        }
        let charge = page.charge + ENTRY_BYTES;
        if charge > self.budget {
            return;
        }
        self.make_room(charge);
        self.used += charge;
        let slot = Some(Slot { key, page, uses: Cell::new(0) });
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.by_key.insert(key, index);
    }

    /// Ends after [`MAXIMUM_USES`] rounds and one more: by then every count is 0.
    fn make_room(&mut self, charge: usize) {
        while self.used + charge > self.budget && !self.by_key.is_empty() {
            let index = self.hand;
            self.hand = if index + 1 < self.slots.len() { index + 1 } else { 0 };
            match self.slots.get(index) {
                Some(Some(slot)) if slot.uses.get() > 0 => slot.uses.set(slot.uses.get() - 1),
                Some(Some(_)) => {
                    self.remove(index);
                    self.evictions += 1;
                }
                _ => {}
            }
        }
    }

    fn remove(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index).and_then(Option::take) {
            self.used -= slot.page.charge + ENTRY_BYTES;
            self.by_key.remove(&slot.key);
            self.free.push(index as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(bytes: usize) -> CachedPage {
        CachedPage { bytes: Bytes::from(vec![7; bytes]), charge: bytes }
    }

    fn key(page: u64) -> PageKey {
        PageKey { file: page % 3, page }
    }

    #[test]
    fn what_was_used_survives_what_was_not() {
        let mut clock = Clock::new(4 * (100 + ENTRY_BYTES));
        (0..4).for_each(|i| clock.insert(key(i), page(100)));
        assert!(clock.get(key(0)).is_some());
        assert!(clock.peek(key(1)).is_some());
        (4..7).for_each(|i| clock.insert(key(i), page(100)));
        assert!(clock.get(key(0)).is_some());
        assert!(clock.get(key(1)).is_none());
        assert_eq!((clock.len(), clock.evictions()), (4, 3));
    }

    #[test]
    fn what_is_used_all_the_time_stays_while_much_is_used_twice() {
        let mut clock = Clock::new(64 * (100 + ENTRY_BYTES));
        (0..4).for_each(|i| clock.insert(key(i), page(100)));
        for i in 4..4000 {
            (0..4).for_each(|hot| assert!(clock.get(key(hot)).is_some(), "{hot} at {i}"));
            clock.insert(key(i), page(100));
            assert!(clock.get(key(i)).is_some());
        }
    }

    proptest! {
        #[test]
        fn the_budget_holds(operations in prop::collection::vec((0u64..30, 0usize..400, 0u8..10), 1..300)) {
            let budget = 2000;
            let mut clock = Clock::new(budget);
            for (id, size, operation) in operations {
                match operation {
                    0 => clock.set_budget(budget),
                    1..=4 => drop(clock.get(key(id)).cloned()),
                    _ => clock.insert(key(id), page(size)),
                }
                let charges: usize =
                    clock.slots.iter().flatten().map(|slot| slot.page.charge + ENTRY_BYTES).sum();
                prop_assert_eq!(charges, clock.used);
                prop_assert!(clock.used <= budget);
                prop_assert_eq!(clock.slots.iter().flatten().count(), clock.by_key.len());
            }
        }
    }
}
