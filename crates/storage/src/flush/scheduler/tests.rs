//! Tests of the flush scheduler: the next table, held flush locks, and the commit log.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use espalier_mutation::{
    Cell, ColumnData, DecoratedKey, DeletionTime, Mutation, PartitionUpdate, schema::TableMetadata,
};
use espalier_runtime::{
    block_on,
    file::FileSystem,
    time::{self, ManualClock},
};

use super::{pause_of, victim};
use crate::{
    Node, StorageConfiguration,
    flush::flush_tables,
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
    for (trie_bytes, bytes) in [(256 << 10, 256 << 20), (64 << 20, 1 << 20)] {
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
                let cell = Cell::live(1, Bytes::from_static(b"v"));
                node.apply(write_of(metadata, key, ColumnData::Simple(cell)))
            };
            let is_large =
                || large.memtable().wants_flush() || large.memtable().memory_bytes() > 600 << 10;
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
