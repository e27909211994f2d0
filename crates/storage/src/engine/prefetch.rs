//! The prefetcher: extends empty ranges in the background when the row behind them is deleted, and
//! starts ranges where many rows are deleted, so that the next read need not walk.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use espalier_memtable::MemtableError;
use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringSlice, ClusteringSlices, KeyBound, KeyRange, path,
    schema::TableId,
};
use espalier_runtime::{SchedulingGroup, scheduling::STATEMENT_SHARES, time};

use crate::{
    ReadCommand, ReadLimits, ReadResult, ReadTarget, ShardStore, StorageError,
    empty_ranges::{EmptyRangeAccess, Place, Step},
    read::{TableAccess, read_on_shard},
    table::Table,
};

/// The number of dead fragments after which a read of a step ends (some ten milliseconds), so that
/// the places of other tables have their turn, and the view of the read does not hold the memory of
/// flushed memtables for long. The read ends at the first dead row, or bound of a range deletion,
/// behind so many fragments.
const MAX_WALKED: u64 = 16_384;

/// The shares of maintenance while a paging read crosses tombstones. The read need not walk the
/// ranges that the prefetcher has recorded. The prefetcher stays ahead of the read: it walks in
/// long steps, and opens the table once for each step.
const AWAITED_SHARES: u32 = STATEMENT_SHARES;

/// The rest between two steps, so that deletions gather.
const REST: Duration = Duration::from_millis(1);

/// Runs the prefetcher until the store closes.
pub(crate) async fn run(store: Rc<ShardStore>) {
    let (mut last, is_awaited) = (None, Rc::new(Cell::new(false)));
    let awaited = Rc::downgrade(&is_awaited);
    SchedulingGroup::Maintenance
        .set_controller(move || Some(if awaited.upgrade()?.get() { AWAITED_SHARES } else { 0 }));
    loop {
        store.wakers.empty_ranges.notified().await;
        while let Some((table, place)) = next(&store, &mut last) {
            if store.is_closing() {
                return;
            }
            let cut_pages = table.empty_ranges().cut_pages();
            if let Err(error) = prefetch(&store, &table, place, MAX_WALKED).await {
                // A read of the range reports the error to its client.
                tracing::debug!(%error, table = table.metadata().name, "empty-range prefetch failed; reads of these rows report the error");
            }
            is_awaited.set(table.empty_ranges().cut_pages() > cut_pages);
            time::sleep(REST).await;
        }
        is_awaited.set(false);
        if store.is_closing() {
            return;
        }
    }
}

/// Returns the next place; tables take turns in the order of their ids.
fn next(store: &ShardStore, last: &mut Option<TableId>) -> Option<(Rc<Table>, Place)> {
    let tables = store.tables.all().into_iter().filter(|table| table.empty_ranges().is_queued());
    let id_of = |table: &Rc<Table>| table.borrow_metadata().id;
    let table = tables.min_by_key(|table| (Some(id_of(table)) <= *last, id_of(table)))?;
    *last = Some(id_of(&table));
    let place = table.empty_ranges().next_queued()?;
    Some((table, place))
}

/// Walks from a place to the first visible row. After one step, the rest of the walk is queued.
///
/// A step makes at most two reads, and each opens the table: of the rest of the partition, and of
/// the partitions behind it. A read ends at the first dead row, or bound of a range deletion,
/// behind `max_walked` dropped fragments.
async fn prefetch(
    store: &ShardStore,
    table: &Table,
    place: Place,
    max_walked: u64,
) -> Result<(), StorageError> {
    let metadata = table.metadata();
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    // The read uses the caches, because the prefetcher and other reads look at the same pages
    // repeatedly.
    let mut command = ReadCommand {
        limits: ReadLimits { rows: 1, ..ReadLimits::NONE },
        ..ReadCommand::of_all(metadata.clone(), ReadTarget::Range(KeyRange::full()), now_s)
    };
    let mut start = place.key_bound()?;
    if let Some((key, rest)) = place.split()?
        && !metadata.clustering_columns().is_empty()
    {
        let near = match rest.first() {
            Some(first) if *first >= path::BOTTOM => path::bound(metadata.comparator(), rest)
                .map_err(|error| MemtableError::corrupt(&metadata, &error))?,
            _ => ClusteringBound { kind: BoundKind::InclusiveStart, values: [].into() },
        };
        let slice = ClusteringSlice { start: near, end: ClusteringBound::top() };
        let command = ReadCommand {
            target: ReadTarget::Partition(key.clone()),
            slices: Arc::new(ClusteringSlices { slices: vec![slice] }),
            ..command.clone()
        };
        let (walked, empty) = read(store, table, &command, max_walked).await?;
        if !walked.partitions.is_empty() {
            return Ok(());
        }
        if let Some(reached) = empty.reached(&metadata, walked.next.as_ref()) {
            // A new memtable changes nothing here: the read opened its only partition when it
            // began, and live writes since then are cut out of the recorded range.
            let at = if table.is_version(&metadata) { reached } else { place };
            table.empty_ranges().queue_from(at, now_s);
            return Ok(());
        }
        start = Some(KeyBound::AfterKey(key));
    }
    let Some(start) = start else { return Ok(()) };
    command.target = ReadTarget::Range(KeyRange { start, end: KeyBound::Unbounded });
    // If columns were added meanwhile, this version of the table would miss rows that have only
    // these columns.
    if !table.is_version(&metadata) {
        table.empty_ranges().queue_place(place);
        return Ok(());
    }
    let (walked, empty) = read(store, table, &command, max_walked).await?;
    if let (true, Some(next)) = (walked.partitions.is_empty(), walked.next) {
        let reached = empty.reached(&metadata, Some(&next)).filter(|_| empty.shows_all_writes());
        // If there is a new memtable, the read may have recorded nothing of the partition reached.
        let at = reached.unwrap_or_else(|| Place::start(&KeyBound::BeforeKey(next.key)));
        table.empty_ranges().queue_from(at, now_s);
    }
    Ok(())
}

