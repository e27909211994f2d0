//! What opened SSTables hold in memory as long as they are open: their filters, ten bits for each partition. It is taken from the pages'
//! budget, which cannot have it at the same time.

use espalier_runtime::maybe_yield;

use super::PageCache;

/// Pages keep this part of their budget, however many filters there are.
const LEAST_PART: usize = 8;

/// So much is taken from pages without giving way: some hundred of them.
const PINNED_AT_ONCE: usize = 512 << 10;

/// Memory that is taken from a cache's budget while this lives.
pub(crate) struct Pinned {
    cache: PageCache,
    bytes: usize,
}

impl PageCache {
    /// Takes memory from the budget of pages, which make room for it in steps.
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

    /// Memory of what is pinned.
    pub fn pinned_bytes(&self) -> usize {
        self.0.pinned.get()
    }

    pub(super) fn apply_budget(&self) {
        let budget = self.0.budget.get();
        let left = budget.saturating_sub(self.0.pinned.get()).max(budget / LEAST_PART);
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
    fn pages_have_what_is_not_pinned() {
        block_on(async {
            let cache = PageCache::new(8 << 20);
            let budget = || cache.0.table.borrow().budget();
            let first = cache.pin(3 << 20).await;
            let second = cache.pin(1 << 20).await;
            assert_eq!((cache.pinned_bytes(), budget()), (4 << 20, 4 << 20));
            // Rows take some and give it back.
            cache.set_budget(6 << 20);
            assert_eq!(budget(), 2 << 20);
            let third = cache.pin(100 << 20).await;
            assert_eq!(budget(), (6 << 20) / LEAST_PART);
            drop((first, third));
            assert_eq!((cache.pinned_bytes(), budget()), (1 << 20, 5 << 20));
            cache.set_budget(8 << 20);
            drop(second);
            assert_eq!((cache.pinned_bytes(), budget()), (0, 8 << 20));
        });
    }
}
