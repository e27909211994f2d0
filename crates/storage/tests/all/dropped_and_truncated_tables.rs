//! Truncated or dropped data never comes back, wherever power fails; later writes stay.

use std::{cell::Cell, rc::Rc, time::Duration};

use espalier_mutation::schema::Schema;
use espalier_runtime::{
    block_on,
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    random::Generator,
    spawn_local, yield_now,
};
use espalier_storage::{Node, StorageError};

use crate::support::{shards::on_shards, *};

/// Opens a node with a table that has one write in a file and one in memory.
async fn prepared(file_system: &FileSystem) -> Node {
    let database = open(file_system, configuration()).await.unwrap();
    create(&database, vec![narrow_table()]).await;
    write_narrow(&database, &["file"]).await;
    database.flush("ks", None).await.unwrap();
    write_narrow(&database, &["memory"]).await;
    database
}

#[test]
fn a_truncation_that_cannot_begin_in_time_removes_nothing() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let database = prepared(&file_system).await;
        let narrow = table(&database, "narrow");
        let rows = read_all(&database, &narrow).await.partitions.len();
        assert_eq!(rows, 2);
        // The creation of a table holds the right to change the schema meanwhile.
        let creating = database.clone();
        let creation = spawn_local(async move { create(&creating, vec![wide_table()]).await });
        yield_now().await;
        let truncated = database.truncate_within(narrow.id, Duration::ZERO).await;
        assert!(matches!(truncated, Err(StorageError::TruncationTimedOut(_))), "{truncated:?}");
        creation.await;
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), rows);
        database.truncate(narrow.id).await.unwrap();
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), 0);
    });
}

#[test]
fn truncation_holds_wherever_the_power_goes() {
    let (mut before, mut after) = (0, 0);
    for seed in espalier_testing::seeds(120) {
        let file_system = FileSystem::simulated(seed);
        let disk = file_system.simulated_disk().unwrap().clone();
        let mut random = Generator::from_seed(seed);
        let is_truncated = Rc::new(Cell::new(false));
        let is_written = Rc::new(Cell::new(false));
        block_on(async {
            let database = prepared(&file_system).await;
            let id = table(&database, "narrow").id;
            disk.power_off_after(random.below(40));
            is_truncated.set(database.truncate(id).await.is_ok());
            if is_truncated.get() {
                assert_eq!(names_in_narrow(&database).await, [""; 0]);
                let narrow = table(&database, "narrow");
                let later = insert(&narrow, "later", None, 1, &[("v", "1")]);
                is_written.set(database.apply(later).await.is_ok());
                if random.below(2) == 0 {
                    let _ = database.flush("ks", None).await;
                }
            }
        });
        let file_system = FileSystem::on(disk.crash(seed));
        for _ in 0..2 {
            block_on(async {
                let database = open(&file_system, configuration()).await.unwrap();
                let found = names_in_narrow(&database).await;
                if is_written.get() {
                    assert_eq!(found, ["later"], "seed {seed}");
                } else if is_truncated.get() {
                    let is_sent = found == ["later"];
                    assert!(found.is_empty() || is_sent, "seed {seed}: {found:?}");
                } else {
                    // The table is truncated or not, but never in part.
                    let is_whole = found == ["file", "memory"];
                    assert!(found.is_empty() || is_whole, "seed {seed}: {found:?}");
                    if is_whole { before += 1 } else { after += 1 }
                }
                if found == ["later"] {
                    database.flush("ks", None).await.unwrap();
                }
            });
        }
    }
    let are_met = before > 10 && after > 10;
    assert!(are_met || !espalier_testing::runs_all(), "{before} before, {after} after");
}

#[test]
fn a_truncation_that_fails_brings_everything_back() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = prepared(&file_system).await;
        let id = table(&database, "narrow").id;
        let disk = file_system.simulated_disk().unwrap();
        disk.inject(Fault::always(Operation::Rename, Effect::InputOutput).on_path("truncated"));
        assert!(database.truncate(id).await.is_err());
        assert_eq!(names_in_narrow(&database).await, ["file", "memory"]);
        disk.clear_faults();
        database.flush("ks", None).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["file", "memory"]);
        database.truncate(id).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, [""; 0]);
    });
}

#[test]
fn files_that_could_not_be_removed_do_not_come_back() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = prepared(&file_system).await;
        let id = table(&database, "narrow").id;
        let disk = file_system.simulated_disk().unwrap();
        for operation in [Operation::Rename, Operation::Remove] {
            disk.inject(Fault::always(operation, Effect::InputOutput).on_path("/da-"));
        }
        database.truncate(id).await.unwrap();
        disk.clear_faults();
        write_narrow(&database, &["later"]).await;
        database.flush("ks", None).await.unwrap();
    });
    for _ in 0..2 {
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            assert_eq!(names_in_narrow(&database).await, ["later"]);
        });
    }
}

