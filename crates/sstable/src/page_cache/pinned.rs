//! Memory that open SSTables hold: their filters, about ten bits for each partition at a chance of
//! false positives of 0.01. It counts against the budget of the page cache, which has less room for
//! pages as long as the SSTables are open.

use espalier_runtime::maybe_yield;

use super::PageCache;

/// Pages keep this part (an eighth) of the budget, however large the filters are.
const MIN_PART: usize = 8;

/// Bytes that are taken from the pages between two yields: 128 pages.
const PINNED_AT_ONCE: usize = 512 << 10;

/// Memory that is taken from a cache's budget until this value is dropped.
pub(crate) struct Pinned {
    cache: PageCache,
    bytes: usize,
}

impl PageCache {
    /// Takes memory from the budget of pages, which are evicted in steps.
    pub(crate) async fn pin(&self, bytes: usize) -> Pinned {
        let mut pinned = Pinned { cache: self.clone(), bytes: 0 };
        while pinned.bytes < bytes {
            let step = (bytes - pinned.bytes).min(PINNED_AT_ONCE);
            self.0.pinned.set(self.0.pinned.get() + step);
            pinned.bytes += step;
            self.apply_budget();
            maybe_yield().await;
        }
        pinned
    }

    /// Returns the bytes of pinned memory.
    pub fn pinned_bytes(&self) -> usize {
        self.0.pinned.get()
    }

    pub(super) fn apply_budget(&self) {
        let budget = self.0.budget.get();
        let left = budget.saturating_sub(self.0.pinned.get()).max(budget / MIN_PART);
        self.0.table.borrow_mut().set_budget(left);
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.cache.0.pinned.set(self.cache.0.pinned.get().saturating_sub(self.bytes));
        self.cache.apply_budget();
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::block_on;

    use super::*;

    #[test]
    fn the_page_cache_budget_excludes_pinned_bytes() {
        block_on(async {
            let cache = PageCache::new(8 << 20);
            let budget = || cache.0.table.borrow().budget();
            let first = cache.pin(3 << 20).await;
            let second = cache.pin(1 << 20).await;
            assert_eq!((cache.pinned_bytes(), budget()), (4 << 20, 4 << 20));
            // The budget shrinks, as if the row cache needed memory. Below, it grows again.
            cache.set_budget(6 << 20);
            assert_eq!(budget(), 2 << 20);
            let third = cache.pin(100 << 20).await;
            assert_eq!(budget(), (6 << 20) / MIN_PART);
            drop((first, third));
            assert_eq!((cache.pinned_bytes(), budget()), (1 << 20, 5 << 20));
            cache.set_budget(8 << 20);
            drop(second);
            assert_eq!((cache.pinned_bytes(), budget()), (0, 8 << 20));
        });
    }
}
