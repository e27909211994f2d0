//! The page cache: pages of files and decompressed chunks in memory, under one budget of bytes.
//! Each shard has one.
//!
//! The cache evicts pages that were used least often lately (see `table`). An evicted page lives on
//! while a task reads from it; the reads under way bound the memory that is pinned this way. A page
//! that is larger than the whole budget is returned and not kept. Pages of a closed file get
//! frequency zero in small steps, so that they are evicted before others. They are not dropped at
//! once, because a search for all of them would stall the core. Tasks that miss the same page at
//! the same time share one read.
//!
//! Readers that read much and would fill the cache with pages that no other reader needs (scans,
//! compactions, `BYPASS CACHE`) use [`Caching::Private`]: they use cached pages without changing
//! the pages' frequencies, and add no page. Their sequential streams of Data.db are an exception:
//! they do not use cached chunks, unless a scan reads in place.
//!
//! Invariant: the charges of all pages and of the bookkeeping sum up to `used_bytes`, which is at
//! most the budget whenever control returns.

mod cached_file;
mod cached_pages;
mod frequency;
mod in_flight;
mod part;
mod pinned;
mod table;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use bytes::Bytes;
pub(crate) use cached_file::{CachedFile, Caching};
pub(crate) use cached_pages::CachedPages;
use espalier_runtime::maybe_yield;
pub(crate) use part::Part;
pub use part::PartMetrics;
pub(crate) use pinned::Pinned;
pub(crate) use table::Slot;

use self::{
    in_flight::{InFlight, Role},
    part::Counters,
    table::PageTable,
};
use crate::error::Result;

/// Number of pages that are dropped between two checks of the clock. To drop them takes some ten
/// microseconds, including the allocator's time.
const FORGOTTEN_AT_ONCE: usize = 16;

/// The key of a page: a file, by a number that is never reused, and a page or chunk in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    pub(crate) file: u64,
    pub(crate) page: u64,
}

impl PageKey {
    #[inline]
    fn part(self) -> Part {
        if self.file & 1 == 0 { Part::Data } else { Part::Index }
    }
}

/// A cached page.
#[derive(Clone, Debug)]
pub(crate) struct CachedPage {
    pub(crate) bytes: Bytes,
    /// Bytes of memory that the page keeps alive.
    pub(crate) charge: usize,
}

/// The counters of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCacheMetrics {
    /// Pages that were cached, or that another task was reading already.
    pub hits: u64,
    /// Pages that were not cached and had to be read, including pages that the cache did not keep.
    /// Pages that scans read ahead do not count.
    pub misses: u64,
    /// The hits that waited for another task's read.
    pub shared_reads: u64,
    /// Pages that were evicted.
    pub evictions: u64,
    /// Bytes held, including bookkeeping.
    pub used_bytes: u64,
    /// Pages held.
    pub pages: usize,
    /// Counters of all index files.
    pub index: PartMetrics,
    /// Counters of all data files.
    pub data: PartMetrics,
}

/// A shard's page cache. Clones share it.
#[derive(Clone)]
pub struct PageCache(Rc<Shared>);

struct Shared {
    table: RefCell<PageTable>,
    /// The budget in bytes, for pages and pinned memory.
    budget: Cell<usize>,
    pinned: Cell<usize>,
    in_flight: InFlight,
    keeps_index_pages: Cell<bool>,
    next_file: Cell<u64>,
    counters: Counters,
    shared_reads: Cell<u64>,
}

impl PageCache {
    /// Makes an empty cache that holds at most `budget_bytes` bytes.
    pub fn new(budget_bytes: usize) -> Self {
        Self(Rc::new(Shared {
            table: RefCell::new(PageTable::new(budget_bytes)),
            budget: Cell::new(budget_bytes),
            pinned: Cell::new(0),
            in_flight: InFlight::default(),
            keeps_index_pages: Cell::new(true),
            next_file: Cell::new(0),
            counters: Counters::default(),
            shared_reads: Cell::new(0),
        }))
    }