/// A crash or an operator may have left such files.
#[test]
fn truncation_covers_files_that_the_node_has_not_opened() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = prepared(&file_system).await;
        let directory = table_directory(&narrow_table());
        let files = file_system.read_dir(&directory).await.unwrap();
        for file in files.iter().filter(|file| file.name.starts_with("da-1-bti-")) {
            let content = file_system.read(&file.path).await.unwrap();
            for id in ["99", "3h2k_0u2q_3fbok2hhqk0ny4rb6l"] {
                let name = file.name.replace("da-1-", &format!("da-{id}-"));
                file_system.write_atomically(directory.join(name), content.clone()).await.unwrap();
            }
        }
        assert_eq!(sstable_names(&file_system, &narrow_table()).await.len(), 3);
        database.truncate(table(&database, "narrow").id).await.unwrap();
        assert_eq!(sstable_names(&file_system, &narrow_table()).await, [""; 0]);
        write_narrow(&database, &["later"]).await;
        database.flush("ks", None).await.unwrap();
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["later"]);
    });
}

#[test]
fn a_table_made_again_under_its_old_id_begins_empty() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = prepared(&file_system).await;
        assert!(drop_narrow(&database).await);
        create(&database, vec![narrow_table()]).await;
        assert_eq!(names_in_narrow(&database).await, [""; 0]);
        write_narrow(&database, &["later"]).await;
    });
    let disk = file_system.simulated_disk().unwrap().clone();
    for seed in espalier_testing::seeds(8) {
        let file_system = FileSystem::on(disk.crash(seed));
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            assert_eq!(names_in_narrow(&database).await, ["later"]);
        });
    }
}

#[test]
fn a_table_made_again_under_its_old_id_after_a_restart_begins_empty() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = prepared(&file_system).await;
        assert!(drop_narrow(&database).await);
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        write_narrow(&database, &["later"]).await;
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["later"]);
    });
}

#[test]
fn a_truncation_whose_record_may_not_be_durable_is_never_half_done() {
    for seed in espalier_testing::seeds(8) {
        let file_system = FileSystem::simulated(1);
        let disk = file_system.simulated_disk().unwrap().clone();
        run(async {
            let database = prepared(&file_system).await;
            let id = table(&database, "narrow").id;
            let failure = Fault::nth(Operation::SyncDirectory, 0, Effect::InputOutput);
            disk.inject(failure.on_path("narrow-"));
            assert!(database.truncate(id).await.is_err());
            assert_eq!(names_in_narrow(&database).await, ["file", "memory"]);
            disk.clear_faults();
            // A write after the position in the record.
            write_narrow(&database, &["later"]).await;
            assert_eq!(names_in_narrow(&database).await, ["file", "later", "memory"]);
        });
        let file_system = FileSystem::on(disk.crash(seed));
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            assert_eq!(
                names_in_narrow(&database).await,
                ["file", "later", "memory"],
                "seed {seed}"
            );
        });
    }
}

#[test]
fn truncation_reaches_all_shards_and_outlives_their_number() {
    let file_system = FileSystem::simulated(1);
    on_shards(3, &file_system, configuration(), |database| async move {
        create(&database, vec![narrow_table()]).await;
        write_narrow(&database, &["a", "b", "c", "d", "e", "f", "g"]).await;
        database.flush("ks", None).await.unwrap();
        write_narrow(&database, &["h", "i", "j", "k", "l", "m", "n"]).await;
        database.truncate(table(&database, "narrow").id).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, [""; 0]);
        write_narrow(&database, &["x", "y", "z"]).await;
    })
    .unwrap();
    on_shards(2, &file_system, configuration(), |database| async move {
        assert_eq!(names_in_narrow(&database).await, ["x", "y", "z"]);
    })
    .unwrap();
}

#[test]
fn a_backup_may_be_put_back_after_a_truncation() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = prepared(&file_system).await;
        let directory = file_system.read_dir("node/data/ks").await.unwrap().remove(0).path;
        let mut backup = Vec::new();
        for file in file_system.read_dir(&directory).await.unwrap() {
            backup.push((file.path.clone(), file_system.read(&file.path).await.unwrap()));
        }
        database.truncate(table(&database, "narrow").id).await.unwrap();
        database.shutdown().await.unwrap();
        for (path, content) in backup {
            file_system.create(&path).await.unwrap().append(content).await.unwrap();
        }
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["file"]);
    });
}

