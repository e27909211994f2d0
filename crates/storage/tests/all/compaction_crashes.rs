//! Power fails, or an operation fails, at any step of a compaction. The table's content stays the
//! same, from the old files or from the new ones, and no other file is left.

use espalier_mutation::{DeletionTime, Mutation, PartitionUpdate, schema::TableOptions};
use espalier_runtime::{
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    time::ManualClock,
};
use espalier_storage::{Node, StorageConfiguration};

use crate::support::*;

pub fn quiet() -> StorageConfiguration {
    StorageConfiguration { autocompaction: false, ..configuration() }
}

/// Writes three files: rows, deletions of some of these rows (the deletions may be purged), and
/// later rows.
pub async fn fill(database: &Node) {
    let mut narrow = narrow_table();
    narrow.options = TableOptions { gc_grace_seconds: 0, ..TableOptions::default() };
    create(database, vec![narrow]).await;
    let narrow = table(database, "narrow");
    for number in 0..20 {
        let name = format!("p{number:02}");
        database.apply(insert(&narrow, &name, None, 1, &[("v", "first")])).await.unwrap();
    }
    database.flush("ks", None).await.unwrap();
    for number in 0..10 {
        let mut update = PartitionUpdate::new(narrow.id, key(format!("p{number:02}")));
        update.deletion = DeletionTime::new(2, NOW - 10);
        database.apply(Mutation { updates: vec![update] }).await.unwrap();
    }
    database.flush("ks", None).await.unwrap();
    for number in 5..15 {
        let name = format!("p{number:02}");
        database.apply(insert(&narrow, &name, None, 3, &[("v", "second")])).await.unwrap();
    }
    database.flush("ks", None).await.unwrap();
}

fn expected() -> Vec<String> {
    let rows = (5..20).map(|number| {
        let value = if number < 15 { "second" } else { "first" };
        format!("p{number:02}/ v={value}")
    });
    rows.collect()
}

pub async fn check(file_system: &FileSystem, context: &str) -> usize {
    let database = open(file_system, quiet()).await.unwrap_or_else(|e| panic!("{context}: {e}"));
    let narrow = table(&database, "narrow");
    let mut lines = show(&narrow, &read_all(&database, &narrow).await);
    lines.sort();
    assert_eq!(lines, expected(), "{context}");
    let (files, sets) =
        (file_names(file_system, &narrow).await, sstable_names(file_system, &narrow).await);
    for file in files.iter().filter(|name| *name != "truncated") {
        assert!(sets.iter().any(|set| file.starts_with(set)), "{context}: {file} of {files:?}");
    }
    // The files that are left can be compacted.
    database.compactions().compact("ks", Some("narrow"), true).await.unwrap();
    let mut lines = show(&narrow, &read_all(&database, &narrow).await);
    lines.sort();
    assert_eq!(lines, expected(), "{context}: compacted");
    let left = sstable_names(file_system, &narrow).await;
    assert_eq!(left.len(), 1, "{context}: {left:?}");
    sets.len()
}

pub fn clock() -> ManualClock {
    ManualClock::new(i64::from(NOW) * 1_000_000).moving_when_idle()
}

/// Fills a table and cuts power after each possible number of operations of its compaction. `files`
/// holds the numbers of files before and after the compaction. Returns how many checks find the
/// first number, and how many find the second. Unless all cases run, the function tries every third
/// number of operations, with one crash of the disk each.
pub fn lose_power_at_every_operation(
    fill: impl AsyncFn(&Node),
    check: impl AsyncFn(&FileSystem, &str) -> usize,
    files: [usize; 2],
) -> (u64, u64) {
    let (mut old, mut new) = (0, 0);
    let (step, crashes) = if espalier_testing::runs_all() { (1, 3) } else { (3, 1) };
    for operations in (espalier_testing::first_seed() % step..).step_by(step as usize) {
        let file_system = FileSystem::simulated(operations);
        let disk = file_system.simulated_disk().unwrap().clone();
        let is_done = run(async {
            let database = open(&file_system, quiet()).await.unwrap();
            fill(&database).await;
            disk.power_off_after(operations);
            database.compactions().compact("ks", Some("narrow"), false).await.is_ok()
        });
        for seed in 0..crashes {
            let crashed = FileSystem::on(disk.crash(operations * 10 + seed));
            let context = format!("power off after {operations} operations, crash seed {seed}");
            match run(check(&crashed, &context)) {
                found if found == files[0] => old += 1,
                found if found == files[1] => new += 1,
                found => panic!("{context}: {found} files"),
            }
        }
        if is_done && operations > 10 && new > 12 / step {
            break;
        }
        assert!(operations < 2000, "the compaction never ends");
    }
    (old, new)
}

#[test]
fn a_compaction_survives_power_loss_at_every_operation() {
    let _installed = clock().install();
    let (old, new) = lose_power_at_every_operation(fill, check, [3, 1]);
    let part = if espalier_testing::runs_all() { 1 } else { 9 };
    assert!(old > 100 / part && new > 12 / part, "{old} old, {new} new");
}

#[test]
fn an_operation_that_fails_leaves_the_old_files() {
    let _installed = clock().install();
    for operation in [
        Operation::Create,
        Operation::Write,
        Operation::Sync,
        Operation::SyncDirectory,
        Operation::Rename,
        Operation::Read,
        Operation::Open,
        Operation::Metadata,
        Operation::Remove,
    ] {
        let mut has_failed = false;
        let step = if espalier_testing::runs_all() { 1 } else { 4 };
        let first = espalier_testing::first_seed() % step;
        // A compaction has operations of each kind, but perhaps few. Therefore the test always
        // includes the first one.
        let numbers = (first..24).step_by(step as usize).chain((first > 0).then_some(0));
        for nth in numbers {
            let file_system = FileSystem::simulated(nth);
            let disk = file_system.simulated_disk().unwrap().clone();
            let context = format!("{operation:?} {nth}");
            run(async {
                let database = open(&file_system, quiet()).await.unwrap();
                fill(&database).await;
                let narrow = table(&database, "narrow");
                let fault = Fault::nth(operation, nth, Effect::InputOutput).on_path("narrow");
                disk.inject(fault);
                has_failed |=
                    database.compactions().compact("ks", Some("narrow"), false).await.is_err();
                disk.clear_faults();
                let mut lines = show(&narrow, &read_all(&database, &narrow).await);
                lines.sort();
                assert_eq!(lines, expected(), "{context}");
                assert!(database.compactions().running().await.is_empty());
            });
            let crashed = FileSystem::on(disk.crash(nth));
            run(check(&crashed, &context));
        }
        assert!(has_failed || operation == Operation::Remove, "{operation:?} was never needed");
    }
}
