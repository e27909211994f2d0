//! A table's part of the cache.
//!
//! **Number.** All keys of the table begin with it. To forget the table it gets another one: what is under the old one is no
//! longer found, and is removed in steps (rule 10).
//!
//! **Phase.** It changes when the table gets files with data that it did not have as files before. Who reads files adds to the cache
//! only as long as the phase is the one in which it began (rule 4).

use std::cell::{Cell, RefCell};

use espalier_mutation::{DecoratedKeyRef, schema::TableMetadata};

use super::{RowCache, RowCacheMetrics};
use crate::memtable::{RowFormat, path};

/// One table's part of its shard's row cache.
pub(crate) struct TableCache {
    pub(super) cache: RowCache,
    number: Cell<u32>,
    phase: Cell<u32>,
    format: Cell<RowFormat>,
    is_enabled: Cell<bool>,
    /// For paths.
    pub(super) path: RefCell<Vec<u8>>,
}

/// What a read of files that began at some moment may add to. Cheap to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(super) number: u32,
    phase: u32,
}

impl TableCache {
    pub(crate) fn new(cache: RowCache, table: &TableMetadata) -> Self {
        let is_enabled = is_enabled(table, &cache);
        Self {
            number: Cell::new(cache.new_number()),
            cache,
            phase: Cell::new(0),
            format: Cell::new(RowFormat::of(table)),
            is_enabled: Cell::new(is_enabled),
            path: RefCell::default(),
        }
    }

    /// Whether reads may use it.
    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.get()
    }

    #[inline]
    pub(super) fn format(&self) -> RowFormat {
        self.format.get()
    }

    /// What the paths of all its entries begin with.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number.get()
    }

    /// To be taken in the same moment as the table's view.
    #[inline]
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { number: self.number.get(), phase: self.phase.get() }
    }

    #[inline]
    pub(super) fn is_valid(&self, ticket: Ticket) -> bool {
        self.ticket() == ticket
    }

    /// The table has files with data that is not in the cache: to be called in the same moment as they come into its view, before
    /// [`Self::update`] or after [`Self::forget`].
    pub(crate) fn begin_phase(&self) {
        self.phase.set(self.phase.get().wrapping_add(1));
    }

    /// Forgets all that is known of the table.
    pub(crate) fn forget(&self) {
        let old = self.number.replace(self.cache.new_number());
        self.cache.remove_later(old);
    }

    /// Goes on with another version of the table. Keeps what it knows if rows are as they were and the table is cached before and after:
    /// while it is not, nobody reads here, and what is kept would only take room.
    pub(crate) fn alter(&self, table: &TableMetadata, has_same_rows: bool) {
        let is_enabled = is_enabled(table, &self.cache);
        let was_enabled = self.is_enabled.replace(is_enabled);
        if !has_same_rows || is_enabled != was_enabled {
            self.forget();
        }
        self.format.set(RowFormat::of(table));
    }

    /// Puts the path of a partition into `path`.
    #[inline]
    pub(super) fn put_partition(&self, number: u32, key: DecoratedKeyRef<'_>, path: &mut Vec<u8>) {
        path.clear();
        path.extend_from_slice(&number.to_be_bytes());
        path::put_partition(key, path);
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut RowCacheMetrics)) {
        change(&mut self.cache.0.borrow_mut().metrics);
    }
}

impl Drop for TableCache {
    fn drop(&mut self) {
        self.cache.remove_later(self.number.get());
    }
}

/// `caching = {'enabled': 'false'}` turns it off, as in ScyllaDB. What Cassandra's `rows_per_partition` says is for a cache of
/// another kind, and its default, NONE, cannot be told from a wish.
fn is_enabled(table: &TableMetadata, cache: &RowCache) -> bool {
    let wanted = table.options.caching.get("enabled");
    wanted.is_none_or(|value| !value.eq_ignore_ascii_case("false")) && !cache.is_off()
}
