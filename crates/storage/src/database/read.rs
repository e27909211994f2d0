//! Reads: on this shard, on another, over several.

use std::rc::Rc;

use espalier_mutation::{
    DecoratedKeyRef, KeyBound, KeyRange, PackedRow, Token, schema::TableMetadata,
};
use espalier_runtime::{trace, trace_event};
use espalier_sstable::{PendingRow, PointRow, PointScratch, RowAtHand};

use super::Database;
use crate::{
    StorageError,
    cache::add_row_at_hand,
    memtable::{Found, RowLookup},
    purge::row_bytes,
    read::{
        PartitionRows, ReadCommand, ReadResult, ReadTarget, TableAccess, read_on_shard, tell_point,
        tell_point_sources, tell_result,
    },
    system::{SCHEMA_KEYSPACE, is_made_when_read},
    table::SSTable,
};

/// Reads from the disk for one row, before it is left to the general path: some levels of both indexes, and a chunk for each 64 KiB
/// of a block.
const MOST_PAGES_OF_A_ROW: usize = 16;

/// Filters that are asked one after the other without looking ahead.
const FEW_FILTERS: usize = 2;

impl Database {
    /// Reads. Ranges go from shard to shard in ring order.
    pub async fn read(&self, command: ReadCommand) -> Result<ReadResult, StorageError> {
        if is_made_when_read(&command.table.keyspace, &command.table.name) {
            return Box::pin(self.read_virtual(&command)).await;
        }
        let shards = match &command.target {
            ReadTarget::Partition(key) => {
                let shard = self.shard_of(&command.table, key);
                trace_event!("Shard {shard} owns token {}", key.token.0);
                return self.read_on(shard, command).await;
            }
            ReadTarget::Range(range) => self.shards_of_range(&command.table, range),
        };
        let first = match &command.resume {
            Some(position) => self.shard_of(&command.table, &position.key).max(shards.start),
            None => shards.start,
        };
        let mut command = command;
        let mut result = ReadResult::default();
        for shard in first..shards.end {
            let part = self.read_on(shard, command.clone()).await?;
            let limits = &mut command.limits;
            for partition in &part.partitions {
                limits.rows = limits.rows.saturating_sub(partition.rows.len().max(1));
                limits.bytes = limits.bytes.saturating_sub(partition_bytes(partition));
            }
            result.is_cut_by_tombstones = part.is_cut_by_tombstones;
            result.partitions.extend(part.partitions);
            result.next = part.next;
            if result.next.is_some() {
                break;
            }
            command.resume = None;
        }
        Ok(result)
    }

    async fn read_on(
        &self,
        shard: usize,
        command: ReadCommand,
    ) -> Result<ReadResult, StorageError> {
        if shard == self.inner.context.index {
            return self.read_here(&command).await;
        }
        self.on_shard(shard, move |database| async move { database.read_here(&command).await })
            .await
    }

    pub(super) async fn read_here(
        &self,
        command: &ReadCommand,
    ) -> Result<ReadResult, StorageError> {
        let table = self.table(command.table.id)?;
        let (view, mut cache) = (table.view(), table.row_cache());
        // Who knows an older version of the table may not look for all that is there.
        let is_version = table.is_version(&command.table);
        cache = cache.filter(|_| is_version);
        let dead = (is_version && !command.bypass_cache).then(|| table.dead_ranges().access());
        self.inner.counters.reads.set(self.inner.counters.reads.get() + 1);
        let own = self.own_range(&command.table);
        if trace::is_on() {
            tell_command(command, view.sstables.len());
        }
        // In a box, since it is deep and large, and all who call this would be so, too.
        let access = TableAccess { view: &view, cache: cache.as_ref(), dead: dead.as_ref() };
        let result = Box::pin(read_on_shard(access, command, &own)).await;
        if trace::is_on()
            && let Ok(result) = &result
        {
            tell_result(result);
        }
        result
    }

    /// The partitions of a table that this shard owns.
    pub(crate) fn own_range(&self, table: &TableMetadata) -> KeyRange {
        if self.inner.context.count == 1 || table.keyspace == SCHEMA_KEYSPACE {
            return KeyRange::full();
        }
        let (first, last) = self.inner.context.token_range();
        KeyRange {
            start: KeyBound::BeforeToken(Token(first)),
            end: KeyBound::AfterToken(Token(last)),
        }
    }

    /// One row, at once, if all that is known of it is in one memtable of this shard, or in one SSTable and in memory: calls
    /// `take` with it as it is stored. `None` if another shard owns it, if several may have a part of it, or if a page would
    /// have to be read. With `may_use_caches` false nothing is asked of an SSTable but its filter.
    ///
    /// `clustering` has a value for each clustering column. Cells of dropped columns may be among the cells.
    #[inline]
    pub fn try_read_row<V: AsRef<[u8]>, R>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        may_use_caches: bool,
        take: impl FnOnce(RowLookup<'_>) -> R,
    ) -> Option<R> {
        let pending = &mut PendingRow::default();
        self.look_up_row(table, key, clustering, may_use_caches, pending, take)
    }

