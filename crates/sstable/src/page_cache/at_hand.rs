//! The pages that are in memory now, borrowed: what a look-up needs that waits for nothing.
//!
//! Nothing is cloned or counted by atomics: a page is a slice for as long as the cache is borrowed, and the cache cannot
//! change meanwhile.

use std::cell::{Cell, Ref};

use bytes::Bytes;

use super::{
    PageKey,
    part::{Counters, Part},
    table::{PageTable, Slot},
};

pub(crate) struct PagesAtHand<'cache> {
    table: Ref<'cache, PageTable>,
    counters: &'cache Counters,
    /// Pages that the look-up holds itself. They were counted when it got them.
    held: &'cache [(PageKey, Bytes)],
    /// Of data and of index.
    found: [Cell<u64>; 2],
    missing: Cell<Option<PageKey>>,
}

impl<'cache> PagesAtHand<'cache> {
    #[inline]
    pub(super) fn new(
        table: Ref<'cache, PageTable>,
        counters: &'cache Counters,
        held: &'cache [(PageKey, Bytes)],
    ) -> Self {
        Self { table, counters, held, found: Default::default(), missing: Cell::new(None) }
    }

    /// A page, and counts that it was used; notes which one it was if it is not there.
    #[inline]
    pub(crate) fn get(&self, key: PageKey) -> Option<&Bytes> {
        if let Some((_, page)) = self.held.iter().find(|(held, _)| *held == key) {
            return Some(page);
        }
        let Some(page) = self.table.get(key) else {
            self.missing.set(Some(key));
            return None;
        };
        let found = &self.found[key.part() as usize];
        found.set(found.get() + 1);
        Some(page)
    }

    /// The last page that was asked for and is not there.
    #[inline]
    pub(crate) fn missing(&self) -> Option<PageKey> {
        self.missing.get()
    }

    /// A page, for those who only look at it: nothing counts as used, or as missing.
    pub(crate) fn look_at(&self, key: PageKey) -> Option<&Bytes> {
        match self.held.iter().find(|(held, _)| *held == key) {
            Some((_, page)) => Some(page),
            None => self.table.peek(key),
        }
    }
}

impl PagesAtHand<'_> {
    /// Where a page is for as long as the cache is borrowed; asks the processor for what is known of it. Nothing counts as used.
    #[inline]
    pub(crate) fn slot(&self, key: PageKey) -> Option<Slot> {
        self.table.find_ahead(key)
    }

    /// The page in a slot.
    #[inline]
    pub(crate) fn peek(&self, slot: Slot) -> Option<&[u8]> {
        self.table.page_in(slot).map(|page| &page[..])
    }
}

impl Drop for PagesAtHand<'_> {
    #[inline]
    fn drop(&mut self) {
        for (part, found) in [Part::Data, Part::Index].into_iter().zip(&self.found) {
            if found.get() > 0 {
                self.counters.count(part, |metrics| metrics.hits += found.get());
            }
        }
    }
}
