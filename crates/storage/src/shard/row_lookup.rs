//! The look-up of one row by its full key, on the shard that owns the row.
//!
//! A look-up is an object that is polled. A poll waits for nothing and allocates nothing. It
//! searches
//!
//! 1. the only memtable that has the partition, if no SSTable can hold the partition;
//! 2. the row cache, if no memtable has the partition;
//! 3. the cached pages of the SSTables, of which only one may have the partition. The poll adds the
//!    row to the row cache.
//!
//! All reads of one row by its full key begin with a look-up. A request that may not wait polls it
//! once. A request that may wait reads each missing page and polls again, on the table as it is
//! then. If another shard owns the row, that shard polls. A trace adds its events and does not
//! change the outcome. If the look-up has no answer, the general read ([`ShardStore::read`]) merges
//! the sources and reports errors.

use std::{cell::Cell, rc::Rc};

use espalier_cache::add_cached_row;
use espalier_mutation::{DecoratedKeyRef, FoundRow, Lookup, schema::TableMetadata};
use espalier_runtime::{trace, trace_event};
use espalier_sstable::{PointLookup, PointScratch, SSTable};

use super::{ShardStore, counters::add};
use crate::{
    read::{RowSource, trace_found_row, trace_row_lookup, trace_sstable},
    table::{Table, TableView},
};

/// Maximum disk reads of one look-up before the general read takes over: some levels of both
/// indexes, and a chunk for each 64 KiB of a block.
const MAX_PAGES_PER_ROW: usize = 16;

/// Number of filters that are asked one after the other without prefetching them.
const FEW_FILTERS: usize = 2;

/// The look-up of a row; [`Lookup`] is the contract of its outcomes.
///
/// The look-up keeps the pages that it has read for its current stage.
pub struct RowLookup<'a, V> {
    table: &'a TableMetadata,
    key: DecoratedKeyRef<'a>,
    clustering: &'a [Option<V>],
    bypasses_cache: bool,
    is_resumed: bool,
    files: PointLookup,
}

impl<'a, V: AsRef<[u8]>> RowLookup<'a, V> {
    /// Begins to look for a row. `clustering` has a value for each clustering column.
    #[inline]
    pub fn new(
        table: &'a TableMetadata,
        key: DecoratedKeyRef<'a>,
        clustering: &'a [Option<V>],
    ) -> Self {
        let files = PointLookup::default();
        Self { table, key, clustering, bypasses_cache: false, is_resumed: false, files }
    }

    /// With `bypasses_cache`, the look-up answers only if no SSTable can hold the partition.
    #[inline]
    #[must_use]
    pub fn bypassing_cache(self, bypasses_cache: bool) -> Self {
        Self { bypasses_cache, ..self }
    }

