//! A restored table has exactly the content of its snapshot, and wherever power fails the snapshot
//! stays intact.

use std::{cell::Cell, rc::Rc};

use espalier_runtime::{block_on, file::FileSystem, random::Generator, spawn_local, yield_now};
use espalier_storage::{Node, SnapshotTable, StorageError};

use crate::support::{shards::on_shards, *};

async fn take(database: &Node, tag: &str) {
    let id = table(database, "narrow").id;
    let wanted = SnapshotTable { id, describe: |_, _| "CREATE TABLE".into() };
    database.snapshots().take(tag.into(), vec![wanted], true).await.unwrap();
}

/// Opens a node with a snapshot of `kept` and `moved`, and changes the table after the snapshot.
async fn prepared(file_system: &FileSystem) -> Node {
    let database = open(file_system, configuration()).await.unwrap();
    create(&database, vec![narrow_table()]).await;
    write_narrow(&database, &["kept"]).await;
    database.flush("ks", None).await.unwrap();
    write_narrow(&database, &["moved"]).await;
    take(&database, "monday").await;
    write_narrow(&database, &["file"]).await;
    database.flush("ks", None).await.unwrap();
    write_narrow(&database, &["memory"]).await;
    database
}

#[test]
fn a_restore_replaces_the_table_with_its_snapshot() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = prepared(&file_system).await;
        // After the compaction, the snapshot has files of its own.
        database.compactions().compact("ks", None, true).await.unwrap();
        for _ in 0..2 {
            write_narrow(&database, &["memory"]).await;
            let restored = database.snapshots().restore("ks", "narrow", "monday").await.unwrap();
            assert_eq!((restored.sstables, restored.partitions), (2, 2));
            assert_eq!(names_in_narrow(&database).await, ["kept", "moved"]);
        }
        database.compactions().compact("ks", None, true).await.unwrap();
        write_narrow(&database, &["later"]).await;
        database.shutdown().await.unwrap();
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["kept", "later", "moved"]);
        database.snapshots().restore("ks", "narrow", "monday").await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["kept", "moved"]);
        assert_eq!(
            database.snapshots().schema_of_verified("ks", "narrow", "monday").await.unwrap(),
            "CREATE TABLE"
        );
    });
}

#[test]
fn an_empty_snapshot_empties_the_table() {
    let file_system = FileSystem::simulated(2);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        take(&database, "empty").await;
        write_narrow(&database, &["later"]).await;
        let restored = database.snapshots().restore("ks", "narrow", "empty").await.unwrap();
        assert_eq!(restored.sstables, 0);
        assert_eq!(names_in_narrow(&database).await, [""; 0]);
    });
}

#[test]
fn nothing_changes_where_a_snapshot_is_not_there_or_not_whole() {
    let file_system = FileSystem::simulated(3);
    run(async {
        let database = prepared(&file_system).await;
        let all = ["file", "kept", "memory", "moved"];
        for tag in ["tuesday", "", "..", "a/b"] {
            let refused = database.snapshots().restore("ks", "narrow", tag).await;
            assert!(matches!(refused, Err(StorageError::Snapshot(_))), "{tag}: {refused:?}");
        }
        let refused = database.snapshots().restore("ks", "x", "monday").await;
        assert!(matches!(refused, Err(StorageError::UnknownTableName { .. })), "{refused:?}");
        let directory = table_directory(&narrow_table()).join("snapshots/monday");
        let mut removed = 0;
        for entry in file_system.read_dir(&directory).await.unwrap() {
            if entry.name.ends_with("-Rows.db") || entry.name.ends_with("-TOC.txt") {
                file_system.remove_file(&entry.path).await.unwrap();
                let refused =
                    database.snapshots().restore("ks", "narrow", "monday").await.unwrap_err();
                assert!(refused.to_string().contains("snapshots/monday"), "{refused}");
                let unverified =
                    database.snapshots().schema_of_verified("ks", "narrow", "monday").await;
                assert_eq!(unverified.unwrap_err().to_string(), refused.to_string());
                removed += 1;
            }
        }
        assert_eq!(removed, 4);
        for entry in file_system.read_dir(&directory).await.unwrap() {
            if !entry.name.ends_with("manifest.json") {
                file_system.remove_file(&entry.path).await.unwrap();
            }
        }
        let refused = database.snapshots().restore("ks", "narrow", "monday").await.unwrap_err();
        assert!(refused.to_string().contains("lists 2 SSTables, the directory has 0"), "{refused}");
        assert_eq!(names_in_narrow(&database).await, all);
    });
}

