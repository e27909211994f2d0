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
        Clustering, DecoratedKey, DeletionTime, Direction, Liveness, Mutation, PartitionUpdate,
        RangeTombstone, Row,
        schema::{TableBuilder, TableMetadata},
    };
    use espalier_runtime::{block_on, file::FileSystem, preempt::force_every_yield};
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

    /// Makes a table with these clustering columns of ints: the name of each, and true if its order
    /// is descending.
    fn table_of(clustering: &[(&str, bool)]) -> TableMetadata {
        let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(7)));
        let mut table = table.partition_key("k", CqlType::Int);
        for (name, is_descending) in clustering {
            table = table.clustering(name, CqlType::Int, *is_descending);
        }
        table.regular("v", CqlType::Int).build()
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

    /// Returns a bound at a value of the first clustering column.
    fn bound(kind: BoundKind, number: i32) -> ClusteringBound {
        let value = Bytes::copy_from_slice(&number.to_be_bytes());
        ClusteringBound { kind, values: [Some(value)].into() }
    }

    /// Deletes ranges between these bounds in a partition that has no rows, and flushes.
    async fn delete_between(
        node: &Node,
        table: &TableMetadata,
        ranges: impl Iterator<Item = (ClusteringBound, ClusteringBound)>,
    ) {
        let mut update = PartitionUpdate::new(table.id, key());
        let deletion = DeletionTime::new(1, now_s());
        for (start, end) in ranges {
            update.range_tombstones.push(RangeTombstone { start, end, deletion });
        }
        node.apply(Mutation { updates: vec![update] }).await.unwrap();
        node.flush("ks", Some("t")).await.unwrap();
    }

    /// Deletes [`ROWS`] ranges of the clustering column.
    async fn delete_ranges(node: &Node, table: &TableMetadata) {
        // The ranges do not touch each other, so each has two bounds.
        let ranges = (0..ROWS).map(|number| {
            let end = bound(BoundKind::ExclusiveEnd, 2 * number + 1);
            (bound(BoundKind::InclusiveStart, 2 * number), end)
        });
        delete_between(node, table, ranges).await;
    }

    /// Deletes [`ROWS`] values of the first clustering column, whose order is descending, and then
    /// the rest of the partition. Two files have the same deletions.
    async fn delete_prefixes(node: &Node, table: &TableMetadata) {
        for _ in 0..2 {
            let prefixes = (0..ROWS).rev().map(|number| {
                let end = bound(BoundKind::InclusiveEnd, number);
                (bound(BoundKind::InclusiveStart, number), end)
            });
            let rest = (bound(BoundKind::InclusiveStart, -1), ClusteringBound::top());
            delete_between(node, table, prefixes.chain([rest])).await;
        }
    }

    /// Prefetches from a place in steps of `max_walked` fragments. Returns the number of steps.
    async fn steps_from(
        store: &ShardStore,
        table: &Table,
        mut place: Place,
        max_walked: u64,
    ) -> u32 {
        for steps in 1..100 {
            prefetch(store, table, place, max_walked).await.unwrap();
            match table.empty_ranges().next_queued() {
                Some(next) => place = next,
                None => return steps,
            }
        }
        panic!("the prefetcher does not advance");
    }

    /// Checks that steps end within a partition in which `delete` leaves this number of dead
    /// fragments, and that the next read skips what the steps have walked.
    fn check_steps(
        table: TableMetadata,
        fragments: u64,
        delete: impl AsyncFnOnce(&Node, &TableMetadata),
    ) {
        block_on(async {
            let node = test_database::open(FileSystem::simulated(1)).await;
            let metadata = test_database::create(&node, table).await;
            let table = test_database::table(&node, &metadata);
            delete(&node, metadata.as_ref()).await;
            let mut partition = Vec::new();
            path::put_partition(key().borrowed(), &mut partition);
            let starts =
                [Place::start(&KeyBound::Unbounded), Place::within(&partition, &[path::BOTTOM])];
            // The first of the two long steps ends at the last fragment.
            let lengths = [(STEP, 4), (fragments - 1, 2)];
            let checks = starts.iter().flat_map(|start| lengths.map(|length| (start, length)));
            for (start, (max_walked, min_steps)) in checks {
                let steps = steps_from(node.store(), &table, start.clone(), max_walked).await;
                assert!(steps >= min_steps, "{steps} steps of {max_walked} from {start:?}");
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
        check_steps(table_of(&[("c", false)]), ROWS as u64, delete_rows);
    }

    #[test]
    fn a_step_ends_among_many_range_deletions() {
        check_steps(table_of(&[("c", false)]), 2 * ROWS as u64, delete_ranges);
    }

    #[test]
    fn a_step_ends_among_deletions_of_prefixes_in_two_files() {
        let table = table_of(&[("c1", true), ("c2", false)]);
        check_steps(table, 2 * (ROWS as u64 + 1), delete_prefixes);
    }

    #[test]
    fn a_step_records_ranges_while_rows_are_written() {
        block_on(async {
            let node = test_database::open(FileSystem::simulated(1)).await;
            let metadata = test_database::create(&node, table_of(&[("c", false)])).await;
            let table = test_database::table(&node, &metadata);
            delete_rows(&node, &metadata).await;
            let value = Bytes::copy_from_slice(&ROWS.to_be_bytes());
            let mut row = Row::empty(Clustering::new([value]));
            row.liveness = Liveness::live(2);
            let mut update = PartitionUpdate::new(metadata.id, key());
            update.rows.push(row);
            let mut partition = Vec::new();
            path::put_partition(key().borrowed(), &mut partition);
            let start = Place::within(&partition, &[path::BOTTOM]);
            let before = table.empty_ranges().written();
            force_every_yield(true);
            let step = async {
                prefetch(node.store(), &table, start, MAX_WALKED).await.unwrap();
                table.empty_ranges().written()
            };
            // The step opens the partition in its first poll, so it does not see the row.
            let write = node.apply(Mutation { updates: vec![update] });
            let (behind, written) = futures_util::future::join(step, write).await;
            force_every_yield(false);
            written.unwrap();
            assert_ne!(behind, before, "the row was not written during the step");
            let target = ReadTarget::Range(KeyRange::full());
            let command = ReadCommand::of_all(metadata, target, now_s());
            let (read, _) = read(node.store(), &table, &command, u64::MAX).await.unwrap();
            assert_eq!(read.partitions.len(), 1);
            assert!(read.dropped < STEP, "{} dropped", read.dropped);
        });
    }

    /// The next page of a statement begins behind a row, so only the prefetcher stops at a range
    /// deletion.
    #[test]
    fn a_page_of_a_statement_does_not_end_at_a_range_deletion() {
        block_on(async {
            let node = test_database::open(FileSystem::simulated(1)).await;
            let metadata = test_database::create(&node, table_of(&[("c", false)])).await;
            let table = test_database::table(&node, &metadata);
            delete_ranges(&node, &metadata).await;
            for direction in [Direction::Forward, Direction::Reverse] {
                let target = ReadTarget::Partition(key());
                let command = ReadCommand {
                    direction,
                    limits: ReadLimits { tombstones: 100, ..ReadLimits::NONE },
                    ..ReadCommand::of_all(metadata.clone(), target, now_s())
                };
                let (view, empty) = (table.view(), table.empty_ranges().access());
                let access = TableAccess { view: &view, cache: None, empty: Some(&empty) };
                let page = read_on_shard(access, &command, &KeyRange::full()).await.unwrap();
                assert!(page.dropped > 100, "{} dropped {direction:?}", page.dropped);
                assert!(page.partitions.is_empty());
                assert_eq!(page.next, None, "{direction:?}");
                // The second read must not skip what the first one has recorded.
                table.empty_ranges().forget();
            }
        });
    }
}
