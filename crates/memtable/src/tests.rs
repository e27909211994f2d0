//! Tests of a memtable's counts, of the amount that a read examines without yielding, and of a skip
//! to the end of a slice.

use std::{ops::ControlFlow, rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ClusteringSlice, ClusteringSlices, ColumnData,
    DecoratedKey, DeletionTime, Direction, Liveness, PartitionUpdate, RangeTombstone, Row,
    Unfiltered, UnfilteredStream, pack_row, path,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{ShardContext, block_on, preempt::force_every_yield, yield_now};
use espalier_types::CqlType;
use uuid::Uuid;

use super::{
    Memtable, MemtableBudget, MemtableKind, MemtablePartition, RowsWalked, StoredRow, Structure,
    partition::SLICES_OF_A_FILL,
};

const ROWS: i32 = 200;
const VALUE_BYTES: usize = 1000;

fn table() -> TableMetadata {
    TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Blob)
        .build()
}

fn write(memtable: &Memtable, table: &TableMetadata, number: i32, timestamp: i64) {
    write_value(memtable, table, number, timestamp, VALUE_BYTES);
}

fn write_value(
    memtable: &Memtable,
    table: &TableMetadata,
    number: i32,
    timestamp: i64,
    value_bytes: usize,
) {
    let mut row = Row::empty(Clustering::new([Bytes::copy_from_slice(&number.to_be_bytes())]));
    row.liveness = Liveness::live(timestamp);
    let value = Bytes::from(vec![7; value_bytes]);
    let id = table.column("v").unwrap().id;
    row.columns.push((id, ColumnData::Simple(Cell::live(timestamp, value))));
    let mut packed = Vec::new();
    pack_row(&row, &mut packed);
    let mut update = PartitionUpdate::new(table.id, DecoratedKey::new("k".into()));
    update.rows.push(row);
    memtable.apply(table, &update, |_| packed.as_slice()).unwrap();
}

/// The readers overlap, so that there is always one. Overwritten contents count only as long as a
/// reader can see them.
#[test]
fn memory_is_counted_as_it_is_freed_beside_overlapping_readers() {
    for structure in [Structure::Trie, Structure::SkipList] {
        let table = Arc::new(table());
        let budget = MemtableBudget::new(1 << 30, 1 << 30);
        let kind = MemtableKind { structure, shards: 1 };
        let core = ShardContext { index: 0, count: 1 };
        let memtable = Memtable::new(&table, kind, core, budget.clone());
        for number in 0..ROWS {
            write(&memtable, &table, number, 1);
        }
        let before = memtable.memory_bytes();
        let mut prefix = Vec::new();
        path::put_partition(DecoratedKey::new("k".into()).borrowed(), &mut prefix);
        let snapshot = || memtable.store.borrow().snapshot(&prefix);
        let mut reader = snapshot();
        let mut greatest = 0;
        for round in 0..30 {
            for number in 0..ROWS {
                write(&memtable, &table, number, 2 + round);
                if number % 20 == 0 {
                    // The next snapshot is taken before the previous one is dropped.
                    let next = snapshot();
                    drop(std::mem::replace(&mut reader, next));
                }
            }
            greatest = greatest.max(memtable.memory_bytes());
            assert_eq!(budget.used_bytes(), memtable.memory_bytes());
        }
        // 30 x 200 kB were overwritten.
        assert!(greatest < before + 600_000, "{structure:?}: {before} bytes became {greatest}");
        assert!(greatest > before + VALUE_BYTES, "the reader's contents are counted");
        drop(reader);
        while memtable.store.borrow_mut().free_retired(u32::MAX) > 0 {}
        write(&memtable, &table, 0, 100);
        let after = memtable.memory_bytes();
        // Blocks and slots that were needed once stay allocated.
        assert!(after < before + 200_000, "{structure:?}: {before} bytes became {after}");
    }
}

/// While a memtable is freed, its bytes do not count for the decisions to flush or to slow down,
/// but are in use until the last row is freed.
#[test]
fn a_memtable_freed_in_steps_does_not_count_for_flush_decisions() {
    const MANY_ROWS: i32 = 10 * ROWS;
    for structure in [Structure::Trie, Structure::SkipList] {
        let (table, is_trie) = (table(), structure == Structure::Trie);
        let budget = MemtableBudget::new(4 << 20, 1 << 20);
        let kind = MemtableKind { structure, shards: 1 };
        let core = ShardContext { index: 0, count: 1 };
        let memtable = Memtable::new(&table, kind, core, budget.clone());
        (0..MANY_ROWS).for_each(|number| write(&memtable, &table, number, 1));
        assert!(budget.wants_flush() && budget.used_bytes() > MANY_ROWS as usize * VALUE_BYTES);
        let used_bytes = budget.used_bytes();
        let (turns, steps) = block_on(async {
            force_every_yield(true);
            drop(memtable);
            let (mut turns, mut steps) = (0, vec![used_bytes]);
            while budget.used_bytes() > 0 {
                assert_eq!(budget.held_bytes(), 0);
                assert!(!budget.wants_flush());
                if steps.last() != Some(&budget.used_bytes()) {
                    steps.push(budget.used_bytes());
                }
                turns += 1;
                yield_now().await;
            }
            force_every_yield(false);
            (turns, steps)
        });
        assert!(turns >= if is_trie { MANY_ROWS / 64 } else { 1 }, "{structure:?}: {turns} turns");
        // Each step is a MiB of rows; the last one is the rest, with all of the structure.
        assert!(steps.is_sorted_by(|before, after| before > after), "{structure:?}: {steps:?}");
        assert_eq!(steps.len() > 1, is_trie, "{structure:?}: {steps:?}");
    }
}

