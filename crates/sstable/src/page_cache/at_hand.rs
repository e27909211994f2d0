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
    /// Of data and of index.
    found: [Cell<u64>; 2],
}

impl<'cache> PagesAtHand<'cache> {
    #[inline]
    pub(super) fn new(table: Ref<'cache, PageTable>, counters: &'cache Counters) -> Self {
        Self { table, counters, found: Default::default() }
    }

    /// A page, and counts that it was used.
    #[inline]
    pub(crate) fn get(&self, key: PageKey) -> Option<&Bytes> {
        let page = self.table.get(key)?;
        let found = &self.found[key.part() as usize];
        found.set(found.get() + 1);
        Some(page)
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
