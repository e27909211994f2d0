//! Reads of the partitions of a shard.

use std::rc::Rc;

use espalier_cache::add_cached_row;
use espalier_memtable::{Found, RowLookup};
use espalier_mutation::{DecoratedKeyRef, PackedRow, schema::TableMetadata};
use espalier_runtime::{trace, trace_event};
use espalier_sstable::{CachedRow, PointLookup, PointRow, PointScratch, SSTable};

use super::{ShardStore, counters::add};
use crate::{
    StorageError,
    read::{
        FragmentVisitor, ReadCommand, ReadResult, ReadTarget, TableAccess, Visit, read_on_shard,
        trace_point, trace_point_sources, trace_result, visit_on_shard,
    },
    table::TableView,
};

/// Maximum disk reads of one look-up before the general path takes over: some levels of both
/// indexes, and a chunk for each 64 KiB of a block.
const MAX_PAGES_PER_ROW: usize = 16;

/// Number of filters that are asked one after the other without prefetching them.
const FEW_FILTERS: usize = 2;

impl ShardStore {
    /// Executes a read command on the partitions of this shard. The caller asks for one partition
    /// only on the shard that owns it; another shard does not find it.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown, or if an SSTable is damaged or cannot be read.
    pub async fn read(&self, command: &ReadCommand) -> Result<ReadResult, StorageError> {
        debug_assert!(
            match &command.target {
                ReadTarget::Partition(key) => self.routing.owns(&command.table, key.token),
                ReadTarget::Range(_) => true,
            },
            "another shard owns the partition"
        );
        let table = self.tables.get(command.table.id)?;
        let (view, mut cache) = (table.view(), table.row_cache());
        // A command with an older version of the table must not use the caches.
        let is_version = table.is_version(&command.table);
        cache = cache.filter(|_| is_version);
        let empty = (is_version && !command.bypass_cache).then(|| table.empty_ranges().access());
        add(&self.counters.reads.all, 1);
        let own = self.routing.own_range(&command.table);
        if trace::is_on() {
            trace_command(command, view.sstables.len());
        }
        let access = TableAccess { view: &view, cache: cache.as_ref(), empty: empty.as_ref() };
        let result = read_on_shard(access, command, &own).await;
        if let (Some(_), Ok(result)) = (&command.search, &result) {
            count_index_read(self, &view, result);
        }
        if trace::is_on()
            && let Ok(result) = &result
        {
            trace_result(result);
        }
        result
    }

    /// Shows a visitor all that the partitions of this shard hold, as [`crate::Node::visit`] does.
    pub(crate) async fn visit(
        &self,
        command: &ReadCommand,
        visitor: &mut dyn FragmentVisitor,
    ) -> Result<Visit, StorageError> {
        let table = self.tables.get(command.table.id)?;
        let (view, cache) = (table.view(), table.row_cache());
        // A command with an older version of the table must not use the cache.
        let cache = cache.filter(|_| table.is_version(&command.table));
        add(&self.counters.reads.all, 1);
        let own = self.routing.own_range(&command.table);
        if trace::is_on() {
            trace_command(command, view.sstables.len());
        }
        let access = TableAccess { view: &view, cache: cache.as_ref(), empty: None };
        visit_on_shard(access, command, &own, visitor).await
    }