    /// Changes the budget, and evicts pages at once if they exceed it.
    pub fn set_budget(&self, budget_bytes: usize) {
        self.0.budget.set(budget_bytes);
        self.apply_budget();
    }

    /// Returns the budget in bytes.
    pub(crate) fn budget(&self) -> usize {
        self.0.budget.get()
    }

    /// Drops, in steps, the pages that are cached when the call begins. Tasks that read from such a
    /// page can continue.
    pub async fn forget_pages(&self) {
        let mut end = self.0.table.borrow().len();
        while end > 0 {
            self.0.table.borrow_mut().forget_some(end, FORGOTTEN_AT_ONCE);
            end = end.saturating_sub(FORGOTTEN_AT_ONCE);
            maybe_yield().await;
        }
    }

    /// Sets whether index pages of SSTables that are opened later are cached. By default they are.
    pub fn keep_index_pages(&self, keep: bool) {
        self.0.keeps_index_pages.set(keep);
    }

    pub(crate) fn keeps_index_pages(&self) -> bool {
        self.0.keeps_index_pages.get()
    }

    /// Returns the number of pages that were read again soon after their eviction.
    pub fn returned(&self) -> u64 {
        self.0.table.borrow().returned()
    }

    /// Returns the counters of the cache.
    pub fn metrics(&self) -> PageCacheMetrics {
        let table = self.0.table.borrow();
        let (index, data) = (self.0.counters.of(Part::Index), self.0.counters.of(Part::Data));
        PageCacheMetrics {
            hits: index.hits + data.hits,
            misses: index.misses + data.misses,
            shared_reads: self.0.shared_reads.get(),
            evictions: table.evictions(),
            used_bytes: table.used_bytes() as u64,
            pages: table.len(),
            index,
            data,
        }
    }

    pub(crate) fn new_file_number(&self, part: Part) -> u64 {
        let number = self.0.next_file.get();
        self.0.next_file.set(number + 1);
        number << 1 | part as u64
    }

    /// Records that no task will ask for pages of this file any more.
    fn close_file(&self, file: u64) {
        // If a task borrows the table, the pages leave the cache later, like other pages that
        // nothing uses.
        if let Ok(mut table) = self.0.table.try_borrow_mut() {
            table.close_file(file);
        }
    }

    /// Counts a read from disk.
    fn count_read(&self, part: Part, bytes: usize) {
        self.0.counters.count(part, |metrics| {
            metrics.reads += 1;
            metrics.read_bytes += bytes as u64;
        });
    }

    fn count_hit(&self, key: PageKey) {
        self.0.counters.count(key.part(), |metrics| metrics.hits += 1);
    }

    fn count_miss(&self, key: PageKey) {
        self.0.counters.count(key.part(), |metrics| metrics.misses += 1);
    }

    /// Borrows all cached pages, and the pages that the look-up itself holds. The caller must not
    /// wait while it holds the borrow.
    #[inline]
    pub(crate) fn cached_pages<'a>(&'a self, held: &'a [(PageKey, Bytes)]) -> CachedPages<'a> {
        CachedPages::new(self.0.table.borrow(), &self.0.counters, held)
    }

    /// Returns a page from the cache, or from the read of it that another task has begun. Otherwise
    /// it calls `read` and caches the page.
    pub(crate) async fn get_or_read<F: Future<Output = Result<CachedPage>>>(
        &self,
        key: PageKey,
        read: impl FnOnce() -> F,
    ) -> Result<Bytes> {
        if let Some(bytes) = self.0.table.borrow().get(key) {
            self.count_hit(key);
            return Ok(bytes.clone());
        }
        let mut reading = None;
        match self.0.in_flight.join(key) {
            Role::Reader(own) => reading = Some(own),
            Role::Waiter(other) => {
                if let Some(bytes) = other.wait().await {
                    self.count_hit(key);
                    self.0.shared_reads.set(self.0.shared_reads.get() + 1);
                    return Ok(bytes);
                }
                // The other read failed. This task now reads for itself, and may fail with an error
                // of its own.
            }
        }
        self.count_miss(key);
        let page = read().await?;
        let bytes = page.bytes.clone();
        if let Some(reading) = reading {
            reading.succeed(&bytes);
        }
        self.insert(key, page);
        Ok(bytes)
    }

