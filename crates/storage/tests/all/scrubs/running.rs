//! Tests scrubs during compactions, on several shards, and with power failures.

use espalier_runtime::{file::FileSystem, spawn_local, yield_now};
use espalier_storage::{CompactionKind, ReadTarget, ScrubMode, SnapshotTable};

use super::*;
use crate::{compaction_crashes, support::shards::on_shards};

#[test]
fn a_scrub_is_seen_and_stopped() {
    for mode in [ScrubMode::Abort, ScrubMode::Skip, ScrubMode::Validate] {
        let file_system = FileSystem::simulated(14);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            fill(&database, LZ4).await;
            let wide = table(&database, "wide");
            let before = contents(&file_system, &wide).await;
            let other = database.clone();
            let scrubbing = spawn_local(async move { scrub(&other, "wide", mode).await });
            let seen = loop {
                match database.compactions().running().await.pop() {
                    Some(seen) => break seen,
                    None => yield_now().await,
                }
            };
            assert_eq!((seen.kind, seen.kind.name()), (CompactionKind::Scrub, "SCRUB"));
            assert_eq!((seen.table.as_str(), seen.sstables), ("wide", 1));
            database.compactions().stop(&CompactionKind::ALL).await;
            let report = scrubbing.await.unwrap();
            assert!(report.is_stopped, "{mode:?}: {report:?}");
            assert_eq!(contents(&file_system, &wide).await, before, "{mode:?}");
            let again = scrub(&database, "wide", mode).await.unwrap();
            assert_eq!((again.is_stopped, again.sstables), (false, 1));
        });
    }
}

/// A file that is being compacted is scrubbed afterwards, if it still exists.
#[test]
fn a_scrub_waits_for_compactions() {
    let file_system = FileSystem::simulated(15);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        fill(&database, LZ4).await;
        let wide = table(&database, "wide");
        let whole = show(&wide, &read_all(&database, &wide).await);
        let other = database.clone();
        let first = spawn_local(async move { scrub(&other, "wide", ScrubMode::Validate).await });
        while database.compactions().running().await.is_empty() {
            yield_now().await;
        }
        // The first scrub holds the file; the second one has to wait for it.
        let second = scrub(&database, "wide", ScrubMode::Abort).await.unwrap();
        assert_eq!((second.sstables, second.is_stopped), (1, false));
        assert_eq!(first.await.unwrap().sstables, 1);
        assert_eq!(show(&wide, &read_all(&database, &wide).await), whole);
    });
}

#[test]
fn the_power_goes_while_a_table_is_scrubbed() {
    let _installed = compaction_crashes::clock().install();
    for operations in espalier_testing::sample(0..400).step_by(3) {
        let file_system = FileSystem::simulated(operations);
        let disk = file_system.simulated_disk().unwrap().clone();
        run(async {
            let database = open(&file_system, compaction_crashes::quiet()).await.unwrap();
            compaction_crashes::fill(&database).await;
            let id = table(&database, "narrow").id;
            let tables = vec![SnapshotTable { id, describe: |_, _| String::new() }];
            disk.power_off_after(operations);
            let _ = database.compactions().scrub(tables, ScrubMode::Skip, false).await;
        });
        let crashed = FileSystem::on(disk.crash(operations));
        let context = format!("power off after {operations} operations");
        let sets = run(compaction_crashes::check(&crashed, &context));
        assert_eq!(sets, 3, "{context}");
    }
}

/// Each shard has its own files; a file that several shards share is split by the scrub.
#[test]
fn each_shard_scrubs_its_own_files() {
    let file_system = FileSystem::simulated(17);
    let (whole, own) = on_shards(1, &file_system, configuration(), |database| async move {
        fill(&database, LZ4).await;
        let wide = table(&database, "wide");
        let whole = show(&wide, &read_all(&database, &wide).await);
        let own = scrub(&database, "wide", ScrubMode::Abort).await.unwrap().sstables;
        database.shutdown().await.unwrap();
        (whole, own)
    })
    .unwrap();
    assert_eq!(own, 1);
    let (shared, split, after) =
        on_shards(2, &file_system, configuration(), |database| async move {
            let wide = table(&database, "wide");
            let shared = scrub(&database, "wide", ScrubMode::Skip).await.unwrap();
            database.compactions().compact("ks", Some("wide"), true).await.unwrap();
            let split = scrub(&database, "wide", ScrubMode::Skip).await.unwrap();
            (shared, split, show(&wide, &read_all(&database, &wide).await))
        })
        .unwrap();
    assert_eq!((shared.sstables, split.sstables), (1, 2));
    assert!(shared.faults.is_empty() && split.faults.is_empty());
    assert_eq!(after, whole);
}

