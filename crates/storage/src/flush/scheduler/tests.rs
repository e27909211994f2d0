//! Tests of the flush scheduler: the next table, held flush locks, and the commit log.

use std::{rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use espalier_mutation::{
    Cell, ColumnData, DecoratedKey, DeletionTime, Mutation, PartitionUpdate, schema::TableMetadata,
};
use espalier_runtime::{
    block_on,
    file::FileSystem,
    spawn_local,
    time::{self, ManualClock},
    yield_now,
};

use super::{pause_of, victim};
use crate::{
    Node, StorageConfiguration, StorageError,
    flush::flush_tables,
    table::Table,
    test_database::{create, open, open_with, table, table_of_blobs, write_of},
};

/// Opens a node with a table `k blob PRIMARY KEY, v blob`. Also returns an empty update of one of
/// the table's partitions.
async fn with_an_update(file_system: FileSystem) -> (Node, Arc<TableMetadata>, PartitionUpdate) {
    let node = open(file_system).await;
    let metadata = create(&node, table_of_blobs("narrow", 0xa1)).await;
    let key = DecoratedKey::new(Bytes::from_static(b"a"));
    let update = PartitionUpdate::new(metadata.id, key);
    (node, metadata, update)
}

/// The write is in the commit log but not in a memtable.
#[test]
fn a_write_that_changes_nothing_does_not_hold_the_log() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let (node, metadata, update) = with_an_update(file_system).await;
        node.apply(Mutation { updates: vec![update] }).await.unwrap();
        let table = table(&node, &metadata);
        assert!(table.memtable().is_empty() && table.oldest_unflushed().is_some());
        flush_tables(node.store(), vec![table.clone()]).await.unwrap();
        assert_eq!(table.oldest_unflushed(), None);
        assert!(table.view().sstables.is_empty());
    });
}

#[test]
fn a_table_that_is_being_dropped_is_not_the_next_one() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let (node, metadata, mut update) = with_an_update(file_system).await;
        update.deletion = DeletionTime::new(1, 1);
        node.apply(Mutation { updates: vec![update] }).await.unwrap();
        let table = table(&node, &metadata);
        assert!(victim(node.store(), |_| false).is_none());
        // This is the state after a failed flush.
        table.switch_memtable();
        assert!(victim(node.store(), |_| false).is_some());
        assert!(
            victim(node.store(), |_| true).is_some(),
            "a failed flush comes first: its memory and its log are the oldest"
        );
        assert_eq!(
            pause_of(node.store(), &table),
            Duration::ZERO,
            "a failed flush must not wait: the scheduler would spin on it"
        );
        table.set_dropped();
        assert!(victim(node.store(), |_| false).is_none());
    });
}

/// A truncation that waits for another shard holds the flush lock of its table.
#[test]
fn a_table_whose_flush_lock_is_held_delays_no_flush_of_another() {
    let file_system = FileSystem::simulated(1);
    let _clock = ManualClock::new(1_700_000_000_000_000).moving_when_idle().install();
    block_on(async {
        let node = open(file_system).await;
        let mut tables = Vec::new();
        for number in 1..=2 {
            let mut metadata = table_of_blobs(&format!("t{number}"), number);
            metadata.options.memtable_flush_period_in_ms = 1000;
            let metadata = create(&node, metadata).await;
            tables.push(table(&node, &metadata));
        }
        // Each table is held once, because the scheduler visits them in an unknown order.
        for held in 0..2 {
            let permit = tables[held].flushes.lock.acquire(1).await;
            for table in &tables {
                let key = DecoratedKey::new(Bytes::from_static(b"a"));
                let mut update = PartitionUpdate::new(table.metadata().id, key);
                update.deletion = DeletionTime::new(1, 1);
                node.apply(Mutation { updates: vec![update] }).await.unwrap();
            }
            time::sleep(Duration::from_secs(5)).await;
            assert!(tables[1 - held].memtable().is_empty());
            assert!(!tables[held].memtable().is_empty());
            drop(permit);
            time::sleep(Duration::from_secs(5)).await;
            assert!(tables[held].memtable().is_empty());
        }
    });
}

