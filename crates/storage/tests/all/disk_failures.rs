//! Tests a full or failing disk: a waiting write gets an error, reads continue, writes work again
//! once the disk works, and no acknowledged write is lost.

use std::time::Duration;

use espalier_runtime::{
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    time::{self, ManualClock},
};
use espalier_storage::StorageConfiguration;

use crate::support::*;

fn small() -> StorageConfiguration {
    let mut configuration = configuration();
    configuration.commit_log.segment_bytes = 8 << 10;
    configuration.commit_log.total_bytes = 8 << 20;
    configuration.timeouts.write = Duration::from_millis(300);
    configuration
}

/// Injects a fault into writing the log, checks, repairs the disk, and checks again.
fn survive(fault: fn() -> Fault, seed: u64) {
    // The clock moves only while the node waits, so a slow write does not time out.
    let _clock = ManualClock::new(i64::from(NOW) * 1_000_000).moving_when_idle().install();
    let file_system = FileSystem::simulated(seed);
    let disk = file_system.simulated_disk().unwrap().clone();
    let mut acknowledged = Vec::new();
    let mut sent = Vec::new();
    run(async {
        let database = open(&file_system, small()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let value = "v".repeat(200);
        let mut failures = 0;
        for number in 0..200 {
            match number {
                60 => disk.inject(fault()),
                140 => {
                    disk.clear_faults();
                    // The node recovers soon, without help.
                    for _ in 0..100 {
                        time::sleep(Duration::from_millis(100)).await;
                        let probe = insert(&narrow, "139", None, 1, &[("v", &value)]);
                        if database.apply(probe).await.is_ok() {
                            break;
                        }
                    }
                }
                _ => {}
            }
            let name = format!("{number:03}");
            sent.push(name.clone());
            let outcome = database.apply(insert(&narrow, &name, None, 1, &[("v", &value)])).await;
            match outcome {
                Ok(()) => acknowledged.push(name),
                Err(error) => {
                    failures += 1;
                    let text = error.to_string();
                    assert!(text.starts_with("the commit log"), "{text}");
                    assert!((60..140).contains(&number), "write {number}: {text}");
                    // Reads continue.
                    assert!(read_partition(&database, &narrow, "000").await.is_some());
                    if failures > 5 {
                        break_time().await;
                    }
                }
            }
        }
        assert!(failures > 0, "the fault was never met");
        assert!(acknowledged.len() > 100);
    });
    let file_system = FileSystem::on(disk.crash(seed));
    run(async {
        let database = open(&file_system, small()).await.unwrap();
        let narrow = table(&database, "narrow");
        for name in &acknowledged {
            let row = read_partition(&database, &narrow, name).await;
            assert!(row.is_some(), "seed {seed}: {name} was acknowledged");
        }
        for partition in read_all(&database, &narrow).await.partitions {
            let name = String::from_utf8(partition.key.key.to_vec()).unwrap();
            assert!(sent.contains(&name));
        }
    });
}

async fn break_time() {
    espalier_runtime::yield_now().await;
}

#[test]
fn writes_to_the_log_fail() {
    let fault = || Fault::always(Operation::Write, Effect::InputOutput).on_path("commitlog-");
    espalier_testing::seeds(5).for_each(|seed| survive(fault, seed));
}

#[test]
fn syncs_of_the_log_fail() {
    let fault = || Fault::always(Operation::Sync, Effect::InputOutput).on_path("commitlog-");
    espalier_testing::seeds(10).for_each(|seed| survive(fault, seed));
}

#[test]
fn the_disk_is_full_when_a_segment_is_made() {
    let fault = || Fault::always(Operation::Allocate, Effect::NoSpace).on_path("commitlog-");
    espalier_testing::seeds(5).for_each(|seed| survive(fault, seed));
}

#[test]
fn writes_are_torn_by_a_full_disk() {
    let fault = || Fault::always(Operation::Write, Effect::Torn).on_path("commitlog-");
    espalier_testing::seeds(10).for_each(|seed| survive(fault, seed));
}

/// Tables may be on different disks.
#[test]
fn a_table_that_cannot_be_flushed_keeps_no_other_from_it() {
    let file_system = FileSystem::simulated(4);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let mut configuration = configuration();
        configuration.memtables.bytes = 2 << 20;
        let database = open(&file_system, configuration).await.unwrap();
        create(&database, vec![narrow_table(), wide_table()]).await;
        let (narrow, wide) = (table(&database, "narrow"), table(&database, "wide"));
        database.apply(insert(&narrow, "a", None, 1, &[("v", "1")])).await.unwrap();
        disk.inject(Fault::always(Operation::Create, Effect::NoSpace).on_path("narrow-"));
        database.flush("ks", Some("narrow")).await.unwrap_err();
        let value = "v".repeat(2000);
        for number in 0..4000 {
            let one = insert(&wide, &number.to_string(), Some(1), 1, &[("v", &value)]);
            database.apply(one).await.unwrap();
        }
        let metrics = database.store().metrics();
        assert!(metrics.flushes.done >= 3 && metrics.sstables >= 3, "{metrics:?}");
        disk.clear_faults();
        let failed = metrics.flushes.failed;
        assert!(failed >= 1);
        // The flush is retried within a second or two.
        for _ in 0..600 {
            if sstable_names(&file_system, &narrow).await.len() == 1 {
                return;
            }
            time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the failed flush was not retried");
    });
}