    /// The same for those who can wait for pages: as long as it is one page that keeps a look-up from an answer, it is read, and the
    /// look-up goes on, in the table as it is then. Everything else, errors too, is for [`Database::read`].
    pub async fn read_row<V: AsRef<[u8]>, R>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        mut take: impl FnMut(RowLookup<'_>) -> R,
    ) -> Option<R> {
        let mut pending = PendingRow::default();
        for _ in 0..MOST_PAGES_OF_A_ROW {
            let found = self.look_up_row(table, key, clustering, true, &mut pending, &mut take);
            if found.is_some() || !pending.fetch_page(key, clustering).await.unwrap_or(false) {
                return found;
            }
        }
        None
    }

    #[inline]
    fn look_up_row<V: AsRef<[u8]>, R>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        may_use_caches: bool,
        pending: &mut PendingRow,
        take: impl FnOnce(RowLookup<'_>) -> R,
    ) -> Option<R> {
        if !self.owns(table, key.token) {
            return None;
        }
        let inner = &*self.inner;
        let tables = inner.tables.borrow();
        let stored = tables.get(&table.id)?;
        let view = stored.borrow_view();
        let mut path = inner.lookup_path.borrow_mut();
        // Who traces the request sees each page: the general path tells them.
        let is_traced = trace::is_on();
        let may_use_caches = may_use_caches && !is_traced;
        if !view.sstables.is_empty() {
            let hash = pending.hash_of(key);
            let in_range = view.sstables.iter().filter(|sstable| sstable.spans(key));
            // An only one is asked at once: its index answers as well as its filter, and mostly the row is there.
            let is_only = may_use_caches && in_range.clone().nth(1).is_none();
            // Filters of a large table are in nobody's cache: one after the other each would be waited for.
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
                // Who waited, or comes from another shard, may know an older version of the table.
                if !may_use_caches || !stored.has_version_of(table) || is_in_memtable() {
                    return None;
                }
                let cache = stored.enabled_row_cache();
                let mut take = Some(take);
                if let Some(cache) = cache {
                    let take = |lookup: RowLookup<'_>| take.take().map(|take| take(lookup));
                    if let Some(result) = cache.look_up(table, key, clustering, take) {
                        inner.counters.reads.set(inner.counters.reads.get() + 1);
                        return result;
                    }
                }
                let mut scratch = inner.point_scratch.borrow_mut();
                let row = row_of_one(sstables, (key, hash), clustering, pending, &mut scratch)?;
                inner.counters.reads.set(inner.counters.reads.get() + 1);
                if let Some(cache) = cache {
                    add_row_at_hand(cache, table, key, clustering, row.as_ref(), &scratch);
                }
                return take_stored(row, &scratch, take.take()?);
            }
        }
        if is_traced {
            trace_event!("Looking for one row of {} in the memtable alone", table.name);
            tell_point_sources(&view, key);
        }
        let mut memtable = &view.memtable;
        if !view.flushing.is_empty() {
            // The row may lie in one of several; in more than one, it takes a merge.
            let mut having = view.memtables().filter(|memtable| memtable.has(key, &mut path));
            match (having.next(), having.next()) {
                (Some(only), None) => memtable = only,
                (Some(_), Some(_)) => return None,
                (None, _) => {
                    if is_traced {
                        tell_point(None);
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
                tell_point(Some(&lookup));
            }
            take.take().map(|take| take(lookup))
        });
        match found {
            Found::Row(result) => result,
            Found::NoPartition => {
                if is_traced {
                    tell_point(None);
                }
                take.take().map(|take| take(RowLookup::NOTHING))
            }
            Found::Unreadable => None,
        }
    }
}

/// What the only one of some SSTables that has the partition says of a row; `Some(None)` if none has. `None` if it takes a
/// merge, or reading.
fn row_of_one<'a, V: AsRef<[u8]>>(
    sstables: impl Iterator<Item = &'a Rc<SSTable>>,
    (key, hash): (DecoratedKeyRef<'_>, (u64, u64)),
    clustering: &[Option<V>],
    pending: &mut PendingRow,
    scratch: &mut PointScratch,
) -> Option<Option<PointRow>> {
    let mut only = None;
    for sstable in sstables {
        // A second one that has it would overwrite the row, but then there is no answer.
        match sstable.reader().row_at_hand(key, hash, clustering, pending, scratch) {
            RowAtHand::Unknown => return None,
            RowAtHand::NoPartition => {}
            RowAtHand::Partition(_) if only.is_some() => return None,
            RowAtHand::Partition(row) => only = Some(row),
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
    let row = match found.has_row {
        true => Some(PackedRow::new(scratch.row()).ok()?),
        false => None,
    };
    let PointRow { partition_deletion, range_deletion, .. } = found;
    Some(take(RowLookup { partition_deletion, range_deletion, row, static_row: None }))
}

/// What is read, as Cassandra words it.
#[cold]
fn tell_command(command: &ReadCommand, sstables: usize) {
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

fn partition_bytes(partition: &PartitionRows) -> usize {
    let static_row = if partition.rows.is_empty() { &partition.static_row } else { &None };
    partition.rows.iter().chain(static_row).map(row_bytes).sum()
}