/// The trie of the held memtable is nearly full, or the memory of all memtables is.
#[test]
fn a_large_memtable_whose_flush_lock_is_held_delays_no_flush_of_another() {
    let _clock = ManualClock::new(1_700_000_000_000_000).moving_when_idle().install();
    // A trie takes memory in chunks that grow, so the second case fills the memory with values.
    for (trie_bytes, bytes, value_bytes) in
        [(256 << 10, 256 << 20, 1), (64 << 20, 4 << 20, 64 << 10)]
    {
        block_on(async {
            let mut configuration = StorageConfiguration::new("node");
            configuration.autocompaction = false;
            configuration.memtables.trie_bytes = trie_bytes;
            configuration.memtables.bytes = bytes;
            let node = open_with(configuration, FileSystem::simulated(1)).await;
            let large_metadata = create(&node, table_of_blobs("large", 1)).await;
            let mut small_metadata = table_of_blobs("small", 2);
            small_metadata.options.memtable_flush_period_in_ms = 1000;
            let small_metadata = create(&node, small_metadata).await;
            let [large, small] = [&large_metadata, &small_metadata].map(|one| table(&node, one));
            let permit = large.flushes.lock.acquire(1).await;
            let write = |metadata: &TableMetadata, number: u32| {
                let key = Bytes::copy_from_slice(&number.to_be_bytes());
                let cell = Cell::live(1, Bytes::from(vec![1; value_bytes]));
                node.apply(write_of(metadata, key, ColumnData::Simple(cell)))
            };
            let is_large =
                || large.memtable().wants_flush() || large.memtable().memory_bytes() > LARGE_BYTES;
            let mut number = 0;
            while !is_large() {
                write(&large_metadata, number).await.unwrap();
                number += 1;
            }
            time::sleep(Duration::from_secs(5)).await;
            write(&small_metadata, 0).await.unwrap();
            time::sleep(Duration::from_secs(5)).await;
            assert!(small.memtable().is_empty() && is_large());
            drop(permit);
            time::sleep(Duration::from_secs(5)).await;
            assert!(!is_large());
        });
    }
}

/// Bytes of a row that is a reason to flush on the nodes of [`with_two_tables`].
const LARGE_BYTES: usize = 9 << 18;

/// Opens a node with 4 MiB for memtables, of which 2 MiB are a reason to flush, and two tables.
async fn with_two_tables() -> (Node, [Rc<Table>; 2]) {
    let mut configuration = StorageConfiguration::new("node");
    configuration.autocompaction = false;
    configuration.memtables.bytes = 4 << 20;
    let node = open_with(configuration, FileSystem::simulated(1)).await;
    let large = create(&node, table_of_blobs("large", 1)).await;
    let small = create(&node, table_of_blobs("small", 2)).await;
    let tables = [&large, &small].map(|metadata| table(&node, metadata));
    (node, tables)
}

/// Writes a row of this size. No other task runs meanwhile.
fn write_now(node: &Node, table: &Table, key: &'static [u8], bytes: usize) {
    let cell = Cell::live(1, Bytes::from(vec![1; bytes]));
    let write = write_of(&table.metadata(), Bytes::from_static(key), ColumnData::Simple(cell));
    drop(node.store().try_apply(&write).unwrap().unwrap());
}

#[test]
fn a_small_memtable_is_not_flushed_for_a_large_one_that_is_held() {
    block_on(async {
        let (node, [large, small]) = with_two_tables().await;
        let _permit = large.flushes.lock.acquire(1).await;
        write_now(&node, &large, b"a", LARGE_BYTES);
        let next = || victim(node.store(), |_| false).map(|table| table.metadata().id);
        // The last size is more than 1/8 of the bytes that are a reason to flush.
        for (bytes, is_flushed) in [(1, false), (100 << 10, false), (300 << 10, true)] {
            write_now(&node, &small, b"a", bytes);
            assert_eq!(next(), is_flushed.then_some(small.metadata().id), "{bytes} bytes");
        }
    });
}

/// The truncation cannot begin in time, so the memtable stays.
#[test]
fn the_end_of_a_truncation_begins_a_flush() {
    let _clock = ManualClock::new(1_700_000_000_000_000).moving_when_idle().install();
    block_on(async {
        let (node, [large, _]) = with_two_tables().await;
        let permit = large.flushes.lock.acquire(1).await;
        write_now(&node, &large, b"a", LARGE_BYTES);
        let (truncated, id) = (node.clone(), large.metadata().id);
        let truncation =
            spawn_local(async move { truncated.truncate_within(id, Duration::from_secs(1)).await });
        // The scheduler looks at the tables now, and from now on once a second.
        node.store().wakers.flush.notify_one();
        time::sleep(Duration::from_millis(1200)).await;
        drop(permit);
        let error = truncation.await.unwrap_err();
        assert!(matches!(error, StorageError::TruncationTimedOut(_)), "{error}");
        time::sleep(Duration::from_millis(500)).await;
        assert!(large.memtable().is_empty());
    });
}

/// A write during the flush fills the next memtable of the table.
#[test]
fn the_end_of_a_requested_flush_begins_a_flush() {
    let _clock = ManualClock::new(1_700_000_000_000_000).moving_when_idle().install();
    block_on(async {
        let (node, [large, _]) = with_two_tables().await;
        let permit = large.flushes.lock.acquire(1).await;
        write_now(&node, &large, b"a", LARGE_BYTES);
        let (store, tables) = (node.store().clone(), vec![large.clone()]);
        let flush = spawn_local(async move { flush_tables(&store, tables).await });
        time::sleep(Duration::from_millis(100)).await;
        drop(permit);
        for _ in 0..10_000 {
            if !large.view().flushing.is_empty() {
                break;
            }
            yield_now().await;
        }
        assert!(!large.view().flushing.is_empty(), "the flush has not begun, or has ended");
        write_now(&node, &large, b"b", LARGE_BYTES);
        flush.await.unwrap();
        time::sleep(Duration::from_millis(500)).await;
        assert!(large.memtable().is_empty());
    });
}
