//! The table of cached pages: it maps their keys to slots, and chooses the page to evict when there
//! is no room.
//!
//! For each eviction, a clock hand passes the next few slots, and the table evicts the page with
//! the lowest frequency among them. So index pages stay while data pages come and go, because an
//! index page serves more rows than a data page. The upper pages of a trie stay, however many lower
//! pages are read. Pages that are read once replace each other. The table remembers an evicted page
//! for a while, and the page regains its frequency if it is read again. (The idea is that of
//! TinyLFU, G. Einziger et al., ACM Transactions on Storage 2017. Here every new page is admitted,
//! so that readers of neighbouring rows find it.)
//!
//! A look-up mostly waits for memory, so it should touch few cache lines. 64 consecutive pages of a
//! file share one region of slot numbers, so the hash table that finds regions is small. The
//! frequencies are stored apart from the pages.

use std::{cell::Cell, collections::VecDeque};

use bytes::Bytes;
use espalier_runtime::file::PAGE_BYTES;
use espalier_trie::prefetch::prefetch_of;
use hashbrown::HashMap;

use super::{
    CachedPage, PageKey,
    frequency::{Frequency, Remembered},
};

/// Memory of an entry besides the page, in bytes: the three parts of its slot, and its share of
/// `remembered`, the frequencies of evicted pages.
const ENTRY_BYTES: usize = size_of::<Bytes>()
    + size_of::<Owner>()
    + size_of::<Frequency>()
    + REMEMBERED * size_of::<u32>();

/// Memory of a region and of its place in the table, in bytes.
const REGION_BYTES: usize = size_of::<Region>() + 48;

/// The most pages that the hand passes for one eviction (arbitrary). A higher limit would leave
/// fewer recently inserted pages in the cache; a lower one would evict often used pages too often.
/// With 32, about 6 % of the cached pages were inserted recently.
const MAX_LOOKS: usize = 32;

/// The hand passes at least this number of pages for one eviction, unless it meets a page with
/// frequency 0 earlier, or the table is small.
const MIN_LOOKS: usize = 8;

/// Between these limits the hand passes this part (1/16) of all pages. It passes at most half of
/// the pages, because otherwise each eviction would consider the newest page.
const LOOKS_PART: usize = 16;

/// A tick, the unit of time of frequencies, takes as many misses as there are pages, but at least
/// this number.
const MIN_TICK: usize = 32;

/// The most pages that are remembered for each cached page.
const REMEMBERED: usize = 4;

/// Number of slots that each miss checks for pages of closed files.
const SWEPT: usize = 8;

/// The most closed files whose pages the table looks for. Pages of other closed files lose their
/// frequency in time.
const MAX_CLOSED: usize = 256;

/// Number of pages of a region. With more, lone pages would take more memory; with fewer, the hash
/// table would be larger.
const REGION_PAGES: u64 = 64;

const NO_SLOT: u32 = u32::MAX;

/// The most slots that are allocated in advance, enough for a cache of 64 GiB. Beyond that the
/// tables grow.
const MAX_PREPARED: usize = 16 << 20;

/// The slots of consecutive pages of a file.
struct Region {
    slots: [u32; REGION_PAGES as usize],
    count: u32,
}

/// The place of a cached page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot(usize);

/// The key of the page in a slot, and its charge in bytes.
struct Owner {
    key: PageKey,
    charge: usize,
}

pub(super) struct PageTable {
    budget: usize,
    used: usize,
    /// The pages, frequencies and owners of the slots. No slot is free: the page of the last slot
    /// moves into a slot that is emptied.
    pages: Vec<Bytes>,
    frequencies: Vec<Cell<Frequency>>,
    owners: Vec<Owner>,
    regions: HashMap<PageKey, Box<Region>, foldhash::fast::RandomState>,
    remembered: Remembered,
    tick: u8,
    misses_of_tick: usize,
    /// The slot that was used last, since one look-up may ask for a page several times.
    last: Cell<usize>,
    hand: usize,
    /// The closed files, each with the number of slots that are yet to be checked for its pages.
    closed: VecDeque<(u64, usize)>,
    /// The next slot to be checked for pages of closed files.
    sweep: usize,
    evictions: u64,
    /// Number of pages that were read again soon after their eviction.
    returned: u64,
}