#[test]
fn a_flush_that_fails_is_tried_again_and_loses_nothing() {
    let file_system = FileSystem::simulated(3);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, small()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        database.apply(insert(&narrow, "a", None, 1, &[("v", "1")])).await.unwrap();
        for operation in [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename] {
            let mut fault = Fault::always(operation, Effect::NoSpace).on_path("narrow-");
            if operation == Operation::Rename {
                // The removal of a partial file starts with a rename, which a full disk allows.
                fault.count = 1;
            }
            disk.inject(fault);
            let error = database.flush("ks", None).await.unwrap_err().to_string();
            assert!(error.contains("No space left"), "{operation:?}: {error}");
            disk.clear_faults();
            // Both the old write and the later write are there.
            database.apply(insert(&narrow, "b", None, 1, &[("v", "2")])).await.unwrap();
            let names = ["a/ v=1", "b/ v=2"].map(String::from);
            let mut shown = show(&narrow, &read_all(&database, &narrow).await);
            shown.sort();
            assert_eq!(shown, names);
        }
        assert_eq!(database.store().metrics().sstables, 0);
        // Partial files of failed flushes do not stay on a disk that may be full.
        let directory = file_system.read_dir("node/data/ks").await.unwrap().remove(0).path;
        let mut left = file_system.read_dir(directory).await.unwrap();
        left.retain(|entry| entry.name.starts_with("da-"));
        assert_eq!(left, []);
        database.flush("ks", None).await.unwrap();
        let sstables = database.store().metrics().sstables;
        assert!(sstables >= 1);
        assert!(database.store().metrics().flushes.failed >= 4);
        let shown = show(&narrow, &read_all(&database, &narrow).await);
        assert_eq!(shown.len(), 2);
    });
}

/// With one more memtable after each failure, reads would be slower, and each memtable would become
/// a file.
#[test]
fn flushes_that_fail_leave_no_more_memtables_behind_each_time() {
    let file_system = FileSystem::simulated(5);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        disk.inject(Fault::always(Operation::Create, Effect::NoSpace).on_path("narrow-"));
        let names: Vec<String> = (0..9).map(|number| number.to_string()).collect();
        for name in &names {
            write_narrow(&database, &[name]).await;
            database.flush("ks", Some("narrow")).await.unwrap_err();
        }
        disk.clear_faults();
        database.flush("ks", Some("narrow")).await.unwrap();
        // The first memtable, and one with the later writes.
        assert_eq!(sstable_names(&file_system, &narrow_table()).await.len(), 2);
        assert_eq!(names_in_narrow(&database).await, names);
    });
}

/// The files of secondary indexes do not take a name, so a copy of them may have the name of the
/// next SSTable.
#[test]
fn a_flush_that_reserves_no_name_removes_no_files() {
    let file_system = FileSystem::simulated(6);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        write_narrow(&database, &["a"]).await;
        let directory = table_directory(&narrow_table());
        file_system.create_dir_all(&directory).await.unwrap();
        let copy = directory.join("da-1-bti-SAI+Meta.db");
        file_system.create(&copy).await.unwrap();
        disk.inject(Fault::always(Operation::Create, Effect::NoSpace).on_path("TemporaryTOC"));
        database.flush("ks", Some("narrow")).await.unwrap_err();
        assert!(file_system.exists(&copy).await.unwrap(), "the flush has removed the copy");
        disk.clear_faults();
        database.flush("ks", Some("narrow")).await.unwrap();
        assert_eq!(sstable_names(&file_system, &narrow_table()).await.len(), 1);
    });
}
