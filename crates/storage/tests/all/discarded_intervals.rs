//! Mutations that a compaction has purged do not come back from the commit log, even though the log
//! does not have their deletion any more.

use std::time::Duration;

use espalier_mutation::{DeletionTime, Mutation, PartitionUpdate, schema::TableOptions};
use espalier_runtime::{
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    time,
};
use espalier_storage::{Node, StorageConfiguration};

use crate::{
    compaction_crashes::{clock, lose_power_at_every_operation, quiet},
    full_tries::{ROWS, near, write},
    support::*,
};

/// Writes a row, which is in one file and in the log, and its deletion, which is in another file
/// but not in the log.
async fn fill(database: &Node) {
    let mut narrow = narrow_table();
    narrow.options = TableOptions { gc_grace_seconds: 0, ..TableOptions::default() };
    create(database, vec![narrow]).await;
    let narrow = table(database, "narrow");
    database.apply(insert(&narrow, "a", None, 1, &[("v", "1")])).await.unwrap();
    database.flush("ks", None).await.unwrap();
    set_durable_writes(database, false).await;
    let mut update = PartitionUpdate::new(narrow.id, key("a"));
    update.deletion = DeletionTime::new(2, NOW - 10);
    database.apply(Mutation { updates: vec![update] }).await.unwrap();
    database.flush("ks", None).await.unwrap();
    set_durable_writes(database, true).await;
}

async fn check(file_system: &FileSystem, context: &str) -> usize {
    let database = open(file_system, quiet()).await.unwrap_or_else(|e| panic!("{context}: {e}"));
    assert!(names_in_narrow(&database).await.is_empty(), "{context}");
    let narrow = table(&database, "narrow");
    let files = sstable_names(file_system, &narrow).await.len();
    // Later writes are not discarded with the row.
    database.apply(insert(&narrow, "b", None, 3, &[("v", "later")])).await.unwrap();
    drop(database);
    let crashed = FileSystem::on(file_system.simulated_disk().unwrap().crash(1));
    let database = open(&crashed, quiet()).await.unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(names_in_narrow(&database).await, ["b"], "{context}");
    files
}

#[test]
fn nothing_comes_back_whenever_the_power_goes() {
    let _installed = clock().install();
    let (old, new) = lose_power_at_every_operation(fill, check, [2, 0]);
    let part = if espalier_testing::runs_all() { 1 } else { 9 };
    assert!(old > 20 / part && new > 12 / part, "{old} old, {new} new");
}

#[test]
fn nothing_comes_back_from_segments_that_are_to_be_used_again() {
    let _installed = clock().install();
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    let small = || {
        let mut small = quiet();
        small.commit_log.segment_bytes = 16 << 10;
        small
    };
    const FEW: u32 = 400;
    run(async {
        let database = open(&file_system, small()).await.unwrap();
        let mut narrow = narrow_table();
        narrow.options = TableOptions { gc_grace_seconds: 0, ..TableOptions::default() };
        create(&database, vec![narrow]).await;
        let narrow = table(&database, "narrow");
        let value = "x".repeat(5000);
        for number in 0..FEW {
            let name = number.to_string();
            database.apply(insert(&narrow, &name, None, 1, &[("v", &value)])).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
        set_durable_writes(&database, false).await;
        for number in 0..FEW {
            let mut update = PartitionUpdate::new(narrow.id, key(number.to_string()));
            update.deletion = DeletionTime::new(2, NOW - 10);
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
        database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
        assert!(sstable_names(&file_system, &narrow).await.is_empty());
        let segments =
            file_system.read_dir(&database.store().configuration().commit_log.directory).await;
        let segments = segments.unwrap().len();
        assert!(segments > 100, "{segments}");
    });
    let crashed = FileSystem::on(disk.crash(1));
    run(async {
        let database = open(&crashed, small()).await.unwrap();
        assert!(names_in_narrow(&database).await.is_empty());
    });
}

#[test]
fn a_failed_write_of_discarded_intervals_keeps_the_old_files() {
    let _installed = clock().install();
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, quiet()).await.unwrap();
        fill(&database).await;
        disk.inject(Fault::always(Operation::Write, Effect::InputOutput).on_path("settled-"));
        database.compactions().compact("ks", Some("narrow"), false).await.unwrap_err();
        disk.clear_faults();
        let narrow = table(&database, "narrow");
        assert_eq!(sstable_names(&file_system, &narrow).await.len(), 2);
        database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
        assert!(sstable_names(&file_system, &narrow).await.is_empty());
    });
    assert_eq!(run(check(&FileSystem::on(disk.crash(1)), "after a second try")), 0);
}

