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

use espalier_runtime::{file::PAGE_BYTES, maybe_yield};

use super::{Inner, RowCache};

/// Rows keep at least 1/8 of their maximum.
const MIN_PART: usize = 8;
/// The border moves by at most 1/32 of the rows' maximum in one step.
const STEP_PART: usize = 32;
/// Maximum number of calls of [`Inner::make_room`] in one step. If readers retain so much memory
/// that usage stays above the limit, later insertions continue the eviction.
const MAX_TURNS: usize = 1 << 14;

impl RowCache {
    /// Moves the border between rows and pages towards the side that evicts too early, and evicts
    /// rows if their limit is lower now. The caller calls this every second.
    pub async fn split_memory(&self) {
        if !self.0.borrow_mut().move_border() {
            return;
        }
        for _ in 0..MAX_TURNS {
            {
                let mut inner = self.0.borrow_mut();
                if !inner.is_over(0) || inner.trie.is_empty() {
                    break;
                }
                inner.make_room();
            }
            maybe_yield().await;
        }
    }
}

impl Inner {
    /// Moves the border by one step. Returns `true` if the limit of the rows is lower now.
    fn move_border(&mut self) -> bool {
        let pages = self.pages.returned();
        let (of_rows, of_pages) = (
            std::mem::take(&mut self.ghosts.returned),
            pages - std::mem::replace(&mut self.pages_returned, pages),
        );
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