#[test]
fn a_restore_on_several_shards_returns_all_rows() {
    let file_system = FileSystem::simulated(4);
    on_shards(3, &file_system, configuration(), |database| async move {
        create(&database, vec![narrow_table()]).await;
        let many: Vec<String> = (0..60).map(|number| format!("k{number:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        write_narrow(&database, &many).await;
        take(&database, "monday").await;
        write_narrow(&database, &["later"]).await;
        database.snapshots().restore("ks", "narrow", "monday").await.unwrap();
        assert_eq!(names_in_narrow(&database).await, many);
    })
    .unwrap();
}

#[test]
fn a_restore_cut_by_power_loss_can_be_repeated() {
    let (mut befores, mut parts, mut afters) = (0, 0, 0);
    for seed in espalier_testing::seeds(160) {
        let file_system = FileSystem::simulated(seed);
        let disk = file_system.simulated_disk().unwrap().clone();
        let is_done = Rc::new(Cell::new(false));
        block_on(async {
            let database = prepared(&file_system).await;
            // The restore first reads and compares the files, which takes most of its operations,
            // and changes nothing before that.
            disk.power_off_after(120 + Generator::from_seed(seed).below(280));
            is_done.set(database.snapshots().restore("ks", "narrow", "monday").await.is_ok());
        });
        let file_system = FileSystem::on(disk.crash(seed));
        block_on(async {
            let database = open(&file_system, configuration()).await.unwrap();
            let found = names_in_narrow(&database).await;
            let is_restored = found == ["kept", "moved"];
            if is_done.get() {
                assert!(is_restored, "seed {seed}: {found:?}");
                afters += 1;
            } else if found == ["file", "kept", "memory", "moved"] {
                befores += 1;
            } else {
                let is_of_snapshot = |name: &String| name == "kept" || name == "moved";
                assert!(found.iter().all(is_of_snapshot), "seed {seed}: {found:?}");
                parts += 1;
            }
            database.snapshots().restore("ks", "narrow", "monday").await.unwrap();
            assert_eq!(names_in_narrow(&database).await, ["kept", "moved"], "seed {seed}");
        });
    }
    let are_met = befores > 10 && parts > 10 && afters > 10;
    assert!(are_met || !espalier_testing::runs_all(), "{befores} {parts} {afters}");
}

/// The snapshot is removed either before the restore, which then changes nothing, or after the
/// table has the files of the snapshot.
#[test]
fn a_snapshot_is_not_removed_while_it_is_restored() {
    let (mut befores, mut afters) = (0, 0);
    for steps in (0..240).step_by(6) {
        let file_system = FileSystem::simulated(steps);
        run(async {
            let database = prepared(&file_system).await;
            let (other, cleared) = (database.clone(), steps % 12 == 0);
            let clearing = spawn_local(async move {
                for _ in 0..if cleared { 0 } else { steps } {
                    yield_now().await;
                }
                other.snapshots().clear(Some("monday"), &["ks"], &["narrow"]).await.unwrap();
            });
            for _ in 0..if cleared { steps } else { 0 } {
                yield_now().await;
            }
            let restored = database.snapshots().restore("ks", "narrow", "monday").await;
            clearing.await;
            let found = names_in_narrow(&database).await;
            match restored {
                Ok(_) => {
                    assert_eq!(found, ["kept", "moved"], "{steps}");
                    afters += 1;
                }
                Err(error) => {
                    let is_reported = error.to_string().contains("There is no snapshot monday");
                    assert!(is_reported, "{steps}: {error}");
                    assert_eq!(found, ["file", "kept", "memory", "moved"], "{steps}");
                    befores += 1;
                }
            }
            assert_eq!(database.snapshots().list().await.unwrap(), []);
        });
    }
    assert!(befores > 2 && afters > 2, "{befores} {afters}");
}
