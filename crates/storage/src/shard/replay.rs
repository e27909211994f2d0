//! Replay of the commit log at the start of a shard.

use std::{rc::Rc, sync::atomic::Ordering, time::Duration};

use espalier_commitlog::{FoundSegment, copy_for_tables, make_durable};
use espalier_mutation::{
    LogPosition, Mutation,
    schema::{Schema, TableId},
};
use espalier_runtime::time::{self, Instant};
use smallvec::SmallVec;

use super::{
    ShardStore,
    counters::add,
    index_room::check_index_entries,
    index_steps::IndexedWrite,
    install::{FoundTable, FoundTables},
};
use crate::{
    StorageError,
    recovery::{Recovered, ReplaySummary, TableRecoveries, TableRecovery, replay_segments},
    table::{Table, TruncationRecord, begin_indexes, begin_without_indexes},
};

/// Time without a completed flush after which a replay gives up, if flushes fail. Arbitrary; some
/// retries of each table.
const FLUSH_PATIENCE: Duration = Duration::from_secs(10);
/// Interval in which a waiting replay looks for completed flushes.
const FLUSH_LOOK: Duration = Duration::from_millis(500);

/// Name of the directory, below the commit log's, with copies of segments that hold writes of
/// tables that this node cannot read.
const UNREADABLE: &str = "unreadable";

/// Returns which parts of the commit log the SSTables of some tables hold, and the truncations of
/// these tables. Makes the ids of later segments greater than the ids of all these segments.
pub(crate) async fn recover_tables(
    store: &ShardStore,
    found: &FoundTables,
    wanted: impl Fn(TableId) -> bool,
) -> Result<TableRecoveries, StorageError> {
    let mut all = TableRecoveries::default();
    for FoundTable { directory, .. } in found.iter() {
        let Ok(table) = store.tables.get(directory.id) else { continue };
        if !wanted(directory.id) || table.home.directory != directory.path {
            continue;
        }
        let truncation = TruncationRecord::load(&store.file_system, &directory.path).await?;
        let host = store.host_id();
        let view = table.view();
        let flushed =
            view.sstables.iter().flat_map(|sstable| sstable.commit_log_intervals(host)).collect();
        let recovery = TableRecovery { flushed, truncation };
        // The clock may have gone back since, and a discarded position must not be used again.
        if let Some(greatest) = recovery.greatest_segment() {
            store.shared.segment_ids.fetch_max(greatest.saturating_add(1), Ordering::Relaxed);
        }
        all.insert(directory.id, recovery);
    }
    Ok(all)
}

/// Replays segments on a shard. `apply` gets each write that must be replayed.
pub(crate) async fn replay(
    store: &ShardStore,
    segments: Vec<FoundSegment>,
    schema: &Schema,
    recovered: &Recovered,
    apply: impl AsyncFnMut(Mutation, LogPosition) -> Result<(), StorageError>,
) -> Result<ReplaySummary, StorageError> {
    let policy = store.configuration.commit_log.failure_policy;
    store.logs.replaying.borrow_mut().clone_from(&segments);
    let file_system = &store.file_system;
    // The records may never have been synced, or their sync may have failed. But a flush during the
    // replay must find them durable, and the next segment will say that they are.
    for segment in &segments {
        make_durable(file_system, segment).await?;
    }
    let summary = replay_segments(file_system, segments, policy, schema, recovered, apply).await?;
    keep_unreadable(store, schema, &summary.unreadable).await?;
    add(&store.counters.writes.replayed, summary.mutations);
    add(&store.counters.writes.replay_skipped, summary.skipped);
    if summary.mutations > 0 {
        let ReplaySummary { mutations, skipped, segments, .. } = &summary;
        tracing::info!(mutations, skipped, segments = segments.len(), "replayed the commit log");
    }
    Ok(summary)
}

/// Copies segments that hold writes of tables that this node cannot read: flushes of other
/// tables remove or rewrite the segments themselves.
///
/// A replay of a copy applies no writes to other tables. An operator may move the copy back much
/// later, when compactions have purged the deletions that hide such writes.
async fn keep_unreadable(
    store: &ShardStore,
    schema: &Schema,
    segments: &[FoundSegment],
) -> Result<(), StorageError> {
    let directory = store.configuration.commit_log.directory.join(UNREADABLE);
    for segment in segments {
        let name = segment.path.file_name().map(|name| name.to_string_lossy());
        let Some((log, id)) = name.as_deref().and_then(|name| name.rsplit_once('-')) else {
            continue;
        };
        // Another name for the same id: the copy that is moved back must not replace the segment,
        // which may hold unflushed writes to other tables.
        let copy = directory.join(format!("{log}-0{id}"));
        store.file_system.create_dir_all(&directory).await?;
        let is_kept = |table| schema.is_unreadable(table);
        let content = copy_for_tables(&store.file_system, segment, is_kept).await?;
        store.file_system.write_atomically(copy.clone(), content).await?;
        // A copy of an earlier version has the segment's name and the writes to all tables.
        if let Some(name) = name.as_deref()
            && store.file_system.exists(directory.join(name)).await?
        {
            store.file_system.remove_file(directory.join(name)).await?;
        }
        let copy = copy.display();
        tracing::error!(
            %copy,
            "commit log segment holds writes of tables that cannot be read, copied; to replay \
             these writes with a version that can read them, stop the node and move the copy back \
             into the commit log's directory"
        );
    }
    Ok(())
}