/// All shards drop what they have cached of the file.
#[test]
fn shards_forget_rows_that_a_scrub_removed_from_a_shared_file() {
    let file_system = FileSystem::simulated(19);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        fill(&database, LZ4).await;
        database.shutdown().await.unwrap();
    });
    let other = file_system.clone();
    on_shards(2, &file_system, configuration(), move |database| {
        let disk = other.clone();
        async move {
            let wide = table(&database, "wide");
            let whole = read_all(&database, &wide).await.partitions.len();
            // The damage is in the second half of the tokens, on the shard that does not lead.
            damage_at(&disk, &wide, "Data.db", |length| length / 4 * 3).await;
            assert_eq!(read_all(&database, &wide).await.partitions.len(), whole, "by the cache");
            let report = scrub(&database, "wide", ScrubMode::Skip).await.unwrap();
            assert!(report.left_out_partitions > 0, "{report:?}");
            let mut around = command(&wide, ReadTarget::Range(KeyRange::full()));
            around.bypass_cache = true;
            let left = database.read(around).await.unwrap();
            assert_eq!(left.partitions.len() as u64 + report.left_out_partitions, whole as u64);
            assert_eq!(report.partitions, whole as u64);
            let cached = read_all(&database, &wide).await;
            assert_eq!(show(&wide, &cached), show(&wide, &left));
        }
    })
    .unwrap();
}

/// A validation needs no disk space, and so reserves none.
#[test]
fn a_validation_leaves_the_room_on_the_disk_to_others() {
    let file_system = FileSystem::simulated(20);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        fill(&database, LZ4).await;
        create(&database, vec![narrow_table()]).await;
        write_narrow(&database, &["a", "b"]).await;
        database.flush("ks", None).await.unwrap();
        let used = u64::MAX - file_system.available_bytes("node").await.unwrap();
        disk.set_capacity(used + (64 << 20) + 20_000);
        let other = database.clone();
        let asked = spawn_local(async move { scrub(&other, "wide", ScrubMode::Validate).await });
        while database.compactions().running().await.is_empty() {
            yield_now().await;
        }
        database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
        assert_eq!(asked.await.unwrap().sstables, 1);
        let refused = database.compactions().compact("ks", Some("wide"), false).await;
        assert!(matches!(refused, Err(StorageError::NoDiskSpace { .. })), "{refused:?}");
    });
}

/// A compaction cannot split a file that is unreadable in part.
#[test]
fn a_damaged_file_that_shards_share_is_split_by_a_scrub() {
    let file_system = FileSystem::simulated(18);
    let whole = run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        fill(&database, LZ4).await;
        let wide = table(&database, "wide");
        let whole = read_all(&database, &wide).await.partitions.len();
        database.shutdown().await.unwrap();
        damage(&file_system, &wide, "Data.db").await;
        whole
    });
    let other = file_system.clone();
    on_shards(2, &file_system, configuration(), move |database| {
        let disk = other.clone();
        async move {
            let wide = table(&database, "wide");
            create(&database, vec![narrow_table()]).await;
            for _ in 0..2 {
                write_narrow(&database, &["a", "b", "c", "d", "e", "f", "g", "h"]).await;
                database.flush("ks", None).await.unwrap();
            }
            let narrow = table(&database, "narrow");
            assert_eq!(sstable_names(&disk, &narrow).await.len(), 4, "two of each shard");
            // The damaged file is reported, and all other files are compacted.
            let error =
                database.compactions().compact("ks", None, true).await.unwrap_err().to_string();
            assert!(error.contains("Data.db"), "{error}");
            assert_eq!(sstable_names(&disk, &narrow).await.len(), 2);
            let found = scrub(&database, "wide", ScrubMode::Validate).await.unwrap();
            assert_eq!((found.sstables, found.damaged_sstables), (1, 1), "{found:?}");
            scrub(&database, "wide", ScrubMode::Abort).await.unwrap_err();
            assert_eq!(sstable_names(&disk, &wide).await.len(), 1);
            let report = scrub(&database, "wide", ScrubMode::Skip).await.unwrap();
            assert!(report.left_out_partitions > 0, "{report:?}");
            assert_eq!(sstable_names(&disk, &wide).await.len(), 2);
            let left = read_all(&database, &wide).await.partitions.len();
            assert_eq!(left as u64 + report.left_out_partitions, whole as u64);
            database.compactions().compact("ks", Some("wide"), true).await.unwrap();
        }
    })
    .unwrap();
}
