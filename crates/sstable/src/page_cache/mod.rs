//! Pages of files and decompressed chunks in memory, under one budget of bytes. One cache for each shard.
//!
//! Replacement is the clock: a hand goes round, spares what was used since it last came by, and takes the first that was
//! not. A page that is evicted lives on while somebody reads from it; what is pinned that way is bounded by the reads
//! under way. A page that is larger than the whole budget is handed out and not kept. Pages of a file that was closed stay
//! until the hand takes them: nobody asks for them, and looking for them would hold the core.
//!
//! Invariant: the charges of all entries sum up to `used_bytes`, which is at most the budget whenever control returns.

mod cached_file;
mod clock;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use bytes::Bytes;
pub(crate) use cached_file::CachedFile;

use self::clock::Clock;

/// Names a page: a file by a number that is never reused, and a page or chunk in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    pub(crate) file: u64,
    pub(crate) page: u64,
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
    /// Pages found.
    pub hits: u64,
    /// Pages that had to be read.
    pub misses: u64,
    /// Pages that made room for others.
    pub evictions: u64,
    /// Bytes held, bookkeeping included.
    pub used_bytes: usize,
    /// Pages held.
    pub pages: usize,
}

/// A shard's page cache. Clones are the same cache.
#[derive(Clone)]
pub struct PageCache(Rc<Shared>);

struct Shared {
    clock: RefCell<Clock>,
    next_file: Cell<u64>,
    hits: Cell<u64>,
    misses: Cell<u64>,
}

impl PageCache {
    /// An empty cache that holds at most `budget_bytes`.
    pub fn new(budget_bytes: usize) -> Self {
        Self(Rc::new(Shared {
            clock: RefCell::new(Clock::new(budget_bytes)),
            next_file: Cell::new(0),
            hits: Cell::new(0),
            misses: Cell::new(0),
        }))
    }

    /// Changes the budget; evicts at once what is too much.
    pub fn set_budget(&self, budget_bytes: usize) {
        self.0.clock.borrow_mut().set_budget(budget_bytes);
    }

    /// What it did so far.
    pub fn metrics(&self) -> PageCacheMetrics {
        let clock = self.0.clock.borrow();
        PageCacheMetrics {
            hits: self.0.hits.get(),
            misses: self.0.misses.get(),
            evictions: clock.evictions(),
            used_bytes: clock.used_bytes(),
            pages: clock.len(),
        }
    }

    pub(crate) fn new_file_number(&self) -> u64 {
        let number = self.0.next_file.get();
        self.0.next_file.set(number + 1);
        number
    }

    #[inline]
    pub(crate) fn get(&self, key: PageKey) -> Option<Bytes> {
        let found = self.0.clock.borrow_mut().get(key);
        let counter = if found.is_some() { &self.0.hits } else { &self.0.misses };
        counter.set(counter.get() + 1);
        found
    }

    pub(crate) fn insert(&self, key: PageKey, page: CachedPage) {
        self.0.clock.borrow_mut().insert(key, page);
    }
}

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.metrics().fmt(f)
    }
}