    /// Looks for the row in memory. Calls `take` with the row as its only source holds it.
    #[inline]
    pub fn poll<R>(
        &mut self,
        store: &ShardStore,
        mut take: impl FnMut(FoundRow<'_>) -> R,
    ) -> Lookup<R> {
        let is_traced = trace::is_on();
        let source = Cell::new(RowSource::Memtable);
        let outcome = self.look(store, is_traced, &source, |row| {
            if is_traced {
                trace_found_row(source.get(), Some(&row));
            }
            take(row)
        });
        if is_traced && matches!(outcome, Lookup::Absent) {
            trace_found_row(source.get(), None);
        }
        outcome
    }

    /// Looks for the row, and reads the pages that are not in memory, from disk or by joining
    /// another task's read. The outcome is not [`Lookup::MissingPage`].
    pub async fn wait<R>(
        mut self,
        store: &ShardStore,
        mut take: impl FnMut(FoundRow<'_>) -> R,
    ) -> Lookup<R> {
        for _ in 0..MAX_PAGES_PER_ROW {
            match self.poll(store, &mut take) {
                Lookup::MissingPage => {}
                outcome => return outcome,
            }
            if !self.files.fetch_page(self.key, self.clustering).await.unwrap_or(false) {
                break;
            }
            self.is_resumed = true;
        }
        Lookup::Unknown
    }

    #[inline]
    fn look<R>(
        &mut self,
        store: &ShardStore,
        is_traced: bool,
        source: &Cell<RowSource>,
        take: impl FnMut(FoundRow<'_>) -> R,
    ) -> Lookup<R> {
        let Self { table, key, .. } = *self;
        if !store.routing.owns(table, key.token) {
            return Lookup::Unknown;
        }
        let tables = store.tables.by_id.borrow();
        let Some(stored) = tables.get(&table.id) else { return Lookup::Unknown };
        let view = stored.borrow_view();
        let mut path = store.buffers.lookup_path.borrow_mut();
        if is_traced {
            trace_row_lookup(table, &view, key, self.is_resumed);
        }
        if !view.sstables.is_empty() {
            let hash = self.files.hash_of(key);
            let in_range = view.sstables.iter().filter(|sstable| sstable.spans(key));
            // A single SSTable is searched without its filter: its index answers as well, and
            // mostly has the row. A traced look-up asks the filter, because the trace reports the
            // filter's answer.
            let is_only = !self.bypasses_cache && !is_traced && in_range.clone().nth(1).is_none();
            // The filters of a large table are in no processor cache. Without the prefetch, the
            // look-up would wait for each filter in turn.
            if in_range.clone().nth(FEW_FILTERS).is_some() {
                in_range.clone().for_each(|sstable| sstable.look_ahead_in_filter(hash));
            }
            let mut sstables =
                in_range.filter(|sstable| is_only || sstable.passes_filter(hash)).peekable();
            if sstables.peek().is_some() {
                let mut is_in_memtable = || {
                    let mut memtables = view.memtables().filter(|memtable| !memtable.is_empty());
                    memtables.any(|memtable| memtable.has(key, &mut path))
                };
                // A caller that waited, or a request from another shard, may have an older version
                // of the table.
                if self.bypasses_cache || !stored.has_version_of(table) || is_in_memtable() {
                    return Lookup::Unknown;
                }
                trace_event!("Partition not found in memtable");
                return self.look_in_sstables(store, stored, sstables, source, take);
            }
        }
        self.look_in_memtables(&view, &mut path, take)
    }

    /// Looks for the row in the memtables; only one of them may have the partition.
    #[inline]
    fn look_in_memtables<R>(
        &self,
        view: &TableView,
        path: &mut Vec<u8>,
        take: impl FnOnce(FoundRow<'_>) -> R,
    ) -> Lookup<R> {
        let Self { table, key, clustering, .. } = *self;
        let mut memtable = &view.memtable;
        if !view.flushing.is_empty() {
            // Several memtables may hold a part of the row; more than one needs a merge.
            let mut having = view.memtables().filter(|memtable| memtable.has(key, path));
            match (having.next(), having.next()) {
                (Some(only), None) => memtable = only,
                (Some(_), Some(_)) => return Lookup::Unknown,
                (None, _) => return Lookup::Absent,
            }
        }
        if memtable.may_hold_dropped(table) {
            return Lookup::Unknown;
        }
        memtable.look_up(table, key, clustering, path, take)
    }

    /// Looks for the row in the row cache, and then in cached pages. Adds a row of a page to the
    /// row cache.
    #[inline]
    fn look_in_sstables<'s, R>(
        &mut self,
        store: &ShardStore,
        stored: &Table,
        sstables: impl Iterator<Item = &'s Rc<SSTable>>,
        source: &Cell<RowSource>,
        mut take: impl FnMut(FoundRow<'_>) -> R,
    ) -> Lookup<R> {
        let Self { table, key, clustering, .. } = *self;
        let cache = stored.enabled_row_cache();
        if let Some(cache) = cache {
            source.set(RowSource::Cache);
            match cache.look_up(table, key, clustering, &mut take) {
                Lookup::Unknown => trace_event!("Partition not found in row cache"),
                outcome => {
                    add(&store.counters.reads.all, 1);
                    return outcome;
                }
            }
        }
        source.set(RowSource::Files);
        let mut scratch = store.buffers.point_scratch.borrow_mut();
        let outcome = self.look_in_files(sstables, &mut scratch);
        let found = match outcome {
            Lookup::Row(()) => scratch.found(),
            Lookup::Absent => Some(FoundRow::NOTHING),
            Lookup::MissingPage => return Lookup::MissingPage,
            Lookup::Unknown => None,
        };
        let Some(found) = found else { return Lookup::Unknown };
        add(&store.counters.reads.all, 1);
        if let Some(cache) = cache {
            add_cached_row(cache, table, key, clustering, &found);
        }
        if outcome == Lookup::Absent { Lookup::Absent } else { Lookup::Row(take(found)) }
    }

    /// Looks for the row in SSTables of which only one may have something of the partition;
    /// otherwise the row needs a merge. If the outcome is a row, `scratch` has the row.
    fn look_in_files<'s>(
        &mut self,
        sstables: impl Iterator<Item = &'s Rc<SSTable>>,
        scratch: &mut PointScratch,
    ) -> Lookup<()> {
        let (key, clustering) = (self.key, self.clustering);
        let mut all = Lookup::Absent;
        for sstable in sstables {
            // A second SSTable with the partition overwrites the row, but then there is no answer
            // anyway.
            match sstable.reader().look_up(key, clustering, &mut self.files, scratch) {
                Lookup::Absent => {}
                Lookup::Row(()) if all == Lookup::Absent => {
                    all = Lookup::Row(());
                    if trace::is_on()
                        && let Some(found) = scratch.found()
                    {
                        trace_sstable(sstable, found.partition_deletion, true);
                    }
                }
                Lookup::Row(()) => return Lookup::Unknown,
                outcome => return outcome,
            }
        }
        all
    }
}
