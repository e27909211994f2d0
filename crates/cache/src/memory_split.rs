//! The split of memory between rows and pages (rule 13): the border moves towards the side that
//! evicts too early.
//!
//! Rows and pages have separate eviction orders, because a row is found by its position and a page
//! is shared by many rows. Each side keeps a ghost list of its latest evictions, about as many as
//! it has entries. A row or page that is read from files again while it is in the ghost list was
//! evicted too early. Every second, the border moves in favour of the side with more such
//! evictions, by one page for each that it has more than the other, but at most by 1/32 of the
//! whole. In the end both sides evict too early equally often, as they would in one common order.
//! The two lists follow ARC (N. Megiddo and D. Modha, FAST 2003).

use espalier_runtime::{file::PAGE_BYTES, maybe_yield};

use super::{Inner, RowCache};

/// Rows keep at least this part of their largest limit.
const MIN_PART: usize = 8;
/// The largest part of the limit that changes sides in one step.
const STEP_PART: usize = 32;
/// The maximum number of turns of the clock hand in one step. If readers retain so much memory that
/// the hand does not reach the new limit, the next step continues.
const MAX_TURNS: usize = 1 << 14;

impl RowCache {
    /// Moves the border between rows and pages towards the side that evicts too early. Called every
    /// second.
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
    /// Moves the border by one step. Returns `true` if rows got a lower limit.
    fn move_border(&mut self) -> bool {
        let pages = self.pages.returned();
        let (of_rows, of_pages) = (
            std::mem::take(&mut self.ghosts.returned),
            pages - std::mem::replace(&mut self.pages_returned, pages),
        );
        // Filters are taken from both sides in proportion, or from pages alone if they take less
        // than 1/32 of the budget.
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
