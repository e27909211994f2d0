//! The pages that are in memory now, borrowed: what a look-up needs that waits for nothing.
//!
//! Nothing is cloned or counted by atomics: a page is a slice for as long as the cache is borrowed, and the cache cannot
//! change meanwhile.

use std::cell::{Cell, Ref};

use bytes::Bytes;

use super::{PageKey, clock::Clock};

pub(crate) struct PagesAtHand<'cache> {
    clock: Ref<'cache, Clock>,
    hits: &'cache Cell<u64>,
    found: Cell<u64>,
}

impl<'cache> PagesAtHand<'cache> {
    #[inline]
    pub(super) fn new(clock: Ref<'cache, Clock>, hits: &'cache Cell<u64>) -> Self {
        Self { clock, hits, found: Cell::new(0) }
    }

    /// A page, and counts that it was used.
    #[inline]
    pub(crate) fn get(&self, key: PageKey) -> Option<&Bytes> {
        let page = self.clock.get(key)?;
        self.found.set(self.found.get() + 1);
        Some(page)
    }
}

impl Drop for PagesAtHand<'_> {
    #[inline]
    fn drop(&mut self) {
        self.hits.set(self.hits.get() + self.found.get());
    }
}
