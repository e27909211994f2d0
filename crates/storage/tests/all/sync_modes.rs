//! Tests when a write is acknowledged, and when it is durable, under each `commitlog_sync`.

use std::time::Duration;

use espalier_mutation::Clustering;
use espalier_runtime::{
    file::{
        FileSystem, Operation, TRICKLE_SYNC_BYTES,
        simulated::{Effect, Fault, SimulatedDisk},
    },
    spawn_local,
    time::{self, ManualClock},
};
use espalier_storage::{CommitLogSync, LogCheck, Node, StorageConfiguration, TurnRows};

use crate::support::*;

fn with_sync(sync: CommitLogSync) -> StorageConfiguration {
    let mut configuration = configuration();
    configuration.commit_log.sync = sync;
    configuration
}

/// Returns a configuration with periodic sync, and a log in which one segment takes all writes.
fn in_one_segment(period: Duration) -> StorageConfiguration {
    let mut configuration = with_sync(CommitLogSync::Periodic { period });
    configuration.commit_log.segment_bytes = 32 << 20;
    configuration.commit_log.total_bytes = 128 << 20;
    configuration
}

/// Opens the disk after simulated crashes, and looks for partitions of `narrow` there.
async fn assert_durable(disk: &SimulatedDisk, configuration: &StorageConfiguration, keys: &[&str]) {
    for seed in espalier_testing::seeds(20) {
        let after = FileSystem::on(disk.crash(seed));
        let database = open(&after, configuration.clone()).await.unwrap();
        let narrow = table(&database, "narrow");
        for key in keys {
            let found = read_partition(&database, &narrow, key).await;
            assert!(found.is_some(), "{key}, seed {seed}");
        }
    }
}

#[test]
fn periodic_acknowledges_at_once_and_syncs_later() {
    // The clock moves only while the node waits, so no sleep ends before the node's work is done.
    let _clock = ManualClock::new(1_700_000_000_000_000).moving_when_idle().install();
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let period = Duration::from_millis(60);
        let database =
            open(&file_system, with_sync(CommitLogSync::Periodic { period })).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let ticket =
            database.store().try_apply(&insert(&narrow, "a", None, 1, &[("v", "1")])).unwrap();
        assert!(ticket.unwrap().is_acknowledged());
        time::sleep(Duration::from_millis(300)).await;
        // At this point the write survives every crash.
        assert_durable(&disk, &configuration(), &["a"]).await;
    });
}

#[test]
fn periodic_syncs_before_its_time_where_much_is_written() {
    // The clock moves only while the node waits, so no sleep ends before the node's work is done.
    let _clock = ManualClock::new(1_700_000_000_000_000).moving_when_idle().install();
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let period = Duration::from_secs(3600);
        let configuration = in_one_segment(period);
        let database = open(&file_system, configuration.clone()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let value = "x".repeat(256 << 10);
        let rows = TRICKLE_SYNC_BYTES as usize / value.len() + 1;
        for number in 0..rows {
            let key = number.to_string();
            database.apply(insert(&narrow, &key, None, 1, &[("v", &value)])).await.unwrap();
            time::sleep(Duration::from_millis(5)).await;
        }
        // All rows but the one after the sync.
        let covered: Vec<String> = (0..rows - 1).map(|number| number.to_string()).collect();
        let covered: Vec<&str> = covered.iter().map(String::as_str).collect();
        assert_durable(&disk, &configuration, &covered).await;
    });
}

/// Writes a row of `narrow` and a row of `wide` as one record, and flushes `narrow`. The record is
/// not durable before the flush. Checks that no crash keeps only the flushed row. Returns the node.
async fn flush_one_of_two(file_system: &FileSystem, configuration: StorageConfiguration) -> Node {
    let disk = file_system.simulated_disk().unwrap().clone();
    let database = open(file_system, configuration.clone()).await.unwrap();
    create(&database, vec![narrow_table(), wide_table()]).await;
    let (narrow, wide) = (table(&database, "narrow"), table(&database, "wide"));
    let mut both = insert(&narrow, "a", None, 1, &[("v", "1")]);
    both.updates.extend(insert(&wide, "a", Some(1), 1, &[("v", "1")]).updates);
    drop(database.store().try_apply(&both).unwrap().unwrap());
    database.flush("ks", Some("narrow")).await.unwrap();
    assert_eq!(sstable_names(file_system, &narrow).await.len(), 1);
    for seed in espalier_testing::seeds(20) {
        let after = FileSystem::on(disk.crash(seed));
        let crashed = open(&after, configuration.clone()).await.unwrap();
        for table in [&narrow, &wide] {
            let found = read_partition(&crashed, table, "a").await;
            assert!(found.is_some(), "{}, seed {seed}", table.name);
        }
    }
    database
}

