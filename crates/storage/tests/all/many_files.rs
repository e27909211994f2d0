//! Tests that an operation lists and syncs directories equally often, however many files there are.

use espalier_runtime::file::{FileSystem, Operation, simulated::SimulatedDisk};
use espalier_storage::{Node, SnapshotTable};

use crate::support::{shards::on_shards, *};

/// Opens a node with a table that has this number of SSTables and a write in memory.
async fn prepared(file_system: &FileSystem, sstables: usize) -> Node {
    let database = open(file_system, configuration()).await.unwrap();
    create(&database, vec![narrow_table()]).await;
    write_files(&database, sstables).await;
    write_narrow(&database, &["memory"]).await;
    database
}

async fn write_files(database: &Node, sstables: usize) {
    for number in 0..sstables {
        write_narrow(database, &[&format!("file {number}")]).await;
        database.flush("ks", None).await.unwrap();
    }
}

async fn take_snapshot(database: &Node) {
    let id = table(database, "narrow").id;
    let wanted = vec![SnapshotTable { id, describe: |_, _| "CREATE TABLE".into() }];
    database.snapshots().take("monday".into(), wanted, false).await.unwrap();
}

/// The operations that touch a whole directory.
const OF_DIRECTORIES: [Operation; 2] = [Operation::ReadDirectory, Operation::SyncDirectory];

fn of_directories(disk: &SimulatedDisk) -> [u64; 2] {
    OF_DIRECTORIES.map(|operation| disk.operations_of(operation))
}

/// Returns the listings and the syncs of directories by a call on a table with few SSTables, and on
/// one with many.
fn with_few_and_many(call: impl AsyncFn(&Node)) -> [[u64; 2]; 2] {
    [2, 30].map(|sstables| {
        let file_system = FileSystem::simulated(1);
        let disk = file_system.simulated_disk().unwrap();
        run(async {
            let database = prepared(&file_system, sstables).await;
            let before = of_directories(disk);
            call(&database).await;
            let after = of_directories(disk);
            [after[0] - before[0], after[1] - before[1]]
        })
    })
}

#[test]
fn a_flush_lists_no_directory() {
    let [few, many] = with_few_and_many(async |database| {
        database.flush("ks", None).await.unwrap();
    });
    assert_eq!((few[0], many), (0, few));
}

#[test]
fn a_compaction_lists_its_directory_twice() {
    let [few, many] = with_few_and_many(async |database| {
        database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
        assert_eq!(names_in_narrow(database).await.len() % 28, 3);
    });
    assert_eq!((few[0], many), (2, few));
}

#[test]
fn a_snapshot_lists_each_directory_a_few_times() {
    let [few, many] = with_few_and_many(async |database| take_snapshot(database).await);
    assert!(few[0] <= 4, "{few:?}");
    assert_eq!(many, few);
}

#[test]
fn a_truncation_lists_its_directory_a_few_times() {
    let [few, many] = with_few_and_many(async |database| {
        database.truncate(table(database, "narrow").id).await.unwrap();
        assert!(names_in_narrow(database).await.is_empty());
    });
    assert!(few[0] <= 3, "{few:?}");
    assert_eq!(many, few);
}

/// Each shard links the SSTables that it has open.
#[test]
fn a_snapshot_of_several_shards_lists_the_directory_once_for_each() {
    for sstables in [2, 12] {
        let file_system = FileSystem::simulated(1);
        let disk = file_system.simulated_disk().unwrap().clone();
        on_shards(3, &file_system, configuration(), move |database| {
            let disk = disk.clone();
            async move {
                create(&database, vec![narrow_table()]).await;
                write_files(&database, sstables).await;
                let before = disk.operations_of(Operation::ReadDirectory);
                take_snapshot(&database).await;
                let listed = disk.operations_of(Operation::ReadDirectory) - before;
                assert!(listed <= 3 + 3, "{listed}");
                database.snapshots().restore("ks", "narrow", "monday").await.unwrap();
                assert_eq!(names_in_narrow(&database).await.len(), sstables);
            }
        })
        .unwrap();
    }
}