async fn drop_narrow(database: &Node) -> bool {
    let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
        Ok(Some(without_table(schema, "narrow")))
    };
    database.change_schema(change).await.is_ok()
}

#[test]
fn dropped_tables_stay_dropped_wherever_the_power_goes() {
    let (mut before, mut after) = (0, 0);
    for seed in espalier_testing::seeds(120) {
        let file_system = FileSystem::simulated(seed);
        let disk = file_system.simulated_disk().unwrap().clone();
        let mut random = Generator::from_seed(seed);
        let is_dropped = block_on(async {
            let database = prepared(&file_system).await;
            disk.power_off_after(random.below(if seed % 2 == 0 { 4 } else { 40 }));
            drop_narrow(&database).await
        });
        let file_system = FileSystem::on(disk.crash(seed));
        let mut is_again = false;
        block_on(async {
            let database = open(&file_system, configuration()).await.unwrap();
            let exists = database.store().schema().table("ks", "narrow").is_some();
            assert!(!(is_dropped && exists), "seed {seed}");
            if exists {
                assert_eq!(names_in_narrow(&database).await, ["file", "memory"], "seed {seed}");
                before += 1;
                return;
            }
            after += 1;
            // A new table of the same name starts empty, also with the same id.
            let mut again = narrow_table();
            if seed % 3 == 0 {
                again.id = espalier_mutation::schema::TableId(uuid::Uuid::from_u128(0xffff));
            }
            create(&database, vec![again]).await;
            assert_eq!(names_in_narrow(&database).await, [""; 0], "seed {seed}");
            is_again = true;
        });
        if is_again {
            block_on(async {
                let database = open(&file_system, configuration()).await.unwrap();
                assert_eq!(names_in_narrow(&database).await, [""; 0], "seed {seed}");
            });
        }
    }
    let are_met = before > 10 && after > 10;
    assert!(are_met || !espalier_testing::runs_all(), "{before} before, {after} after");
}

#[test]
fn the_files_of_an_orphan_become_a_snapshot_of_a_table_with_its_id() {
    let file_system = FileSystem::simulated(1);
    let tag = run(async {
        let database = prepared(&file_system).await;
        let disk = file_system.simulated_disk().unwrap();
        // DROP TABLE can neither mark the directory nor remove its files.
        disk.inject(Fault::always(Operation::Rename, Effect::InputOutput).on_path("dropped"));
        disk.inject(Fault::always(Operation::Remove, Effect::InputOutput).on_path("/da-"));
        assert!(drop_narrow(&database).await);
        disk.clear_faults();
        assert_eq!(database.orphans().list().await.unwrap().len(), 1);
        create(&database, vec![narrow_table()]).await;
        assert_eq!(database.orphans().list().await.unwrap(), []);
        assert_eq!(names_in_narrow(&database).await, [""; 0]);
        write_narrow(&database, &["later"]).await;
        let mut snapshots = database.snapshots().list().await.unwrap();
        assert_eq!(snapshots.len(), 1);
        snapshots.remove(0).tag
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["later"]);
        database.snapshots().restore("ks", "narrow", &tag).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["file"]);
    });
}

#[test]
fn the_files_of_a_dropped_table_are_removed() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = prepared(&file_system).await;
        assert!(drop_narrow(&database).await);
        assert_eq!(file_system.read_dir("node/data/ks").await.unwrap(), []);
        // Reads with the old metadata get a clear error.
        let old = std::sync::Arc::new(narrow_table());
        let target = espalier_storage::ReadTarget::Partition(key("file"));
        let error = database.read(command(&old, target)).await.unwrap_err();
        assert!(error.to_string().starts_with("there is no table with id"), "{error}");
    });
}

#[test]
fn a_dropped_table_whose_files_cannot_be_removed_stops_no_start() {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap();
    run(async {
        let database = prepared(&file_system).await;
        let upload = table_directory(&narrow_table()).join("upload");
        file_system.create_dir_all(&upload).await.unwrap();
        file_system.write_atomically(upload.join("x"), vec![0; 5]).await.unwrap();
        let fault = Fault::always(Operation::RemoveDirectory, Effect::InputOutput);
        disk.inject(fault.on_path("upload"));
        assert!(drop_narrow(&database).await);
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert!(database.store().schema().table("ks", "narrow").is_none());
        assert_eq!(file_system.read_dir("node/data/ks").await.unwrap().len(), 1);
    });
    disk.clear_faults();
    run(async {
        let _database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(file_system.read_dir("node/data/ks").await.unwrap(), []);
    });
}

