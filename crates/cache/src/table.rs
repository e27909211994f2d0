//! A table's part of the cache.
//!
//! **Number.** All keys of the table begin with its number. To forget the table, the cache gives it
//! another number: entries under the old number are no longer found, and are removed in steps
//! (docs/cache.md, rule 10).
//!
//! **Epoch.** A new epoch begins when the table's files come to hold other data: by a flush, an
//! import or a truncation, or by a compaction that leaves data out. A read of files adds to the
//! cache only in the epoch in which the read began (rule 4).

use std::cell::{Cell, RefCell};

use espalier_memtable::RowFormat;
use espalier_mutation::{DecoratedKeyRef, path, schema::TableMetadata};

use super::{RowCache, RowCacheMetrics};

/// One table's part of its shard's row cache.
pub struct TableCache {
    pub(super) cache: RowCache,
    number: Cell<u32>,
    epoch: Cell<u32>,
    format: Cell<RowFormat>,
    is_enabled: Cell<bool>,
    /// A buffer for paths.
    pub(super) path: RefCell<Vec<u8>>,
}

/// The number and the epoch of the table when a read of files began. The read may add to the cache
/// as long as both are unchanged. Cheap to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub(super) number: u32,
    epoch: u32,
}

impl TableCache {
    /// Creates the table's part of `cache`, which is empty.
    pub fn new(cache: RowCache, table: &TableMetadata) -> Self {
        let is_enabled = is_enabled(table, &cache);
        Self {
            number: Cell::new(cache.new_number()),
            cache,
            epoch: Cell::new(0),
            format: Cell::new(RowFormat::of(table)),
            is_enabled: Cell::new(is_enabled),
            path: RefCell::default(),
        }
    }

    /// Returns whether reads may use the cache.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.is_enabled.get()
    }

    #[inline]
    pub(super) fn format(&self) -> RowFormat {
        self.format.get()
    }

    /// Returns the number with which the paths of all entries of the table begin.
    #[inline]
    pub fn number(&self) -> u32 {
        self.number.get()
    }

    /// Returns a ticket. The caller takes it at the same moment as the table's view.
    #[inline]
    pub fn ticket(&self) -> Ticket {
        Ticket { number: self.number.get(), epoch: self.epoch.get() }
    }

    /// Returns whether the cache has neither begun an epoch nor forgotten the table since it gave
    /// the ticket.
    #[inline]
    pub fn is_valid(&self, ticket: Ticket) -> bool {
        self.ticket() == ticket
    }

    /// Begins a new epoch because the table has files with data that is not in the cache. Called at
    /// the moment when the files come into the table's view, before [`Self::update`] or after
    /// [`Self::forget`].
    pub fn begin_epoch(&self) {
        self.epoch.set(self.epoch.get().wrapping_add(1));
    }

    /// Forgets all entries of the table.
    pub fn forget(&self) {
        let old = self.number.replace(self.cache.new_number());
        self.cache.remove_later(old);
    }

    /// Switches to another version of the table. Keeps the entries if rows are encoded as before
    /// and caching is not switched on or off: while it is off, no read uses the entries, and they
    /// would only take memory.
    pub fn alter(&self, table: &TableMetadata, has_same_rows: bool) {
        let is_enabled = is_enabled(table, &self.cache);
        let was_enabled = self.is_enabled.replace(is_enabled);
        if !has_same_rows || is_enabled != was_enabled {
            self.forget();
        }
        self.format.set(RowFormat::of(table));
    }

    /// Writes the path of a partition into `path`.
    #[inline]
    pub(super) fn put_partition(&self, number: u32, key: DecoratedKeyRef<'_>, path: &mut Vec<u8>) {
        path.clear();
        path.extend_from_slice(&number.to_be_bytes());
        path::put_partition(key, path);
    }

    /// Changes the counters of the cache.
    pub fn count(&self, change: impl FnOnce(&mut RowCacheMetrics)) {
        change(&mut self.cache.0.borrow_mut().metrics);
    }
}

impl Drop for TableCache {
    fn drop(&mut self) {
        self.cache.remove_later(self.number.get());
    }
}

/// Returns whether the table is cached. `caching = {'enabled': 'false'}` turns the cache off, as in
/// ScyllaDB. Cassandra's `rows_per_partition` is ignored: it configures another kind of cache, and
/// its default, NONE, is indistinguishable from an explicit NONE.
fn is_enabled(table: &TableMetadata, cache: &RowCache) -> bool {
    let wanted = table.options.caching.get("enabled");
    wanted.is_none_or(|value| !value.eq_ignore_ascii_case("false")) && !cache.is_off()
}