fn memtable(table: &TableMetadata) -> Rc<Memtable> {
    let budget = MemtableBudget::new(1 << 30, 1 << 30);
    let core = ShardContext { index: 0, count: 1 };
    Rc::new(Memtable::new(table, MemtableKind::default(), core, budget))
}

/// Reads a partition. Returns the number of rows, and the maximum number of fragments copied at a
/// time.
fn read(
    memtable: &Rc<Memtable>,
    table: &Arc<TableMetadata>,
    slices: ClusteringSlices,
) -> (usize, usize) {
    let key = DecoratedKey::new("k".into());
    let open = MemtablePartition::open;
    let (slices, forward) = (Arc::new(slices), Direction::Forward);
    let partition = open(memtable, table, &key, &slices, forward, 5000).unwrap();
    let mut partition = partition.unwrap();
    let (mut rows, mut most) = (0, partition.buffer.len());
    espalier_runtime::block_on(async {
        while let Some(fragment) = partition.next().await.unwrap() {
            assert!(matches!(fragment, Unfiltered::Row(_)));
            rows += 1;
            most = most.max(partition.buffer.len() + 1);
        }
    });
    (rows, most)
}

#[test]
fn a_read_copies_no_more_than_some_large_rows_at_a_time() {
    let table = Arc::new(table());
    let memtable = memtable(&table);
    for number in 0..ROWS {
        write_value(&memtable, &table, number, 1, 100_000);
    }
    let (rows, most) = read(&memtable, &table, ClusteringSlices::all());
    assert_eq!(rows, ROWS as usize);
    assert!(most <= 2, "{most} rows at a time");
}

#[test]
fn a_read_of_many_slices_stops_after_a_fill_of_slices() {
    let table = Arc::new(table());
    let memtable = memtable(&table);
    let wanted = 10_000;
    write(&memtable, &table, wanted, 1);
    let value = |number: i32| Bytes::copy_from_slice(&number.to_be_bytes());
    let slices = (0..=wanted).map(|number| ClusteringSlice::prefix([Some(value(number))].into()));
    let slices = ClusteringSlices { slices: slices.collect() };
    let key = DecoratedKey::new("k".into());
    let shared = Arc::new(slices.clone());
    let partition =
        MemtablePartition::open(&memtable, &table, &key, &shared, Direction::Forward, 5000);
    assert_eq!(partition.unwrap().unwrap().slices_done, SLICES_OF_A_FILL);
    let in_place = MemtablePartition::open_in_place(&memtable, &table, &key, &shared);
    let mut in_place = in_place.unwrap().unwrap();
    let mut found = 0;
    let mut take = |_: &StoredRow<'_>| {
        found += 1;
        Ok(ControlFlow::Continue(()))
    };
    assert_eq!(in_place.walk_rows(5000, &mut take).unwrap(), RowsWalked::More);
    assert_eq!(in_place.slices_done, SLICES_OF_A_FILL);
    while in_place.walk_rows(5000, &mut take).unwrap() == RowsWalked::More {}
    assert_eq!(found, 1);
    assert_eq!(read(&memtable, &table, slices), (1, 1));
}

/// Other range deletions are in force behind the bounds of the slice.
#[test]
fn a_skip_to_the_end_of_a_slice_leaves_one_marker_there() {
    let table = Arc::new(table());
    let memtable = memtable(&table);
    (0..ROWS).for_each(|number| write(&memtable, &table, number, 5));
    let bound = |kind, number: i32| {
        let value = Bytes::copy_from_slice(&number.to_be_bytes());
        ClusteringBound { kind, values: [Some(value)].into() }
    };
    let ranges = [
        (bound(BoundKind::InclusiveStart, 20), bound(BoundKind::ExclusiveEnd, 50)),
        (bound(BoundKind::InclusiveStart, 50), bound(BoundKind::InclusiveEnd, 150)),
        (bound(BoundKind::ExclusiveStart, 150), bound(BoundKind::InclusiveEnd, 180)),
    ];
    let key = DecoratedKey::new("k".into());
    let mut update = PartitionUpdate::new(table.id, key.clone());
    for (timestamp, (start, end)) in (1..).zip(ranges.clone()) {
        let deletion = DeletionTime::new(timestamp, 1);
        update.range_tombstones.push(RangeTombstone { start, end, deletion });
    }
    memtable.apply(&table, &update, |_| &[]).unwrap();
    let [_, (start, end), _] = ranges;
    let slices = Arc::new(ClusteringSlices { slices: vec![ClusteringSlice { start, end }] });
    for direction in [Direction::Forward, Direction::Reverse] {
        let far = slices.bounds(direction, 0).1;
        let partition = MemtablePartition::open(&memtable, &table, &key, &slices, direction, 1);
        let mut partition = partition.unwrap().unwrap();
        let fragments = block_on(async {
            partition.skip_to(far).await.unwrap();
            let mut fragments = Vec::new();
            while let Some(fragment) = partition.next().await.unwrap() {
                fragments.push(fragment);
            }
            fragments
        });
        let [Unfiltered::Marker(opening), Unfiltered::Marker(closing)] = &fragments[..] else {
            panic!("{direction:?}: {fragments:?}");
        };
        assert_eq!(opening.deletion_behind(direction), DeletionTime::new(2, 1));
        assert_eq!(&closing.position, far);
        assert!(closing.deletion_behind(direction).is_live());
    }
}