/// Applies a write to memtables without logging it. `position` is its position in the log, if the
/// log keeps the segment.
pub(crate) async fn apply_replayed(
    store: &ShardStore,
    mutation: &Mutation,
    position: Option<LogPosition>,
) -> Result<(), StorageError> {
    // The writes of the schema's log, which are few, are applied before flushes can start; no
    // flush would make room for them.
    if store.memtables.are_flushed.get() {
        wait_for_room(store, mutation).await?;
    }
    let tables: SmallVec<[Rc<Table>; 2]> = mutation
        .updates
        .iter()
        .map(|update| store.tables.get(update.table))
        .collect::<Result<_, _>>()?;
    // A client had an acknowledgement of the write, so it is not refused for its index entries.
    // They may be too many for the memory, if the write is older than the index.
    let has_room = match check_index_entries(store, mutation).await {
        Ok(()) => true,
        Err(StorageError::Unstorable(_)) => false,
        Err(error) => return Err(error),
    };
    let mut indexed = IndexedWrite::of_replay();
    let updates = || tables.iter().map(|table| &**table).zip(&mutation.updates);
    while has_room && indexed.lacks_entries(store, updates()) {
        indexed.add(store, mutation).await?;
    }
    let mut encoder = store.buffers.encoder.borrow_mut();
    // The mutation comes from a segment, whose size is 32 bits.
    encoder.encode(mutation, u32::MAX as usize, |_| 0)?;
    let mut first_row = 0;
    for (number, (table, update)) in updates().enumerate() {
        // The build of the indexes adds the entries of this memtable.
        let is_apart = !has_room && table.memtable().with_indexes(|_| ()).is_some();
        if is_apart {
            begin_without_indexes(table);
        }
        let memtable = table.memtable();
        if let Some(start) = position {
            let end = LogPosition { offset: start.offset + 1, ..start };
            memtable.add_position(start, end);
        }
        let packed = |index| encoder.packed_row(first_row + index);
        // The prefetcher of the empty-range cache may be running already.
        table.empty_ranges().record_update(&table.borrow_metadata(), update, packed);
        if indexed.has(number, &memtable) {
            memtable.apply_rows(&table.metadata(), update, packed)?;
        } else {
            memtable.apply(&table.metadata(), update, packed)?;
        }
        if is_apart {
            begin_indexes(table);
            store.wakers.flush.notify_one();
        }
        first_row += usize::from(update.static_row.is_some()) + update.rows.len();
    }
    Ok(())
}

/// Waits until the memtables have room for a replayed write. On a nearly full disk, some flushes
/// fail while others succeed and let the log and compactions free space. So a failed flush ends the
/// wait only if no flush has completed for [`FLUSH_PATIENCE`].
async fn wait_for_room(store: &ShardStore, mutation: &Mutation) -> Result<(), StorageError> {
    let (budget, completed) = (&store.memtables.budget, &store.counters.flushes.done);
    let mut progress = (completed.get(), Instant::now());
    while !budget.has_room() || is_any_full(store, mutation)? {
        store.wakers.flush.notify_one();
        let now = Instant::now();
        if progress.0 != completed.get() {
            progress = (completed.get(), now);
        }
        if now.since(progress.1) >= FLUSH_PATIENCE
            && let Some(reason) = store.tables.flush_failure()
        {
            return Err(StorageError::MemtablesFull {
                used_bytes: budget.used_bytes(),
                limit_bytes: budget.limit_bytes(),
                reason,
            });
        }
        let _ = time::timeout(FLUSH_LOOK, budget.wait_for_room()).await;
    }
    Ok(())
}

/// Returns whether a memtable is full because its trie is near its maximum size. Wakes the
/// flush scheduler for memtables that are nearly full.
fn is_any_full(store: &ShardStore, mutation: &Mutation) -> Result<bool, StorageError> {
    for update in &mutation.updates {
        let table = store.tables.get(update.table)?;
        let view = table.borrow_view();
        if view.memtable.wants_flush() {
            store.wakers.flush.notify_one();
            if view.memtable.is_full() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
