//! The clock: entries in a ring of slots, a table from pages to slots, a hand.
//!
//! Each entry counts how often it was used, up to three; the hand takes one away from whatever it passes, and the entry that
//! has none left. So a page that was read once goes before one that is read all the time, and the upper pages of a trie, which
//! every look-up reads, stay however many lower ones come by.
//!
//! A look-up touches few lines of memory, since most of its time is waiting for them: 64 pages that follow one another in a file
//! have one region of slot numbers, regions are found by a hash table that is small for that, and what the hand needs lies
//! apart from the pages.

use std::cell::Cell;

use bytes::Bytes;
use espalier_runtime::file::PAGE_BYTES;
use hashbrown::HashMap;

use super::{CachedPage, PageKey};

/// Memory of an entry besides the page: the three parts of its slot.
const ENTRY_BYTES: usize = size_of::<Bytes>() + size_of::<Owner>() + 1;

/// Memory of a region and of its place in the table.
const REGION_BYTES: usize = size_of::<Region>() + 48;

/// Uses beyond this many do not count: the hand would have to come by too often. An arbitrary choice among small numbers.
const MAXIMUM_USES: u8 = 3;

/// After so many entries that are all in use, the next one goes all the same: a hand that went round a large cache whose entries
/// are all in use would hold the core for milliseconds.
const MOST_LOOKS: usize = 4096;

/// Pages of a region: with more, pages that are cached alone would take more memory, with fewer, the table would be larger.
const REGION_PAGES: u64 = 64;

const NO_SLOT: u32 = u32::MAX;

/// Beyond that, a cache of 64 GiB, the tables grow as they must.
const MOST_PREPARED: usize = 16 << 20;

/// Slots of pages that follow one another in a file.
struct Region {
    slots: [u32; REGION_PAGES as usize],
    count: u32,
}

/// Whose page a slot has; nobody's if it is free.
struct Owner {
    key: Option<PageKey>,
    charge: usize,
}

pub(super) struct Clock {
    budget: usize,
    used: usize,
    /// The slots' pages, uses and owners.
    pages: Vec<Bytes>,
    uses: Vec<Cell<u8>>,
    owners: Vec<Owner>,
    free: Vec<u32>,
    regions: HashMap<PageKey, Box<Region>, foldhash::fast::RandomState>,
    hand: usize,
    evictions: u64,
}

#[inline]
fn region_of(key: PageKey) -> (PageKey, usize) {
    let region = PageKey { file: key.file, page: key.page / REGION_PAGES };
    (region, (key.page % REGION_PAGES) as usize)
}

impl Clock {
    /// The tables have room for as many pages as the budget has from the beginning, since moving a large one would hold the core.
    /// It is not touched before it is used.
    pub(super) fn new(budget: usize) -> Self {
        let slots = (budget / (PAGE_BYTES + ENTRY_BYTES)).min(MOST_PREPARED);
        let hasher = foldhash::fast::RandomState::default();
        Self {
            budget,
            used: 0,
            pages: Vec::with_capacity(slots),
            uses: Vec::with_capacity(slots),
            owners: Vec::with_capacity(slots),
            free: Vec::new(),
            regions: HashMap::with_capacity_and_hasher(slots, hasher),
            hand: 0,
            evictions: 0,
        }
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.used
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len() - self.free.len()
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
        let uses = self.uses.get(slot)?;
        if uses.get() < MAXIMUM_USES {
            uses.set(uses.get() + 1);
        }
        self.pages.get(slot)
    }

    /// A page, as if nobody had asked.
    pub(super) fn peek(&self, key: PageKey) -> Option<&Bytes> {
        self.pages.get(self.slot(key)?)
    }

    #[inline]
    fn slot(&self, key: PageKey) -> Option<usize> {
        let (region, at) = region_of(key);
        match *self.regions.get(&region)?.slots.get(at)? {
            NO_SLOT => None,
            slot => Some(slot as usize),
        }
    }