    /// Looks up one row without waiting, and calls `take` with it as it is stored. `clustering` has
    /// a value for each clustering column. With `may_use_caches` false, only the filters of
    /// SSTables are asked.
    ///
    /// # Contract of the cached look-ups
    ///
    /// A cached look-up answers from memory, or says that the answer is not known here. One
    /// contract holds for all of them:
    ///
    /// - `ShardStore::try_read_row` covers the table. `Some` is an answer: `take` got the row, or
    ///   [`RowLookup::NOTHING`]. `None` means "not known here".
    /// - `TableCache::look_up`, the row cache, covers all SSTables and answers in the same way.
    /// - `Memtable::look_up` covers one memtable. `Found::Row` and `Found::NoPartition` are
    ///   answers; `Found::Unreadable` means "not known here".
    /// - `SSTableReader::cached_row` covers one SSTable. `CachedRow::Partition` and
    ///   `CachedRow::NoPartition` are answers; `CachedRow::Unknown` means "not known here".
    ///
    /// 1. An answer is final for its source at the moment of the call. A row, a partition without
    ///    the row and an absent partition are all answers: the caller asks no slower path of that
    ///    source.
    /// 2. "Not known here" says nothing about the row. It may exist or not, and the caller must ask
    ///    the next source: the row cache, then cached pages, then [`ShardStore::read_row`], which
    ///    reads missing pages, and at last [`ShardStore::read`], which handles every case.
    /// 3. The reasons for "not known here" are: another shard owns the partition; several sources
    ///    may have a part of the row, so that it needs a merge; a page is not cached; the caller
    ///    has another version of the table; the case is rare and not handled here; the data is
    ///    damaged. The look-up does not report which.
    /// 4. A look-up has no errors. Damage is "not known here", and [`ShardStore::read`] meets it
    ///    again and reports it.
    /// 5. `take` runs at most once, and only with an answer. Without an answer the look-up has
    ///    changed nothing but statistics, the recency of cache entries, the content of reused
    ///    buffers, and the missing page that a pending look-up records.
    /// 6. The `RowLookup` borrows from the memtable, the cache or a reused buffer, and is valid
    ///    only within `take`. `take` must not call the store, because its buffers are borrowed
    ///    meanwhile.
    /// 7. The row is raw: the caller applies the deletions of the `RowLookup`, expiration, and
    ///    dropped columns, of which it may still have cells.
    #[inline]
    pub fn try_read_row<V: AsRef<[u8]>, R>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        may_use_caches: bool,
        take: impl FnOnce(RowLookup<'_>) -> R,
    ) -> Option<R> {
        let pending = &mut PointLookup::default();
        look_up_row(self, table, key, clustering, may_use_caches, pending, take)
    }

    /// Looks up one row as [`ShardStore::try_read_row`] does, but reads missing pages. As long as a
    /// single page keeps the look-up from an answer, it reads the page and resumes, on the table as
    /// it is then. Returns `None` if another reason remains; the caller then asks
    /// [`ShardStore::read`], which also reports errors.
    pub async fn read_row<V: AsRef<[u8]>, R>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        mut take: impl FnMut(RowLookup<'_>) -> R,
    ) -> Option<R> {
        let mut pending = PointLookup::default();
        for _ in 0..MAX_PAGES_PER_ROW {
            let found = look_up_row(self, table, key, clustering, true, &mut pending, &mut take);
            if found.is_some() || !pending.fetch_page(key, clustering).await.unwrap_or(false) {
                return found;
            }
        }
        None
    }
}