/// Reads the visible rows. Also returns the access of the read, which knows the place at which the
/// read ended early. If the view of the read no longer shows all writes, a read of a range recorded
/// nothing of the partitions that it opened after the change.
async fn read(
    store: &ShardStore,
    table: &Table,
    command: &ReadCommand,
    max_walked: u64,
) -> Result<(ReadResult, EmptyRangeAccess), StorageError> {
    let view = table.view();
    let mut empty = table.empty_ranges().access();
    empty.step = Some(Box::new(Step { max_walked, stopped_at: RefCell::default() }));
    let access = TableAccess { view: &view, cache: None, empty: Some(&empty) };
    let own = store.routing.own_range(&command.table);
    let result = read_on_shard(access, command, &own).await?;
    Ok((result, empty))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use espalier_mutation::{
        Clustering, DecoratedKey, DeletionTime, Mutation, PartitionUpdate, RangeTombstone, Row,
        schema::{TableBuilder, TableMetadata},
    };
    use espalier_runtime::{block_on, file::FileSystem};
    use espalier_types::CqlType;
    use uuid::Uuid;

    use super::*;
    use crate::{Node, test_database};

    const ROWS: i32 = 1000;
    /// Less than a quarter of the rows, and more than the shortest recorded range.
    const STEP: u64 = 200;

    fn key() -> DecoratedKey {
        DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]))
    }

    fn now_s() -> u32 {
        u32::try_from(time::now_seconds()).unwrap()
    }

    /// Deletes the rows of a partition and flushes. These are too few deletions to queue a place.
    /// A memtable would let reads skip the rows.
    async fn delete_rows(node: &Node, table: &TableMetadata) {
        for numbers in [0..ROWS / 2, ROWS / 2..ROWS] {
            let mut update = PartitionUpdate::new(table.id, key());
            for number in numbers {
                let value = Bytes::copy_from_slice(&number.to_be_bytes());
                let mut row = Row::empty(Clustering::new([value]));
                row.deletion = DeletionTime::new(1, now_s());
                update.rows.push(row);
            }
            node.apply(Mutation { updates: vec![update] }).await.unwrap();
        }
        node.flush("ks", Some("t")).await.unwrap();
    }

    /// Deletes ranges of a partition that has no rows, and flushes.
    async fn delete_ranges(node: &Node, table: &TableMetadata) {
        let bound = |kind, number: i32| {
            let value = Bytes::copy_from_slice(&number.to_be_bytes());
            ClusteringBound { kind, values: [Some(value)].into() }
        };
        let mut update = PartitionUpdate::new(table.id, key());
        for number in 0..ROWS {
            // The ranges do not touch each other, so each has two bounds.
            update.range_tombstones.push(RangeTombstone {
                start: bound(BoundKind::InclusiveStart, 2 * number),
                end: bound(BoundKind::ExclusiveEnd, 2 * number + 1),
                deletion: DeletionTime::new(1, now_s()),
            });
        }
        node.apply(Mutation { updates: vec![update] }).await.unwrap();
        node.flush("ks", Some("t")).await.unwrap();
    }

    /// Prefetches in short steps from a place. Returns the number of steps.
    async fn steps_from(store: &ShardStore, table: &Table, mut place: Place) -> u32 {
        for steps in 1..100 {
            prefetch(store, table, place, STEP).await.unwrap();
            match table.empty_ranges().next_queued() {
                Some(next) => place = next,
                None => return steps,
            }
        }
        panic!("the prefetcher does not advance");
    }

    /// Checks that steps end within a partition in which `delete` deletes, and that the next read
    /// skips what the steps have walked.
    fn check_steps(delete: impl AsyncFnOnce(&Node, &TableMetadata)) {
        block_on(async {
            let node = test_database::open(FileSystem::simulated(1)).await;
            let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(7)))
                .partition_key("k", CqlType::Int)
                .clustering("c", CqlType::Int, false)
                .regular("v", CqlType::Int);
            let metadata = test_database::create(&node, table.build()).await;
            let table = test_database::table(&node, &metadata);
            delete(&node, metadata.as_ref()).await;
            let mut partition = Vec::new();
            path::put_partition(key().borrowed(), &mut partition);
            let starts =
                [Place::start(&KeyBound::Unbounded), Place::within(&partition, &[path::BOTTOM])];
            for start in starts {
                let steps = steps_from(node.store(), &table, start.clone()).await;
                assert!(steps >= 4, "{steps} steps from {start:?}");
                let target = ReadTarget::Range(KeyRange::full());
                let command = ReadCommand::of_all(metadata.clone(), target, now_s());
                let (read, _) = read(node.store(), &table, &command, u64::MAX).await.unwrap();
                assert!(read.partitions.is_empty() && read.next.is_none());
                assert!(read.dropped < STEP, "{} dropped after {start:?}", read.dropped);
                table.empty_ranges().forget();
            }
        });
    }

    #[test]
    fn a_step_ends_within_a_long_partition_of_dead_rows() {
        check_steps(delete_rows);
    }

    #[test]
    fn a_step_ends_among_many_range_deletions() {
        check_steps(delete_ranges);
    }
}