    pub(super) fn insert(&mut self, key: PageKey, page: CachedPage) {
        if let Some(slot) = self.slot(key) {
            self.remove(slot);
        }
        let charge = page.charge + ENTRY_BYTES;
        if charge + REGION_BYTES > self.budget {
            return;
        }
        self.make_room(charge + REGION_BYTES);
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = self.pages.len() as u32;
                self.pages.push(Bytes::new());
                self.uses.push(Cell::new(0));
                self.owners.push(Owner { key: None, charge: 0 });
                slot
            }
        };
        let index = slot as usize;
        self.pages[index] = page.bytes;
        self.uses[index].set(0);
        self.owners[index] = Owner { key: Some(key), charge };
        self.used += charge;
        let (region, at) = region_of(key);
        let region = self.regions.entry(region).or_insert_with(|| {
            self.used += REGION_BYTES;
            Box::new(Region { slots: [NO_SLOT; REGION_PAGES as usize], count: 0 })
        });
        region.slots[at] = slot;
        region.count += 1;
    }

    /// For each entry that goes, at most [`MOST_LOOKS`] are looked at, besides slots that are free.
    fn make_room(&mut self, charge: usize) {
        let mut looks = 0;
        while self.used + charge > self.budget && self.len() > 0 {
            let slot = self.hand;
            self.hand = if slot + 1 < self.pages.len() { slot + 1 } else { 0 };
            let (uses, owner) = (&self.uses[slot], &self.owners[slot]);
            if owner.key.is_none() {
                continue;
            }
            looks += 1;
            match uses.get() {
                more @ 1.. if looks < MOST_LOOKS => uses.set(more - 1),
                _ => {
                    self.remove(slot);
                    self.evictions += 1;
                    looks = 0;
                }
            }
        }
    }

    /// Forgets what `count` slots from `slot` on have. Returns the slot behind them; `None` if there are no more.
    pub(super) fn forget_some(&mut self, slot: usize, count: usize) -> Option<usize> {
        let end = (slot + count).min(self.pages.len());
        (slot..end).for_each(|slot| self.remove(slot));
        (end < self.pages.len()).then_some(end)
    }

    fn remove(&mut self, slot: usize) {
        let Owner { key, charge } =
            std::mem::replace(&mut self.owners[slot], Owner { key: None, charge: 0 });
        let Some(key) = key else { return };
        self.pages[slot] = Bytes::new();
        self.used -= charge;
        self.free.push(slot as u32);
        let (number, at) = region_of(key);
        if let Some(region) = self.regions.get_mut(&number) {
            region.slots[at] = NO_SLOT;
            region.count -= 1;
            if region.count == 0 {
                self.regions.remove(&number);
                self.used -= REGION_BYTES;
            }
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
        // Of three files, each with a region; a page has room while a region that is not needed is counted for it.
        let mut clock = Clock::new(4 * (100 + ENTRY_BYTES) + 4 * REGION_BYTES);
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
        let mut clock = Clock::new(64 * (100 + ENTRY_BYTES) + 10 * REGION_BYTES);
        (0..4).for_each(|i| clock.insert(key(i), page(100)));
        for i in 4..4000 {
            (0..4).for_each(|hot| assert!(clock.get(key(hot)).is_some(), "{hot} at {i}"));
            clock.insert(key(i), page(100));
            assert!(clock.get(key(i)).is_some());
        }
    }

    #[test]
    fn where_all_are_in_use_the_hand_does_not_go_round() {
        let count = 4 * MOST_LOOKS;
        let mut clock = Clock::new(count * (100 + ENTRY_BYTES) + (count / 64 + 8) * REGION_BYTES);
        let of = |page: usize| PageKey { file: 0, page: page as u64 };
        (0..count).for_each(|number| clock.insert(of(number), page(100)));
        for number in 0..count {
            (0..MAXIMUM_USES).for_each(|_| assert!(clock.get(of(number)).is_some()));
        }
        let (mut next, mut hand) = (count, clock.hand);
        while clock.evictions() < 3 {
            clock.insert(of(next), page(100));
            assert!(clock.hand - hand <= 2 * MOST_LOOKS, "{hand} {}", clock.hand);
            (next, hand) = (next + 1, clock.hand);
        }
        assert!(clock.used <= clock.budget);
    }

    proptest! {
        #[test]
        fn the_budget_holds_and_what_is_found_is_right(
            operations in prop::collection::vec((0u64..300, 0usize..400, 0u8..10), 1..300),
        ) {
            let budget = 4000;
            let mut clock = Clock::new(budget);
            for (id, size, operation) in operations {
                match operation {
                    0 => clock.set_budget(budget),
                    1..=4 => {
                        if let Some(found) = clock.get(key(id)) {
                            prop_assert_eq!(&found[..8], &id.to_be_bytes()[..]);
                        }
                    }
                    _ => {
                        let bytes = Bytes::from([&id.to_be_bytes()[..], &vec![0; size]].concat());
                        clock.insert(key(id), CachedPage { charge: bytes.len(), bytes });
                    }
                }
                let owners: Vec<_> = clock.owners.iter().filter(|owner| owner.key.is_some()).collect();
                let charges: usize = owners.iter().map(|owner| owner.charge).sum();
                prop_assert_eq!(charges + clock.regions.len() * REGION_BYTES, clock.used);
                prop_assert!(clock.used <= budget);
                prop_assert_eq!(owners.len(), clock.len());
                let counted: u32 = clock.regions.values().map(|region| region.count).sum();
                prop_assert_eq!(counted as usize, clock.len());
            }
        }
    }
}
