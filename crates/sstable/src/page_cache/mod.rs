//! Pages of files and decompressed chunks in memory, under one budget of bytes. One cache for each shard.
//!
//! What goes for others is what was used least often lately (see `table`). A page that is evicted lives on while somebody reads from it; what is
//! pinned that way is bounded by the reads under way. A page that is larger than the whole budget is handed out and not kept.
//! Pages of a file that was closed stay until the hand takes them, before all others: nobody asks for them, and looking for all of them would hold the
//! core. Several who miss the same page at once share one read.
//!
//! Who reads much and would fill the cache with what nobody else wants (scans, compactions, `BYPASS CACHE`) reads by
//! [`Caching::Private`]: what is cached is used, but not counted as used, and nothing is added.
//!
//! Invariant: the charges of all entries sum up to `used_bytes`, which is at most the budget whenever control returns.

mod at_hand;
mod cached_file;
mod heat;
mod in_flight;
mod part;
mod pinned;
mod table;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

pub(crate) use at_hand::PagesAtHand;
use bytes::Bytes;
pub(crate) use cached_file::{CachedFile, Caching};
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

/// Pages that are forgotten without a look at the clock: some ten microseconds, what the allocator takes among them.
const FORGOTTEN_AT_ONCE: usize = 16;

/// Names a page: a file by a number that is never reused, and a page or chunk in it.
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

/// A page as it is cached.
#[derive(Clone, Debug)]
pub(crate) struct CachedPage {
    pub(crate) bytes: Bytes,
    /// Memory that the bytes keep alive.
    pub(crate) charge: usize,
}

/// What the cache did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCacheMetrics {
    /// Pages found, or got by a read of somebody else.
    pub hits: u64,
    /// Pages that had to be read, those that were not kept among them. What scans read ahead is not.
    pub misses: u64,
    /// Of the hits, those that waited for a read of somebody else.
    pub shared_reads: u64,
    /// Pages that made room for others.
    pub evictions: u64,
    /// Bytes held, bookkeeping included.
    pub used_bytes: usize,
    /// Pages held.
    pub pages: usize,
    /// Of all files of indexes.
    pub index: PartMetrics,
    /// Of all files of data.
    pub data: PartMetrics,
}

/// A shard's page cache. Clones are the same cache.
#[derive(Clone)]
pub struct PageCache(Rc<Shared>);

struct Shared {
    table: RefCell<PageTable>,
    /// For pages and what is pinned.
    budget: Cell<usize>,
    pinned: Cell<usize>,
    in_flight: InFlight,
    keeps_index_pages: Cell<bool>,
    next_file: Cell<u64>,
    counters: Counters,
    shared_reads: Cell<u64>,
}

impl PageCache {
    /// An empty cache that holds at most `budget_bytes`.
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

    /// Changes the budget; evicts at once what is too much.
    pub fn set_budget(&self, budget_bytes: usize) {
        self.0.budget.set(budget_bytes);
        self.apply_budget();
    }

    /// Forgets the pages that are there when it begins, in steps. Who reads from one meanwhile reads on.
    pub async fn forget_pages(&self) {
        let mut end = self.0.table.borrow().len();
        while end > 0 {
            self.0.table.borrow_mut().forget_some(end, FORGOTTEN_AT_ONCE);
            end = end.saturating_sub(FORGOTTEN_AT_ONCE);
            maybe_yield().await;
        }
    }

    /// Whether pages of the indexes of SSTables that are opened from now on are kept; they are, unless told otherwise.
    pub fn keep_index_pages(&self, keep: bool) {
        self.0.keeps_index_pages.set(keep);
    }

    pub(crate) fn keeps_index_pages(&self) -> bool {
        self.0.keeps_index_pages.get()
    }

    /// How many pages were read again soon after they made room.
    pub fn returned(&self) -> u64 {
        self.0.table.borrow().returned()
    }

    /// What it did so far.
    pub fn metrics(&self) -> PageCacheMetrics {
        let table = self.0.table.borrow();
        let (index, data) = (self.0.counters.of(Part::Index), self.0.counters.of(Part::Data));
        PageCacheMetrics {
            hits: index.hits + data.hits,
            misses: index.misses + data.misses,
            shared_reads: self.0.shared_reads.get(),
            evictions: table.evictions(),
            used_bytes: table.used_bytes(),
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

    /// Nobody will ask for pages of this file any more.
    fn close_file(&self, file: u64) {
        // Where somebody reads meanwhile they get cold by themselves.
        if let Ok(mut table) = self.0.table.try_borrow_mut() {
            table.close_file(file);
        }
    }

    /// A read from the disk.
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

    /// All that is in memory now, and what the look-up itself holds, to be read in one go. Nothing may be waited for meanwhile.
    #[inline]
    pub(crate) fn at_hand<'a>(&'a self, held: &'a [(PageKey, Bytes)]) -> PagesAtHand<'a> {
        PagesAtHand::new(self.0.table.borrow(), &self.0.counters, held)
    }

    /// A page from the cache, or by `read`, or by somebody else's read of it; then it is in the cache.
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
                // It failed, and so may we; but with an error of our own.
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

    /// A page, if it is there, without a trace.
    pub(crate) fn peek(&self, key: PageKey) -> Option<Bytes> {
        let found = self.0.table.borrow().peek(key).cloned();
        match found.is_some() {
            true => self.count_hit(key),
            false => self.count_miss(key),
        }
        found
    }

    /// Whether a page is there.
    pub(crate) fn holds(&self, key: PageKey) -> bool {
        self.0.table.borrow().peek(key).is_some()
    }

    /// Whether somebody reads a page now, for all who want it.
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

    /// Ten readers of one page while the disk takes its time; `outcomes` are those of the reads that there are.
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
            // A page that is not kept is shared all the same.
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