#[test]
fn a_flush_waits_for_the_sync_of_its_records() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let period = Duration::from_secs(3600);
        let database = flush_one_of_two(&file_system, in_one_segment(period)).await;
        // The record is durable now, so the flush of the other table causes no sync.
        let before = database.store().metrics().commit_log.sync_batches;
        database.flush("ks", Some("wide")).await.unwrap();
        assert_eq!(database.store().metrics().commit_log.sync_batches, before);
    });
    // The clock moves only while the node waits, so the flush begins within the window.
    let _clock = ManualClock::new(1_700_000_000_000_000).moving_when_idle().install();
    let file_system = FileSystem::simulated(1);
    run(async {
        let window = Duration::from_secs(1);
        flush_one_of_two(&file_system, with_sync(CommitLogSync::Group { window })).await;
    });
}

/// A write late in a period does not wait for a second period.
#[test]
fn periodic_loses_no_more_than_a_period() {
    let clock = ManualClock::new(1_700_000_000_000_000).moving_when_idle();
    let _installed = clock.install();
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let period = Duration::from_secs(10);
        let configuration = in_one_segment(period);
        let database = open(&file_system, configuration.clone()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        time::sleep(Duration::from_secs(3)).await;
        // Enough bytes for an immediate sync, then fewer.
        for bytes in [TRICKLE_SYNC_BYTES as usize, 1] {
            let value = "x".repeat(bytes);
            let key = bytes.to_string();
            database.apply(insert(&narrow, &key, None, 1, &[("v", &value)])).await.unwrap();
            time::sleep(Duration::from_millis(100)).await;
        }
        time::sleep(period).await;
        assert_durable(&disk, &configuration, &["1"]).await;
    });
}

/// The writes are acknowledged, and no later sync of the log can make them durable.
#[test]
fn periodic_flushes_the_writes_of_a_sync_that_failed() {
    // The clock moves only while the node waits, so no sleep ends before the node's work is done.
    let _clock = ManualClock::new(1_700_000_000_000_000).moving_when_idle().install();
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let period = Duration::from_millis(60);
        let database =
            open(&file_system, with_sync(CommitLogSync::Periodic { period })).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        time::sleep(Duration::from_millis(300)).await;
        let failed = database.store().metrics().commit_log.failed_sync_batches;
        disk.inject(Fault::nth(Operation::Sync, 0, Effect::InputOutput).on_path("commitlog-"));
        let keys = ["a", "b", "c"];
        for key in keys {
            database.apply(insert(&narrow, key, None, 1, &[("v", "1")])).await.unwrap();
            time::sleep(Duration::from_millis(20)).await;
        }
        time::sleep(Duration::from_millis(500)).await;
        assert_eq!(database.store().metrics().commit_log.failed_sync_batches, failed + 1);
        // One file: the flush is not repeated.
        assert_eq!(sstable_names(&file_system, &narrow).await.len(), 1);
        assert_durable(&disk, &configuration(), &keys).await;
    });
}

/// A table that cannot be flushed does not keep the others from a flush, not even by the older
/// segments that it holds.
#[test]
fn periodic_flushes_each_table_of_a_sync_that_failed() {
    // The clock moves only while the node waits, so no sleep ends before the node's work is done.
    let _clock = ManualClock::new(1_700_000_000_000_000).moving_when_idle().install();
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let period = Duration::from_millis(60);
        let database =
            open(&file_system, with_sync(CommitLogSync::Periodic { period })).await.unwrap();
        create(&database, vec![narrow_table(), wide_table()]).await;
        let (narrow, wide) = (table(&database, "narrow"), table(&database, "wide"));
        time::sleep(Duration::from_millis(300)).await;
        disk.inject(Fault::always(Operation::Create, Effect::NoSpace).on_path("narrow-"));
        for (table, count) in [(&narrow, 1), (&wide, 2)] {
            // Each write is in a segment of its own, because an unsynced segment takes no more
            // writes. When the second segment is started, the third one is created and synced.
            let fault = Fault::always(Operation::Sync, Effect::InputOutput);
            disk.inject(Fault { count, ..fault }.on_path("commitlog-"));
            let clustering = (table.name == "wide").then_some(1);
            database.apply(insert(table, "a", clustering, 1, &[("v", "1")])).await.unwrap();
            time::sleep(Duration::from_millis(200)).await;
        }
        time::sleep(Duration::from_millis(300)).await;
        assert_eq!(database.store().metrics().commit_log.failed_sync_batches, 2);
        assert!(database.store().metrics().flushes.failed > 0);
        assert_eq!(sstable_names(&file_system, &wide).await.len(), 1);
        disk.clear_faults();
        time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(sstable_names(&file_system, &narrow).await.len(), 1);
    });
}

