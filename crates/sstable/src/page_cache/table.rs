//! The pages that are cached: a table from their names to slots, and which of them goes when there is no room.
//!
//! That is the one that was used least often lately among those that the hand passes. So pages of an index, of which each serves
//! more rows than a page of data does, stay while pages of data come and go, the upper ones of a trie however many lower ones come by, and
//! what is read once makes room for itself. A page that went is remembered for a while and comes back as hot as it was. (The idea is
//! that of TinyLFU, G. Einziger et al., ACM Transactions on Storage 2017; every new page is admitted here, so that neighbours which
//! are read one after the other find it.)
//!
//! A look-up touches few lines of memory, since most of its time is waiting for them: 64 pages that follow one another in a file
//! have one region of slot numbers, regions are found by a hash table that is small for that, and what the hand needs lies
//! apart from the pages.

use std::{cell::Cell, collections::VecDeque};

use bytes::Bytes;
use espalier_runtime::file::PAGE_BYTES;
use espalier_trie::prefetch::prefetch_of;
use hashbrown::HashMap;

use super::{
    CachedPage, PageKey,
    heat::{Heat, Remembered},
};

/// Memory of an entry besides the page: the three parts of its slot, and what is remembered of pages that went.
const ENTRY_BYTES: usize =
    size_of::<Bytes>() + size_of::<Owner>() + size_of::<Heat>() + REMEMBERED * size_of::<u32>();

/// Memory of a region and of its place in the table.
const REGION_BYTES: usize = size_of::<Region>() + 48;

/// Pages that the hand passes for one that goes, at most. With more of them fewer new pages would be there at a time, with
/// fewer of them hot ones would go too often: an arbitrary choice; some 6 % of the pages are then new ones.
const MOST_LOOKS: usize = 32;

/// And at least.
const FEWEST_LOOKS: usize = 8;

/// Between these, this part of all; in any case no more than half, or the newest would be among them each time.
const LOOKS_PART: usize = 16;

/// A tick takes at least so many misses.
const SHORTEST_TICK: usize = 32;

/// Pages that are remembered for each that is cached, at most.
const REMEMBERED: usize = 4;

/// Slots that are looked at with each miss for pages of files that were closed.
const SWEPT: usize = 8;

/// Files that were closed and whose pages are looked for at a time; those of others get cold by themselves.
const MOST_CLOSED: usize = 256;

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

/// Where a page is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot(usize);

/// Whose page a slot has.
struct Owner {
    key: PageKey,
    charge: usize,
}

pub(super) struct PageTable {
    budget: usize,
    used: usize,
    /// The slots' pages, heats and owners. There is no free slot: the last one's page takes the place of one that goes.
    pages: Vec<Bytes>,
    heats: Vec<Cell<Heat>>,
    owners: Vec<Owner>,
    regions: HashMap<PageKey, Box<Region>, foldhash::fast::RandomState>,
    remembered: Remembered,
    tick: u8,
    misses_of_tick: usize,
    /// The slot that was used last: one look-up may ask for a page several times.
    last: Cell<usize>,
    hand: usize,
    /// Files that were closed, and how many slots are yet to be looked at for each; where that goes on.
    closed: VecDeque<(u64, usize)>,
    sweep: usize,
    evictions: u64,
    /// Pages that were read again soon after they made room.
    returned: u64,
}

#[inline]
fn region_of(key: PageKey) -> (PageKey, usize) {
    let region = PageKey { file: key.file, page: key.page / REGION_PAGES };
    (region, (key.page % REGION_PAGES) as usize)
}