#[inline]
fn region_of(key: PageKey) -> (PageKey, usize) {
    let region = PageKey { file: key.file, page: key.page / REGION_PAGES };
    (region, (key.page % REGION_PAGES) as usize)
}

impl PageTable {
    /// Makes a table with room for as many pages as the budget allows, because growing a large
    /// table would stall the core. The call touches none of this memory except the control bytes of
    /// `regions`.
    pub(super) fn new(budget: usize) -> Self {
        let slots = (budget / (PAGE_BYTES + ENTRY_BYTES)).min(MAX_PREPARED);
        let hasher = foldhash::fast::RandomState::default();
        Self {
            budget,
            used: 0,
            pages: Vec::with_capacity(slots),
            frequencies: Vec::with_capacity(slots),
            owners: Vec::with_capacity(slots),
            regions: HashMap::with_capacity_and_hasher(slots, hasher),
            remembered: Remembered::new((REMEMBERED * slots).max(64)),
            tick: 0,
            misses_of_tick: 0,
            last: Cell::new(usize::MAX),
            hand: 0,
            closed: VecDeque::with_capacity(MAX_CLOSED),
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

    /// Returns a page and counts its use.
    #[inline]
    pub(super) fn get(&self, key: PageKey) -> Option<&Bytes> {
        let slot = Slot(self.slot(key)?);
        self.count_use(slot);
        self.page_in(slot)
    }

    /// Counts a use of the page in a slot.
    #[inline]
    pub(super) fn count_use(&self, slot: Slot) {
        let Some(frequency) = self.frequencies.get(slot.0) else { return };
        let is_again = self.last.replace(slot.0) == slot.0;
        frequency.set(if is_again {
            frequency.get().seen(self.tick)
        } else {
            frequency.get().used(self.tick)
        });
    }

    /// Returns a page without counting its use.
    #[inline]
    pub(super) fn peek(&self, key: PageKey) -> Option<&Bytes> {
        self.pages.get(self.slot(key)?)
    }

    /// Returns the slot of a page, which is valid until the table changes, and prefetches the
    /// slot's metadata.
    #[inline]
    pub(super) fn find_ahead(&self, key: PageKey) -> Option<Slot> {
        let slot = self.slot(key)?;
        prefetch_of(self.pages.get(slot)?);
        prefetch_of(self.frequencies.get(slot)?);
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
        let frequency = self.remembered.recall(key);
        self.returned += u64::from(frequency.is_recent(self.tick));
        self.frequencies.push(Cell::new(frequency.used(self.tick)));
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
        if self.misses_of_tick >= self.len().max(MIN_TICK) {
            self.misses_of_tick = 0;
            self.tick = self.tick.wrapping_add(1);
        }
        if !self.closed.is_empty() {
            self.cool_closed();
        }
    }

    /// Records that no task will ask for pages of this file any more, so that they are evicted
    /// before all others.
    pub(super) fn close_file(&mut self, file: u64) {
        if self.closed.len() >= MAX_CLOSED {
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
                self.frequencies[self.sweep].set(Frequency::default());
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
            let (key, frequency) = (self.owners[slot].key, self.frequencies[slot].get());
            self.remembered.note(key, frequency, self.tick);
            self.remove(slot);
            self.evictions += 1;
        }
    }

    /// Returns the slot with the lowest frequency among the next slots at the clock hand.
    fn coldest(&mut self) -> Option<usize> {
        let mut coldest = None;
        let looks =
            (self.len() / LOOKS_PART).clamp(MIN_LOOKS, MAX_LOOKS).min(self.len() / 2).max(1);
        for _ in 0..looks.min(self.len()) {
            if self.hand >= self.len() {
                self.hand = 0;
            }
            let slot = self.hand;
            self.hand += 1;
            let frequency = self.frequencies[slot].get().now(self.tick);
            if coldest.is_none_or(|(_, least)| frequency < least) {
                coldest = Some((slot, frequency));
            }
            if frequency == 0 {
                break;
            }
        }
        coldest.map(|(slot, _)| slot)
    }

    /// Drops the pages in the `count` slots before `end`. To drop all present pages, call this with
    /// `end` = `len()`, and then with `end` lowered by `count` each time. No old page is left,
    /// because a page only moves to a lower slot, and only newer pages fill the slots above `end`.
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
        self.frequencies.swap_remove(slot);
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