/// The client of a write whose sync failed has an error, but readers see the write. A barrier fails
/// until a flush has made the write durable.
#[test]
fn a_barrier_does_not_pass_a_write_whose_sync_failed() {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        disk.inject(Fault::nth(Operation::Sync, 0, Effect::InputOutput).on_path("commitlog-"));
        database.apply(insert(&narrow, "a", None, 1, &[("v", "1")])).await.unwrap_err();
        assert!(database.store().check_log(&narrow).is_err());
        assert!(read_partition(&database, &narrow, "a").await.is_some());
        // The append itself refuses a write that depends on this one.
        for check in [LogCheck::Intact, LogCheck::None] {
            let mut rows = TurnRows::new(&narrow, key("b").borrowed());
            rows.add_row(&narrow, &Clustering::empty());
            let turn = database.store().turns().take(rows).await;
            let write = insert(&narrow, "b", None, 1, &[("v", "1")]);
            let written = database.write_in_turn(&write, turn, check).await;
            assert_eq!(written.is_err(), check == LogCheck::Intact);
        }
        let mut failures = 0;
        while database.wait_until_durable(&narrow, Some(&key("a"))).await.is_err() {
            failures += 1;
            assert!(failures < 6_000, "nothing has flushed the table");
            time::sleep(Duration::from_millis(10)).await;
        }
        assert!(database.store().check_log(&narrow).is_ok());
        assert_durable(&disk, &configuration(), &["a"]).await;
    });
}

/// After a failed sync, files show bytes that no later sync makes durable.
#[test]
fn a_replay_makes_the_writes_of_a_failed_sync_durable() {
    for seed in 1..=6 {
        let file_system = FileSystem::simulated(seed);
        let disk = file_system.simulated_disk().unwrap().clone();
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![narrow_table()]).await;
            write_narrow(&database, &["a"]).await;
            disk.inject(Fault::always(Operation::Sync, Effect::InputOutput));
            let narrow = table(&database, "narrow");
            database.apply(insert(&narrow, "b", None, 1, &[("v", "1")])).await.unwrap_err();
            // The process is killed here.
        });
        disk.clear_faults();
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            assert_eq!(names_in_narrow(&database).await, ["a", "b"]);
            write_narrow(&database, &["c"]).await;
            assert_durable(&disk, &configuration(), &["a", "b", "c"]).await;
        });
    }
}

/// The write is behind the end of its segment, which the next segment names.
#[test]
fn a_replay_makes_a_failed_write_before_a_later_segment_durable() {
    for seed in 1..=6 {
        let file_system = FileSystem::simulated(seed);
        let disk = file_system.simulated_disk().unwrap().clone();
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![narrow_table()]).await;
            write_narrow(&database, &["a"]).await;
            // A flush would make the write durable.
            let no_flush = Fault::always(Operation::Create, Effect::NoSpace).on_path("narrow-");
            disk.inject(no_flush.clone());
            let no_sync = Fault::always(Operation::Sync, Effect::InputOutput);
            disk.inject(no_sync.on_path("commitlog-"));
            let narrow = table(&database, "narrow");
            database.apply(insert(&narrow, "b", None, 1, &[("v", "1")])).await.unwrap_err();
            disk.clear_faults();
            disk.inject(no_flush);
            write_narrow(&database, &["c"]).await;
            // The process is killed here.
        });
        disk.clear_faults();
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            assert_eq!(names_in_narrow(&database).await, ["a", "b", "c"]);
            assert_durable(&disk, &configuration(), &["a", "b", "c"]).await;
        });
    }
}

#[test]
fn group_acknowledges_after_the_sync_and_shares_it() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let before = database.store().metrics().commit_log.sync_batches;
        let writers: Vec<_> = (0..200)
            .map(|number| {
                let database = database.clone();
                let mutation = insert(&narrow, &number.to_string(), None, 1, &[("v", "1")]);
                spawn_local(async move { database.apply(mutation).await })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let rounds = database.store().metrics().commit_log.sync_batches - before;
        assert!((1..20).contains(&rounds), "{rounds} rounds for 200 writes at once");
        let ticket =
            database.store().try_apply(&insert(&narrow, "x", None, 1, &[("v", "1")])).unwrap();
        let ticket = ticket.unwrap();
        assert!(!ticket.is_acknowledged());
        ticket.await.unwrap();
    });
}

#[test]
fn a_window_makes_writes_wait_for_each_other() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let window = Duration::from_millis(30);
        let database =
            open(&file_system, with_sync(CommitLogSync::Group { window })).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let started = time::Instant::now();
        database.apply(insert(&narrow, "a", None, 1, &[("v", "1")])).await.unwrap();
        assert!(started.elapsed() >= window);
    });
}

#[test]
fn tables_without_durable_writes_are_not_logged() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        set_durable_writes(&database, false).await;
        let narrow = table(&database, "narrow");
        let before = database.store().metrics().commit_log.records_appended;
        // Not even a log that cannot be written matters.
        let disk = file_system.simulated_disk().unwrap();
        disk.inject(Fault::always(Operation::Write, Effect::InputOutput).on_path("commitlog-"));
        database.apply(insert(&narrow, "a", None, 1, &[("v", "1")])).await.unwrap();
        assert_eq!(database.store().metrics().commit_log.records_appended, before);
        assert!(read_partition(&database, &narrow, "a").await.is_some());
    });
}