#[test]
fn a_damaged_discarded_intervals_file_is_an_error_naming_it() {
    let _installed = clock().install();
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, quiet()).await.unwrap();
        fill(&database).await;
        database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
        let path = database.store().configuration().commit_log.directory.join("settled-0");
        assert!(disk.flip_random_bit(&path).unwrap());
        database.shutdown().await.unwrap();
        drop(database);
        let error = open(&file_system, quiet()).await.err().unwrap().to_string();
        assert!(error.contains("settled-0"), "{error}");
    });
}

/// Writes that were flushed during a replay are not replayed again.
#[test]
fn writes_flushed_during_a_replay_are_not_replayed_again() {
    let _installed = clock().install();
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    let replayed = || StorageConfiguration { autocompaction: false, ..near() };
    run(async {
        let database = open(&file_system, quiet()).await.unwrap();
        let mut narrow = narrow_table();
        narrow.options = TableOptions { gc_grace_seconds: 0, ..TableOptions::default() };
        create(&database, vec![narrow, wide_table()]).await;
        // This write stays in memory, and keeps its segment.
        let wide = table(&database, "wide");
        database.apply(insert(&wide, "w", Some(1), 1, &[("v", "1")])).await.unwrap();
        write(&database, &table(&database, "narrow")).await;
    });
    let crashed = FileSystem::on(disk.crash(1));
    let disk = crashed.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&crashed, replayed()).await.unwrap();
        assert!(database.store().metrics().flushes.done >= 2, "{:?}", database.store().metrics());
        database.flush("ks", Some("narrow")).await.unwrap();
        let narrow = table(&database, "narrow");
        set_durable_writes(&database, false).await;
        for number in 0..ROWS {
            let mut update = PartitionUpdate::new(narrow.id, key(number.to_string()));
            update.deletion = DeletionTime::new(2, NOW - 10);
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
        }
        database.flush("ks", Some("narrow")).await.unwrap();
        database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
        assert!(sstable_names(&crashed, &narrow).await.is_empty());
    });
    let crashed = FileSystem::on(disk.crash(2));
    run(async {
        let database = open(&crashed, replayed()).await.unwrap();
        assert!(names_in_narrow(&database).await.is_empty());
        let wide = table(&database, "wide");
        assert_eq!(read_all(&database, &wide).await.partitions.len(), 1);
    });
}

/// A write to the log fails, but some of its records are complete. These records are replayed,
/// unless an SSTable records them as flushed.
#[test]
fn deleted_writes_of_a_torn_log_record_do_not_come_back() {
    let _installed = clock().install();
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    const FEW: u32 = 40;
    run(async {
        let database = open(&file_system, quiet()).await.unwrap();
        let mut narrow = narrow_table();
        narrow.options = TableOptions { gc_grace_seconds: 0, ..TableOptions::default() };
        create(&database, vec![narrow, wide_table()]).await;
        let (narrow, wide) = (table(&database, "narrow"), table(&database, "wide"));
        // This write stays in memory, and keeps its segment.
        database.apply(insert(&wide, "w", Some(1), 1, &[("v", "1")])).await.unwrap();
        database.apply(insert(&narrow, "first", None, 1, &[("v", "1")])).await.unwrap();
        // The closing marker has been written.
        time::sleep(Duration::from_millis(100)).await;
        disk.inject(Fault::nth(Operation::Write, 0, Effect::Torn).on_path("commitlog-0"));
        let mut tickets = Vec::new();
        for number in 0..FEW {
            let write = insert(&narrow, &number.to_string(), None, 1, &[("v", "1")]);
            tickets.push(database.store().try_apply(&write).unwrap().unwrap());
        }
        for ticket in tickets {
            ticket.wait().await.unwrap_err();
        }
        disk.clear_faults();
        // The memtable continues in the next segment.
        database.apply(insert(&narrow, "last", None, 1, &[("v", "1")])).await.unwrap();
        database.flush("ks", Some("narrow")).await.unwrap();
        let names = names_in_narrow(&database).await;
        assert_eq!(names.len(), FEW as usize + 2);
        set_durable_writes(&database, false).await;
        for name in names {
            let mut update = PartitionUpdate::new(narrow.id, key(name));
            update.deletion = DeletionTime::new(2, NOW - 10);
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
        }
        database.flush("ks", Some("narrow")).await.unwrap();
        database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
        assert!(sstable_names(&file_system, &narrow).await.is_empty());
        // The node is killed here.
    });
    run(async {
        let database = open(&file_system, quiet()).await.unwrap();
        let metrics = database.store().metrics();
        assert_eq!(names_in_narrow(&database).await, [""; 0], "{metrics:?}");
        let wide = table(&database, "wide");
        assert_eq!(read_all(&database, &wide).await.partitions.len(), 1);
    });
}
