//! Borrows the cached pages, for a look-up that waits for nothing.
//!
//! No page is cloned and no atomic counter changes: a page is a slice that lives as long as the
//! cache is borrowed, and the cache cannot change as long as it is borrowed.

use std::cell::{Cell, Ref};

use bytes::Bytes;
use espalier_runtime::trace_event;

use super::{
    PageKey,
    part::{Counters, Part},
    table::{PageTable, Slot},
};

pub(crate) struct CachedPages<'cache> {
    table: Ref<'cache, PageTable>,
    counters: &'cache Counters,
    /// Pages that the look-up holds itself. They were counted when the look-up got them.
    held: &'cache [(PageKey, Bytes)],
    /// Number of pages found: of data, and of index.
    found: [Cell<u64>; 2],
    missing: Cell<Option<PageKey>>,
}

impl<'cache> CachedPages<'cache> {
    #[inline]
    pub(super) fn new(
        table: Ref<'cache, PageTable>,
        counters: &'cache Counters,
        held: &'cache [(PageKey, Bytes)],
    ) -> Self {
        Self { table, counters, held, found: Default::default(), missing: Cell::new(None) }
    }

    /// Returns a page and counts its use. Records the page as missing if it is not cached.
    #[inline]
    pub(crate) fn get(&self, key: PageKey) -> Option<&Bytes> {
        if let Some((_, page)) = self.held.iter().find(|(held, _)| *held == key) {
            return Some(page);
        }
        let Some(page) = self.table.get(key) else {
            self.missing.set(Some(key));
            return None;
        };
        self.count_found(key);
        Some(page)
    }

    #[inline]
    fn count_found(&self, key: PageKey) {
        let found = &self.found[key.part() as usize];
        found.set(found.get() + 1);
    }

    /// Returns the last page that the look-up wanted and did not find.
    #[inline]
    pub(crate) fn missing(&self) -> Option<PageKey> {
        self.missing.get()
    }

    /// Returns a page without counting it as used or as missing.
    pub(crate) fn look_at(&self, key: PageKey) -> Option<&Bytes> {
        match self.held.iter().find(|(held, _)| *held == key) {
            Some((_, page)) => Some(page),
            None => self.table.peek(key),
        }
    }
}

impl CachedPages<'_> {
    /// Returns the slot of a page, which is valid as long as the cache is borrowed, and prefetches
    /// the slot's metadata. Does not count a use.
    #[inline]
    pub(crate) fn slot(&self, key: PageKey) -> Option<Slot> {
        self.table.find_ahead(key)
    }

    /// Returns the page in a slot.
    #[inline]
    pub(crate) fn peek(&self, slot: Slot) -> Option<&[u8]> {
        self.table.page_in(slot).map(|page| &page[..])
    }

    /// Counts a use of the page in a slot, as [`Self::get`] does. `key` is the key of the page.
    #[inline]
    pub(crate) fn count_use(&self, key: PageKey, slot: Slot) {
        self.table.count_use(slot);
        self.count_found(key);
    }
}

impl Drop for CachedPages<'_> {
    #[inline]
    fn drop(&mut self) {
        for (part, found) in [Part::Data, Part::Index].into_iter().zip(&self.found) {
            if found.get() > 0 {
                let files = if part == Part::Data { "data" } else { "indexes" };
                trace_event!("Page cache hits: {} pages of {files}", found.get());
                self.counters.count(part, |metrics| metrics.hits += found.get());
            }
        }
    }
}
