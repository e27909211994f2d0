//! Tracks which huge pages of an area are in use, and chooses which to fill next.
//!
//! An allocator takes memory in slices of 64 KiB and looks for it region by region, within a region
//! from the lowest address up. It begins an unused region when the regions for its size of objects
//! are full. So it will next use the first free pages of a region in which it has just taken a
//! page; if that region is almost full, it will use the first pages of an unused region, too.
//!
//! The records here are hints: the memory is correct whatever they say, and any thread may take and
//! leave memory while another fills pages.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Bytes of the smallest huge page that a processor has.
pub(super) const HUGE_PAGE: usize = 2 << 20;
/// Minimum bytes that an allocator takes.
const SLICE: usize = HUGE_PAGE / u32::BITS as usize;
/// Huge pages in a region.
const PAGES: usize = 16;
/// Bytes of a region: the part of the area in which an allocator looks for objects of one size.
pub(super) const REGION: usize = PAGES * HUGE_PAGE;

/// Maximum pages to fill ahead in a region from which the allocator takes pages. While fewer than
/// 89 pages are in use besides the allocator's own, the thread fills fewer. It fills none if the
/// spare pages of all regions are at least this number plus an eighth of the pages in use.
const MAX_AHEAD: usize = 8;
/// While no more than this many pages are in use besides the allocator's own, none is filled ahead,
/// so that an idle process stays small.
const IDLE: usize = 32;

/// The state of up to `REGIONS` regions; the first `count` of them exist.
pub(super) struct Area<const REGIONS: usize> {
    regions: [Region; REGIONS],
    /// The number of regions that exist.
    count: AtomicUsize,
    /// The number of pages of which any slice is in use.
    used: AtomicUsize,
    /// The number of spare pages: filled, but not in use.
    spare: AtomicUsize,
    /// Pages that the allocator took for itself.
    of_allocator: AtomicUsize,
}

struct Region {
    pages: [Page; PAGES],
    /// True if a page was taken since the last [`Area::tend`].
    is_taken: AtomicBool,
}

struct Page {
    /// One bit for each slice in use.
    slices: AtomicU32,
    /// True if the page was filled, or is about to be, and no slice of it was taken since then.
    is_spare: AtomicBool,
}

impl Region {
    const fn new() -> Self {
        Self { pages: [const { Page::new() }; PAGES], is_taken: AtomicBool::new(false) }
    }
}

impl Page {
    const fn new() -> Self {
        Self { slices: AtomicU32::new(0), is_spare: AtomicBool::new(false) }
    }

    fn is_free(&self) -> bool {
        self.slices.load(Ordering::Relaxed) == 0
    }
}

impl<const REGIONS: usize> Area<REGIONS> {
    /// Creates an area without regions.
    pub(super) const fn new() -> Self {
        Self {
            regions: [const { Region::new() }; REGIONS],
            count: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            spare: AtomicUsize::new(0),
            of_allocator: AtomicUsize::new(0),
        }
    }

