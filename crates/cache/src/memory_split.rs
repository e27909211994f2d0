//! The split of memory between rows and pages (rule 13 of docs/cache.md): the border moves towards
//! the side that evicts too early.
//!
//! Rows and pages have separate eviction orders, because a row is found by its position and a page
//! is shared by many rows. Each side keeps a ghost list, which remembers about as many of the
//! latest evictions as the side has entries. A row or page that is read from files again while it
//! is in the ghost list was evicted too early. Every second, the border moves in favour of the side
//! with more such evictions: by one page for each eviction by which the sides differ, but at most
//! by 1/32 of the rows' maximum. In the end both sides evict too early equally often, as they would
//! in one common order. The two lists follow ARC (N. Megiddo and D. Modha, FAST 2003).

use espalier_runtime::file::PAGE_BYTES;
use espalier_sstable::PageCache;

/// Rows keep at least 1/8 of their maximum.
const MIN_PART: usize = 8;
/// The border moves by at most 1/32 of the rows' maximum in one step.
const STEP_PART: usize = 32;
/// The cache reports its used bytes to the page cache in portions of 1/256 of the limit.
const SETTLED_PART: usize = 256;

/// The upper bound of such a portion: 512 KiB are 128 pages, which the page cache evicts at once,
/// within a tenth of a millisecond.
const MAX_SETTLED_BYTES: usize = 512 << 10;

/// The memory that rows and the pages of the page cache share.
pub(super) struct SharedMemory {
    /// The present limit of the row cache's memory; `max_bytes` is the largest limit that the row
    /// cache may get.
    pub(super) limit_bytes: usize,
    pub(super) max_bytes: usize,
    /// The page cache's count of pages that were read again soon after their eviction, when the
    /// border was last moved.
    pages_returned: u64,
    pages: PageCache,
    /// The budget of rows and pages together.
    budget_bytes: usize,
    /// The number of bytes that was last reported to the page cache as used by rows.
    reported_bytes: usize,
}

impl SharedMemory {
    pub(super) fn new(max_bytes: usize, pages: PageCache, budget_bytes: usize) -> Self {
        let limit_bytes = max_bytes;
        Self { limit_bytes, max_bytes, pages_returned: 0, pages, budget_bytes, reported_bytes: 0 }
    }

    /// Reports to the page cache the memory that rows use, once it has changed by a portion.
    /// Returns whether it has.
    #[inline]
    pub(super) fn report(&mut self, used_bytes: usize) -> bool {
        let portion = (self.limit_bytes / SETTLED_PART).min(MAX_SETTLED_BYTES);
        let has_changed = used_bytes.abs_diff(self.reported_bytes) > portion;
        if has_changed {
            self.reported_bytes = used_bytes;
            self.pages.set_budget(self.budget_bytes.saturating_sub(used_bytes));
        }
        has_changed
    }

    /// Moves the border by one step. `of_rows` is the number of rows that were evicted too early.
    /// Returns `true` if the limit of the rows is lower now.
    pub(super) fn move_border(&mut self, of_rows: u64) -> bool {
        let pages = self.pages.returned();
        let of_pages = pages - std::mem::replace(&mut self.pages_returned, pages);
        // Bloom filters reduce the rows' maximum in proportion. Below 1/32 of the budget, they
        // reduce only the pages.
        let of_filters = self.pages.pinned_bytes() as f64 / self.budget_bytes.max(1) as f64;
        let most = if of_filters < 1.0 / STEP_PART as f64 {
            self.max_bytes
        } else {
            (self.max_bytes as f64 * (1.0 - of_filters).max(0.0)) as usize
        };
        let step = |more: u64| (more as usize).saturating_mul(PAGE_BYTES).min(most / STEP_PART);
        let before = self.limit_bytes;
        self.limit_bytes = if of_rows >= of_pages {
            (before + step(of_rows - of_pages)).min(most)
        } else {
            before.saturating_sub(step(of_pages - of_rows)).clamp(most / MIN_PART, most)
        };
        self.limit_bytes < before
    }
}