#[inline]
fn look_up_row<V: AsRef<[u8]>, R>(
    store: &ShardStore,
    table: &TableMetadata,
    key: DecoratedKeyRef<'_>,
    clustering: &[Option<V>],
    may_use_caches: bool,
    pending: &mut PointLookup,
    take: impl FnOnce(RowLookup<'_>) -> R,
) -> Option<R> {
    if !store.routing.owns(table, key.token) {
        return None;
    }
    let tables = store.tables.by_id.borrow();
    let stored = tables.get(&table.id)?;
    let view = stored.borrow_view();
    let mut path = store.buffers.lookup_path.borrow_mut();
    // A traced read does not answer from caches: the general path traces each page.
    let is_traced = trace::is_on();
    let may_use_caches = may_use_caches && !is_traced;
    if !view.sstables.is_empty() {
        let hash = pending.hash_of(key);
        let in_range = view.sstables.iter().filter(|sstable| sstable.spans(key));
        // A single SSTable is searched without its filter: its index answers as well, and
        // mostly has the row.
        let is_only = may_use_caches && in_range.clone().nth(1).is_none();
        // The filters of a large table are in no processor cache; asked one after the other,
        // each would be waited for.
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
            // A caller that waited, or that is on another shard, may have an older version of
            // the table.
            if !may_use_caches || !stored.has_version_of(table) || is_in_memtable() {
                return None;
            }
            let cache = stored.enabled_row_cache();
            let mut take = Some(take);
            if let Some(cache) = cache {
                let take = |lookup: RowLookup<'_>| take.take().map(|take| take(lookup));
                if let Some(result) = cache.look_up(table, key, clustering, take) {
                    add(&store.counters.reads.all, 1);
                    return result;
                }
            }
            let mut scratch = store.buffers.point_scratch.borrow_mut();
            let row = row_of_one(sstables, (key, hash), clustering, pending, &mut scratch)?;
            add(&store.counters.reads.all, 1);
            if let Some(cache) = cache {
                add_cached_row(cache, table, key, clustering, row.as_ref(), &scratch);
            }
            return take_stored(row, &scratch, take.take()?);
        }
    }
    if is_traced {
        trace_event!("Looking for one row of {} in the memtable alone", table.name);
        trace_point_sources(&view, key);
    }
    let mut memtable = &view.memtable;
    if !view.flushing.is_empty() {
        // Several memtables may hold a part of the row; more than one needs a merge.
        let mut having = view.memtables().filter(|memtable| memtable.has(key, &mut path));
        match (having.next(), having.next()) {
            (Some(only), None) => memtable = only,
            (Some(_), Some(_)) => return None,
            (None, _) => {
                if is_traced {
                    trace_point(None);
                }
                return Some(take(RowLookup::NOTHING));
            }
        }
    }
    if memtable.may_hold_dropped(table) {
        return None;
    }
    let mut take = Some(take);
    let found = memtable.look_up(table, key, clustering, &mut path, |lookup| {
        if is_traced {
            trace_point(Some(&lookup));
        }
        take.take().map(|take| take(lookup))
    });
    match found {
        Found::Row(result) => result,
        Found::NoPartition => {
            if is_traced {
                trace_point(None);
            }
            take.take().map(|take| take(RowLookup::NOTHING))
        }
        Found::Unreadable => None,
    }
}

/// Counts a read that looked for rows by indexes. If it found damage, the background task makes
/// the entries again.
fn count_index_read(store: &ShardStore, view: &TableView, result: &ReadResult) {
    let counters = &store.counters.reads;
    add(&counters.passed_entries, result.passed_entries);
    if result.used_index {
        add(&counters.by_index, 1);
    } else if view.damaged_indexes() > 0 {
        store.wakers.indexes.notify_one();
    }
}

/// Looks up a row in cached pages of SSTables of which at most one may hold the partition. Returns
/// `Some(None)` if none holds it, and `None` if the row needs a merge or a disk read.
fn row_of_one<'a, V: AsRef<[u8]>>(
    sstables: impl Iterator<Item = &'a Rc<SSTable>>,
    (key, hash): (DecoratedKeyRef<'_>, (u64, u64)),
    clustering: &[Option<V>],
    pending: &mut PointLookup,
    scratch: &mut PointScratch,
) -> Option<Option<PointRow>> {
    let mut only = None;
    for sstable in sstables {
        // A second SSTable with the partition overwrites the row, but then there is no answer
        // anyway.
        match sstable.reader().cached_row(key, hash, clustering, pending, scratch) {
            CachedRow::Unknown => return None,
            CachedRow::NoPartition => {}
            CachedRow::Partition(_) if only.is_some() => return None,
            CachedRow::Partition(row) => only = Some(row),
        }
    }
    Some(only)
}

#[inline]
fn take_stored<R>(
    row: Option<PointRow>,
    scratch: &PointScratch,
    take: impl FnOnce(RowLookup<'_>) -> R,
) -> Option<R> {
    let Some(found) = row else { return Some(take(RowLookup::NOTHING)) };
    let row = if found.has_row { Some(PackedRow::new(scratch.row()).ok()?) } else { None };
    let PointRow { partition_deletion, range_deletion, .. } = found;
    Some(take(RowLookup { partition_deletion, range_deletion, row, static_row: None }))
}

/// Traces the command in Cassandra's words.
#[cold]
fn trace_command(command: &ReadCommand, sstables: usize) {
    let table = &command.table.name;
    match &command.target {
        ReadTarget::Partition(key) => {
            let token = key.token.0;
            trace_event!(
                "Executing single-partition query on {table}: token {token}, {sstables} sstables"
            );
        }
        ReadTarget::Range(_) => {
            trace_event!("Executing seq scan on {table}: {sstables} sstables");
        }
    }
}