    /// Records that the pages in use at this moment are the allocator's own.
    pub(super) fn record_allocators_own(&self) {
        self.of_allocator.store(self.used.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Sets the number of regions that exist, at most `REGIONS`.
    pub(super) fn set_count(&self, count: usize) {
        self.count.store(count.min(REGIONS), Ordering::Relaxed);
    }

    /// Returns the number of regions that exist.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn regions(&self) -> &[Region] {
        &self.regions[..self.count()]
    }

    /// Returns the pages of a range of bytes, with a mask of the slices of each that are in the
    /// range.
    fn pages(&self, bytes: Range<usize>) -> impl Iterator<Item = (&Region, &Page, u32)> {
        let slices = bytes.start / SLICE..bytes.end.div_ceil(SLICE);
        let bits = u32::BITS as usize;
        let last = slices.end.div_ceil(bits).min(self.regions().len() * PAGES);
        (slices.start / bits..last).map(move |page| {
            let first = slices.start.saturating_sub(page * bits);
            let end = (slices.end - page * bits).min(bits);
            let mask = (u32::MAX >> (bits - (end - first))) << first;
            let region = &self.regions[page / PAGES];
            (region, &region.pages[page % PAGES], mask)
        })
    }

    /// Records that these bytes are about to be used. Returns true if a page was taken, so that
    /// [`Area::tend`] has work.
    pub(super) fn take(&self, bytes: Range<usize>) -> bool {
        let mut has_news = false;
        for (region, page, mask) in self.pages(bytes) {
            if page.slices.fetch_or(mask, Ordering::Relaxed) == 0 {
                self.used.fetch_add(1, Ordering::Relaxed);
                self.forget_spare(page);
                region.is_taken.store(true, Ordering::Release);
                has_news = true;
            }
        }
        has_news
    }

    /// Records that these bytes are no longer used and were given back to the system.
    pub(super) fn leave(&self, bytes: Range<usize>) {
        for (_, page, mask) in self.pages(bytes) {
            let before = page.slices.fetch_and(!mask, Ordering::Relaxed);
            if before != 0 && before & !mask == 0 {
                self.used.fetch_sub(1, Ordering::Relaxed);
                // The page is still marked spare if it was taken just before it was filled.
                self.forget_spare(page);
            }
        }
    }

    fn forget_spare(&self, page: &Page) {
        if page.is_spare.swap(false, Ordering::Relaxed) {
            self.spare.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Calls `fill` with the number of each page that is likely to be used next.
    pub(super) fn tend(&self, fill: &mut impl FnMut(usize)) {
        let used = self.used.load(Ordering::Relaxed);
        let idle = IDLE + self.of_allocator.load(Ordering::Relaxed);
        let ahead = used.saturating_sub(idle).div_ceil(8).min(MAX_AHEAD);
        let regions = self.regions();
        for (index, region) in regions.iter().enumerate() {
            if region.is_taken.swap(false, Ordering::Acquire) {
                let missing = ahead - self.fill(index, ahead, fill);
                let mut others = (index + 1..regions.len()).chain(0..index);
                let is_unused = |&other: &usize| regions[other].pages.iter().all(Page::is_free);
                if missing > 0
                    && let Some(other) = others.find(is_unused)
                {
                    self.fill(other, missing, fill);
                }
            }
        }
    }

    /// Fills the first `ahead` free pages of a region, unless too many are spare. Returns the
    /// number of the region's free pages, at most `ahead`.
    fn fill(&self, region: usize, ahead: usize, fill: &mut impl FnMut(usize)) -> usize {
        let most = self.used.load(Ordering::Relaxed) / 8 + MAX_AHEAD;
        let pages = self.regions[region].pages.iter().zip(region * PAGES..);
        let free = pages.filter(|(page, _)| page.is_free()).take(ahead);
        free.map(|(page, at)| {
            let has_room = self.spare.load(Ordering::Relaxed) < most;
            if has_room && !page.is_spare.swap(true, Ordering::Relaxed) {
                self.spare.fetch_add(1, Ordering::Relaxed);
                fill(at);
            }
        })
        .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONE: [usize; 0] = [];

    fn idle_area() -> Box<Area<8>> {
        let area = Box::new(Area::new());
        area.set_count(8);
        area
    }

    /// Creates an area whose regions 4 and 5 are in use.
    fn area() -> Box<Area<8>> {
        let area = idle_area();
        area.take(bytes_of(4 * PAGES..4 * PAGES + IDLE));
        assert_eq!(tend(&area), NONE, "an idle process");
        area
    }

    /// Returns the pages that were filled.
    fn tend(area: &Area<8>) -> Vec<usize> {
        let mut filled = Vec::new();
        area.tend(&mut |page| filled.push(page));
        filled
    }

    const fn bytes_of(pages: Range<usize>) -> Range<usize> {
        pages.start * HUGE_PAGE..pages.end * HUGE_PAGE
    }

    #[test]
    fn the_next_page_is_filled_when_one_is_taken() {
        let area = area();
        assert!(area.take(0..SLICE));
        assert_eq!(tend(&area), [1]);
        assert!(!area.take(SLICE..HUGE_PAGE), "nothing is new");
        assert!(area.take(HUGE_PAGE..HUGE_PAGE + 1));
        assert_eq!(tend(&area), [2]);
        assert_eq!(tend(&area), NONE);
    }

    #[test]
    fn the_last_page_of_a_region_is_followed_by_the_first_of_an_unused_one() {
        let area = area();
        area.take(bytes_of(PAGES..PAGES + 1));
        assert_eq!(tend(&area), [PAGES + 1]);
        area.take(bytes_of(0..PAGES - 1));
        assert_eq!(tend(&area), [PAGES - 1, 2 * PAGES], "two, for 16 more are used");
        area.take(bytes_of(PAGES - 1..PAGES));
        assert_eq!(tend(&area), [2 * PAGES + 1, 2 * PAGES + 2]);
        area.take(bytes_of(7 * PAGES..8 * PAGES));
        area.take(bytes_of(0..7 * PAGES));
        assert_eq!(tend(&area), NONE, "none is left");
    }

    #[test]
    fn more_pages_are_filled_in_regions_of_more_use() {
        let area = area();
        area.take(bytes_of(0..6));
        assert_eq!(tend(&area), [6]);
        area.take(bytes_of(2 * PAGES..2 * PAGES + 12));
        assert_eq!(tend(&area), [44, 45, 46], "18 more are used");
        area.take(bytes_of(3 * PAGES..8 * PAGES));
        assert_eq!(tend(&area), (16..24).collect::<Vec<_>>(), "eight at most");
    }

    #[test]
    fn a_freed_page_is_filled_again() {
        let area = area();
        area.take(bytes_of(0..1));
        assert_eq!(tend(&area), [1]);
        area.take(bytes_of(1..2));
        area.leave(bytes_of(0..1));
        assert_eq!(tend(&area), [0], "the first free page");
        area.leave(HUGE_PAGE..2 * HUGE_PAGE - SLICE);
        area.take(bytes_of(0..1));
        assert_eq!(tend(&area), [2], "of the other a slice is in use");
        area.leave(2 * HUGE_PAGE - SLICE..2 * HUGE_PAGE);
        area.leave(bytes_of(1..2));
        assert_eq!(tend(&area), NONE, "nothing was taken");
        area.take(bytes_of(2..3));
        assert_eq!(tend(&area), [1]);
    }

    #[test]
    fn the_allocators_own_memory_is_not_counted() {
        let area = idle_area();
        area.take(bytes_of(4 * PAGES..4 * PAGES + 20));
        area.record_allocators_own();
        area.take(bytes_of(0..PAGES));
        area.take(bytes_of(2 * PAGES..3 * PAGES));
        assert_eq!(tend(&area), NONE, "an idle process");
        area.take(bytes_of(3 * PAGES..3 * PAGES + 1));
        assert_eq!(tend(&area), [3 * PAGES + 1]);
    }

    #[test]
    fn bytes_that_are_not_there_are_left_out() {
        let area = area();
        area.set_count(1);
        assert!(area.take(bytes_of(PAGES - 1..3 * PAGES)));
        assert!(!area.take(bytes_of(PAGES..PAGES + 1)));
        assert_eq!(tend(&area), [0]);
    }

    #[test]
    fn spare_pages_are_limited_to_an_eighth() {
        let area = area();
        area.take(bytes_of(4 * PAGES..8 * PAGES));
        assert_eq!(tend(&area), [0, 1, 2, 3]);
        for region in 0..4 {
            area.take(bytes_of(region * PAGES..region * PAGES + 1));
        }
        assert_eq!(tend(&area).len(), 13, "of 20, for one of four was taken");
        assert_eq!(area.spare.load(Ordering::Relaxed), 68 / 8 + MAX_AHEAD);
        area.take(bytes_of(0..8 * PAGES));
        assert_eq!(area.spare.load(Ordering::Relaxed), 0);
    }

    proptest! {
        /// Compares with a model: a set of slices.
        #[test]
        fn pages_in_use_are_those_with_a_slice_in_use(
            steps in prop::collection::vec((any::<bool>(), 0..8 * PAGES * 32, 1..100usize, any::<bool>()), 1..200)
        ) {
            let area = idle_area();
            let all = 8 * PAGES * 32;
            let mut model = vec![false; all];
            for (is_taken, first, count, is_tended) in steps {
                let slices = first..(first + count).min(all);
                let bytes = slices.start * SLICE..slices.end * SLICE;
                if is_taken {
                    area.take(bytes);
                } else {
                    area.leave(bytes);
                }
                model[slices].fill(is_taken);
                if is_tended {
                    for page in tend(&area) {
                        prop_assert!(!model[page * 32..][..32].contains(&true));
                    }
                }
                let used = model.chunks(32).filter(|page| page.contains(&true)).count();
                prop_assert_eq!(area.used.load(Ordering::Relaxed), used);
                let pages = || area.regions.iter().flat_map(|region| &region.pages);
                let spare = pages().filter(|page| page.is_spare.load(Ordering::Relaxed));
                prop_assert_eq!(area.spare.load(Ordering::Relaxed), spare.count());
            }
        }
    }
}
