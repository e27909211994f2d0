//! These tests check which compaction begins next.

use bytes::Bytes;
use espalier_compaction::strategy::{PickedCompaction, Split};
use espalier_mutation::{
    Cell, ColumnData, DecoratedKey, DeletionTime, Liveness, Mutation, PartitionUpdate,
    schema::{TableMetadata, TableOptions},
};
use espalier_runtime::{block_on, file::FileSystem};

use super::{CONCURRENT, CONCURRENT_WITH_SHORT, Room, max_bytes_of_next, next_job, within};
use crate::{
    Node,
    test_database::{create, open, table_of_blobs, write_of},
};

const DAY_US: i64 = 86_400_000_000;
const ALL_ROOM: Room<'static> = Room { available: &|_| u64::MAX, max_bytes: u64::MAX };

/// `k blob PRIMARY KEY, v blob`.
fn metadata(name: &str, id: u128, class: &str) -> TableMetadata {
    let mut metadata = table_of_blobs(name, id);
    let compaction = [("class".to_owned(), format!("{class}CompactionStrategy"))].into();
    metadata.options = TableOptions { compaction, ..TableOptions::default() };
    metadata
}

/// Writes two partitions with this timestamp to a file of their own.
async fn write_file(node: &Node, table: &TableMetadata, timestamp: i64) {
    for name in ["a", "b"] {
        let cell = Cell::live(timestamp, Bytes::from_static(b"1"));
        let key = Bytes::from_static(name.as_bytes());
        let mut mutation = write_of(table, key, ColumnData::Simple(cell));
        mutation.updates[0].rows[0].liveness = Liveness::live(timestamp);
        node.apply(mutation).await.unwrap();
    }
    node.flush("ks", Some(&table.name)).await.unwrap();
}

#[test]
fn closed_windows_do_not_raise_the_priority_of_a_table() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let node = open(file_system).await;
        let windows = create(&node, metadata("windows", 0xa1, "TimeWindow")).await;
        let tiers = create(&node, metadata("tiers", 0xa2, "SizeTiered")).await;
        // One window has two files, so the table has a pick.
        for day in [1, 2, 3, 4, 5, 6, 7, 7, 8] {
            write_file(&node, &windows, day * DAY_US).await;
        }
        for number in 0..6 {
            write_file(&node, &tiers, number).await;
        }
        let (table, job) = next_job(node.store(), ALL_ROOM).unwrap();
        assert_eq!((&*table.metadata().name, job.guard.running.inputs.len()), ("tiers", 6));
        let (table, job) = next_job(node.store(), ALL_ROOM).unwrap();
        assert_eq!((&*table.metadata().name, job.guard.running.inputs.len()), ("windows", 2));
    });
}

/// The files of flushes must be compacted even while two long compactions run.
#[test]
fn short_compactions_start_while_long_ones_run() {
    let file_system = FileSystem::simulated(2);
    block_on(async {
        let node = open(file_system).await;
        let mut running = Vec::new();
        let mut jobs = 0;
        while let Some(max_bytes) = max_bytes_of_next(node.store()) {
            assert_eq!(max_bytes == u64::MAX, jobs < CONCURRENT);
            let name = format!("t{jobs}");
            let table = metadata(&name, 0xb0 + jobs as u128, "SizeTiered");
            let table = create(&node, table).await;
            for number in 0..4 {
                write_file(&node, &table, number).await;
            }
            // The table has as many bytes as each running compaction; the limit is a quarter of
            // that.
            if max_bytes < u64::MAX {
                assert!(next_job(node.store(), Room { max_bytes, ..ALL_ROOM }).is_none());
                // A short part of many overlapping files begins.
                for number in 4..20 {
                    write_file(&node, &table, number).await;
                }
                let room = Room { max_bytes, ..ALL_ROOM };
                assert!(next_job(node.store(), room).is_none());
                let table = crate::test_database::table(&node, &table);
                let files = table.view().sstables.clone();
                let max_bytes: u64 = files[..4].iter().map(|file| file.bytes_rewritten()).sum();
                let room = Room { max_bytes: max_bytes - 1, ..ALL_ROOM };
                assert!(next_job(node.store(), room).is_none());
                let (_, job) = next_job(node.store(), Room { max_bytes, ..ALL_ROOM }).unwrap();
                assert_eq!(job.guard.running.inputs.len(), 4);
            }
            running.push(next_job(node.store(), ALL_ROOM).unwrap());
            jobs += 1;
        }
        assert_eq!(jobs, CONCURRENT_WITH_SHORT);
        drop(running);
        assert_eq!(max_bytes_of_next(node.store()), Some(u64::MAX));
    });
}

#[test]
fn a_pick_too_large_for_the_disk_drops_files_but_not_its_garbage() {
    let bytes = [10, 50, 20, 5];
    let cut = |garbage, level, available_bytes| {
        let pick =
            PickedCompaction { files: vec![0, 1, 2, 3], level, split: Split::Never, garbage };
        within(pick, |index| bytes[index], available_bytes).files
    };
    assert_eq!(cut(None, 0, 85), [0, 1, 2, 3]);
    assert_eq!(cut(None, 0, 84), [0, 2, 3]);
    assert_eq!(cut(None, 0, 30), [0, 3]);
    assert!(cut(None, 1, 84).is_empty());
    // The largest file is left out first. If it is the garbage file, all files are left out.
    assert_eq!(cut(Some(2), 0, 84), [0, 2, 3]);
    assert!(cut(Some(2), 0, 30).is_empty());
    assert!(cut(Some(1), 0, 84).is_empty());
}

/// The file has nothing but an expired tombstone.
#[test]
fn a_table_that_keeps_its_tombstones_gets_no_compaction_for_them() {
    let file_system = FileSystem::simulated(3);
    block_on(async {
        let node = open(file_system).await;
        for (name, number, keeps) in [("kept", 0xc1, "true"), ("purged", 0xc2, "false")] {
            let mut metadata = metadata(name, number, "SizeTiered");
            let compaction = &mut metadata.options.compaction;
            compaction.insert("only_purge_repaired_tombstones".into(), keeps.into());
            let table = create(&node, metadata).await;
            let key = DecoratedKey::new(Bytes::from_static(b"a"));
            let mut update = PartitionUpdate::new(table.id, key);
            update.deletion = DeletionTime::new(1, 1);
            node.apply(Mutation { updates: vec![update] }).await.unwrap();
            node.flush("ks", Some(name)).await.unwrap();
            let job = next_job(node.store(), ALL_ROOM);
            assert_eq!(job.is_some(), keeps == "false", "{name}");
        }
    });
}

/// Another node may have accepted the options.
#[test]
fn a_table_with_invalid_options_keeps_its_class_and_its_switch() {
    let file_system = FileSystem::simulated(4);
    block_on(async {
        let node = open(file_system).await;
        let mut metadata = metadata("invalid", 0xd1, "Leveled");
        metadata.options.compaction.insert("enabled".into(), "false".into());
        metadata.options.compaction.insert("fanout_size".into(), "x".into());
        let table = create(&node, metadata).await;
        let strategy = crate::test_database::table(&node, &table).compaction_strategy();
        let kept = (strategy.name(), strategy.is_enabled());
        assert_eq!(kept, ("LeveledCompactionStrategy", false));
    });
}