#[test]
fn only_a_table_of_the_schema_stops_a_start_by_a_damaged_directory() {
    let file_system = FileSystem::simulated(1);
    let own = table_directory(&narrow_table());
    run(async {
        let _database = prepared(&file_system).await;
        let strange = own.parent().unwrap().join(format!("strange-{}", "0a".repeat(16)));
        file_system.create_dir_all(&strange).await.unwrap();
        file_system.write_atomically(strange.join("truncated"), vec![b'x'; 10]).await.unwrap();
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["file", "memory"]);
        file_system.write_atomically(own.join("truncated"), vec![b'x'; 10]).await.unwrap();
    });
    run(async {
        let error = open(&file_system, configuration()).await.err().unwrap().to_string();
        assert!(error.contains("truncated"), "{error}");
    });
}

#[test]
fn the_snapshots_of_a_dropped_table_stay_until_they_are_cleared() {
    let file_system = FileSystem::simulated(1);
    let kept = async |database: &Node| {
        let found = database.snapshots().list().await.unwrap();
        assert!(found.iter().all(|details| details.table == "narrow" && details.total_bytes > 0));
        found.len()
    };
    run(async {
        let database = prepared(&file_system).await;
        let id = table(&database, "narrow").id;
        let wanted = espalier_storage::SnapshotTable { id, describe: |_, _| "schema".into() };
        database.snapshots().take("kept".into(), vec![wanted], true).await.unwrap();
        assert!(drop_narrow(&database).await);
        assert_eq!(kept(&database).await, 1);
        let directory = file_system.read_dir("node/data/ks").await.unwrap().remove(0).path;
        let left = file_system.read_dir(&directory).await.unwrap();
        assert!(left.iter().all(|entry| entry.is_directory || entry.name == "dropped"), "{left:?}");
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(kept(&database).await, 1);
        // A table that is created with the old id has the same directory.
        create(&database, vec![narrow_table()]).await;
        assert_eq!(names_in_narrow(&database).await, [""; 0]);
        write_narrow(&database, &["later"]).await;
        database.flush("ks", None).await.unwrap();
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["later"]);
        assert_eq!(kept(&database).await, 1);
        assert!(drop_narrow(&database).await);
        database.snapshots().clear(Some("another"), &[], &[]).await.unwrap_err();
        assert_eq!(kept(&database).await, 1);
        database.snapshots().clear(Some("kept"), &["ks"], &["narrow"]).await.unwrap();
        assert_eq!(kept(&database).await, 0);
        assert_eq!(file_system.read_dir("node/data/ks").await.unwrap(), []);
    });
}

#[test]
fn orphaned_directories_are_listed_and_removed_on_request() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = prepared(&file_system).await;
        let id = table(&database, "narrow").id;
        let wanted = espalier_storage::SnapshotTable { id, describe: |_, _| "schema".into() };
        database.snapshots().take("kept".into(), vec![wanted], true).await.unwrap();
        assert_eq!(database.orphans().list().await.unwrap(), []);
        // An operator puts back the files of a dropped table, and adds files of a table that never
        // existed.
        let own = table_directory(&narrow_table());
        let strange = own.parent().unwrap().join(format!("strange-{}", "0a".repeat(16)));
        file_system.create_dir_all(strange.join("upload")).await.unwrap();
        file_system.write_atomically(strange.join("da-1-bti-Data.db"), vec![0; 10]).await.unwrap();
        file_system.write_atomically(strange.join("upload/x"), vec![0; 5]).await.unwrap();
        assert!(drop_narrow(&database).await);
        file_system.write_atomically(own.join("da-1-bti-Data.db"), vec![0; 7]).await.unwrap();
        let found = database.orphans().list().await.unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|orphan| (orphan.table.as_str(), orphan.files, orphan.bytes, orphan.has_copies))
            .collect();
        assert_eq!(shown, [("narrow", 1, 7, true), ("strange", 2, 15, false)]);
        let refused = database.orphans().remove(strange.join("upload")).await.unwrap_err();
        assert!(refused.to_string().contains("is not among the directories"), "{refused}");
        database.orphans().remove(found[0].path.clone()).await.unwrap();
        assert_eq!(database.orphans().list().await.unwrap(), found[1..]);
        assert_eq!(database.snapshots().list().await.unwrap().len(), 1);
        database.orphans().remove(found[1].path.clone()).await.unwrap();
        assert!(!file_system.exists(&strange).await.unwrap());
        assert_eq!(database.orphans().list().await.unwrap(), []);
    });
}