impl PageTable {
    /// The tables have room for as many pages as the budget has from the beginning, since moving a large one would hold the core.
    /// It is not touched before it is used.
    pub(super) fn new(budget: usize) -> Self {
        let slots = (budget / (PAGE_BYTES + ENTRY_BYTES)).min(MOST_PREPARED);
        let hasher = foldhash::fast::RandomState::default();
        Self {
            budget,
            used: 0,
            pages: Vec::with_capacity(slots),
            heats: Vec::with_capacity(slots),
            owners: Vec::with_capacity(slots),
            regions: HashMap::with_capacity_and_hasher(slots, hasher),
            remembered: Remembered::new((REMEMBERED * slots).max(64)),
            tick: 0,
            misses_of_tick: 0,
            last: Cell::new(usize::MAX),
            hand: 0,
            closed: VecDeque::with_capacity(MOST_CLOSED),
            sweep: 0,
            evictions: 0,
            returned: 0,
        }
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.used
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    pub(super) fn returned(&self) -> u64 {
        self.returned
    }

    #[cfg(test)]
    pub(super) fn budget(&self) -> usize {
        self.budget
    }

    pub(super) fn set_budget(&mut self, budget: usize) {
        self.budget = budget;
        self.make_room(0);
    }

    /// A page, and counts that it was used.
    #[inline]
    pub(super) fn get(&self, key: PageKey) -> Option<&Bytes> {
        let slot = self.slot(key)?;
        let heat = self.heats.get(slot)?;
        let is_again = self.last.replace(slot) == slot;
        heat.set(match is_again {
            true => heat.get().seen(self.tick),
            false => heat.get().used(self.tick),
        });
        self.pages.get(slot)
    }

    /// A page, as if nobody had asked.
    #[inline]
    pub(super) fn peek(&self, key: PageKey) -> Option<&Bytes> {
        self.pages.get(self.slot(key)?)
    }

    /// Where a page is until something comes in or goes; asks the processor for what is known of it.
    #[inline]
    pub(super) fn find_ahead(&self, key: PageKey) -> Option<Slot> {
        let slot = self.slot(key)?;
        prefetch_of(self.pages.get(slot)?);
        prefetch_of(self.heats.get(slot)?);
        Some(Slot(slot))
    }

    #[inline]
    pub(super) fn page_in(&self, slot: Slot) -> Option<&Bytes> {
        self.pages.get(slot.0)
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
        self.count_miss();
        let charge = page.charge + ENTRY_BYTES;
        if charge + REGION_BYTES > self.budget {
            return;
        }
        self.make_room(charge + REGION_BYTES);
        let slot = self.pages.len();
        self.pages.push(page.bytes);
        let heat = self.remembered.recall(key);
        self.returned += u64::from(heat.is_recent(self.tick));
        self.heats.push(Cell::new(heat.used(self.tick)));
        self.owners.push(Owner { key, charge });
        self.last.set(slot);
        self.used += charge;
        let (region, at) = region_of(key);
        let region = self.regions.entry(region).or_insert_with(|| {
            self.used += REGION_BYTES;
            Box::new(Region { slots: [NO_SLOT; REGION_PAGES as usize], count: 0 })
        });
        region.slots[at] = slot as u32;
        region.count += 1;
    }

    fn count_miss(&mut self) {
        self.misses_of_tick += 1;
        if self.misses_of_tick >= self.len().max(SHORTEST_TICK) {
            self.misses_of_tick = 0;
            self.tick = self.tick.wrapping_add(1);
        }
        if !self.closed.is_empty() {
            self.cool_closed();
        }
    }

    /// Nobody will ask for pages of this file: they may go before all others.
    pub(super) fn close_file(&mut self, file: u64) {
        if self.closed.len() >= MOST_CLOSED {
            self.closed.pop_front();
        }
        self.closed.push_back((file, self.len()));
    }

    fn cool_closed(&mut self) {
        for _ in 0..SWEPT.min(self.len()) {
            if self.sweep >= self.len() {
                self.sweep = 0;
            }
            let file = self.owners[self.sweep].key.file;
            if self.closed.iter().any(|(closed, _)| *closed == file) {
                self.heats[self.sweep].set(Heat::default());
            }
            self.sweep += 1;
        }
        self.closed.iter_mut().for_each(|(_, left)| *left = left.saturating_sub(SWEPT));
        self.closed.retain(|(_, left)| *left > 0);
    }

    fn make_room(&mut self, charge: usize) {
        while self.used + charge > self.budget
            && let Some(slot) = self.coldest()
        {
            let (key, heat) = (self.owners[slot].key, self.heats[slot].get());
            self.remembered.note(key, heat, self.tick);
            self.remove(slot);
            self.evictions += 1;
        }
    }

    /// The slot that was used least often among the next ones.
    fn coldest(&mut self) -> Option<usize> {
        let mut coldest = None;
        let looks =
            (self.len() / LOOKS_PART).clamp(FEWEST_LOOKS, MOST_LOOKS).min(self.len() / 2).max(1);
        for _ in 0..looks.min(self.len()) {
            if self.hand >= self.len() {
                self.hand = 0;
            }
            let slot = self.hand;
            self.hand += 1;
            let heat = self.heats[slot].get().now(self.tick);
            if coldest.is_none_or(|(_, least)| heat < least) {
                coldest = Some((slot, heat));
            }
            if heat == 0 {
                break;
            }
        }
        coldest.map(|(slot, _)| slot)
    }

    /// Forgets what so many slots before `end` have. Whoever begins with the number of pages and goes on where the last call
    /// ended has forgotten all that were there, as pages only move to lower slots, and into those that are behind come newer ones.
    pub(super) fn forget_some(&mut self, end: usize, count: usize) {
        for slot in (end.saturating_sub(count)..end).rev() {
            if slot < self.len() {
                self.remove(slot);
            }
        }
    }

    fn remove(&mut self, slot: usize) {
        let Owner { key, charge } = self.owners.swap_remove(slot);
        self.pages.swap_remove(slot);
        self.heats.swap_remove(slot);
        self.used -= charge;
        let (number, at) = region_of(key);
        if let Some(region) = self.regions.get_mut(&number) {
            region.slots[at] = NO_SLOT;
            region.count -= 1;
            if region.count == 0 {
                self.regions.remove(&number);
                self.used -= REGION_BYTES;
            }
        }
        let Some(moved) = self.owners.get(slot) else { return };
        let (number, at) = region_of(moved.key);
        if let Some(region) = self.regions.get_mut(&number) {
            region.slots[at] = slot as u32;
        }
    }
}

#[cfg(test)]
mod tests;