    /// Returns a cached page without recording its use in the frequencies; counts a hit or a miss.
    pub(crate) fn peek(&self, key: PageKey) -> Option<Bytes> {
        let found = self.0.table.borrow().peek(key).cloned();
        if found.is_some() {
            self.count_hit(key)
        } else {
            self.count_miss(key)
        }
        found
    }

    /// Returns whether a page is cached.
    pub(crate) fn holds(&self, key: PageKey) -> bool {
        self.0.table.borrow().peek(key).is_some()
    }

    /// Returns whether a task reads the page into the cache.
    pub(crate) fn is_being_read(&self, key: PageKey) -> bool {
        self.0.in_flight.has(key)
    }

    pub(crate) fn insert(&self, key: PageKey, page: CachedPage) {
        self.0.table.borrow_mut().insert(key, page);
    }
}

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.metrics().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use espalier_runtime::{block_on, spawn_local, sync::Event};

    use super::*;
    use crate::error::{FileName, SSTableError};

    const KEY: PageKey = PageKey { file: 1, page: 7 };

    /// Starts ten readers of one page while the disk is slow. `outcomes` says which reads succeed.
    /// Returns the cache, the number of reads and the number of readers that got the page.
    async fn ten_readers(budget: usize, outcomes: &[bool]) -> (PageCache, usize, usize) {
        let cache = PageCache::new(budget);
        let (disk, reads) = (Event::new(), Rc::new(Cell::new(0)));
        let readers: Vec<_> = (0..10)
            .map(|_| {
                let (cache, disk, reads) = (cache.clone(), disk.clone(), reads.clone());
                let outcomes = outcomes.to_vec();
                spawn_local(async move {
                    let read = || async {
                        let number = reads.get();
                        reads.set(number + 1);
                        disk.wait().await;
                        match outcomes.get(number) {
                            Some(false) => {
                                let name = FileName::new(std::path::Path::new("Data.db"));
                                Err(SSTableError::corrupt(&name, 0, "a broken page"))
                            }
                            _ => {
                                Ok(CachedPage { bytes: Bytes::from_static(b"page"), charge: 4096 })
                            }
                        }
                    };
                    cache.get_or_read(KEY, read).await
                })
            })
            .collect();
        for _ in 0..20 {
            espalier_runtime::yield_now().await;
        }
        disk.set();
        let mut right = 0;
        for reader in readers {
            right += usize::from(reader.await.is_ok_and(|bytes| &bytes[..] == b"page"));
        }
        (cache, reads.get(), right)
    }

    #[test]
    fn readers_of_one_page_share_one_read() {
        block_on(async {
            let (cache, reads, right) = ten_readers(1 << 20, &[true]).await;
            assert_eq!((reads, right), (1, 10));
            let metrics = cache.metrics();
            assert_eq!((metrics.misses, metrics.hits, metrics.shared_reads), (1, 9, 9));
            assert_eq!(metrics.pages, 1);
            // Readers share one read also if the cache cannot keep the page.
            let (cache, reads, right) = ten_readers(0, &[true]).await;
            assert_eq!((reads, right, cache.metrics().pages), (1, 10, 0));
        });
    }

    #[test]
    fn a_read_that_fails_is_the_error_of_its_reader_only() {
        block_on(async {
            let (cache, reads, right) = ten_readers(1 << 20, &[false]).await;
            assert_eq!((reads, right), (10, 9));
            assert_eq!(cache.metrics().pages, 1);
        });
    }
}
