//! Snapshots are taken, listed and removed.

use std::{cell::Cell, rc::Rc};

use espalier_runtime::{
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    spawn_local, yield_now,
};
use espalier_storage::{Node, SnapshotTable, StorageError};

use crate::support::{shards::on_shards, *};

async fn take(database: &Node, tag: &str) -> Result<(), StorageError> {
    let names = ["narrow", "wide"].into_iter();
    let ids = names.filter_map(|name| Some(database.store().schema().table("ks", name)?.id));
    let wanted =
        ids.map(|id| SnapshotTable { id, describe: |_, _| "CREATE TABLE".into() }).collect();
    database.snapshots().take(tag.into(), wanted, true).await
}

async fn tags(database: &Node) -> Vec<String> {
    let found = database.snapshots().list().await.unwrap();
    found.into_iter().map(|details| details.tag).collect()
}

async fn filled(file_system: &FileSystem) -> Node {
    let database = open(file_system, configuration()).await.unwrap();
    create(&database, vec![narrow_table(), wide_table()]).await;
    write_narrow(&database, &["one", "two"]).await;
    let wide = table(&database, "wide");
    database.apply(insert(&wide, "p", Some(1), 1, &[("v", "x")])).await.unwrap();
    database
}

#[test]
fn a_stray_file_among_snapshots_is_not_a_snapshot() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = filled(&file_system).await;
        take(&database, "monday").await.unwrap();
        let stray = table_directory(&narrow_table()).join("snapshots/.DS_Store");
        file_system.write_atomically(&stray, vec![0; 3]).await.unwrap();
        assert_eq!(tags(&database).await, ["monday", "monday"]);
        let view = espalier_storage::system::table("system_views", "snapshots");
        assert_eq!(read_all(&database, &view).await.partitions.len(), 1);
        database.snapshots().clear(None, &[], &[]).await.unwrap();
        assert_eq!(tags(&database).await, [""; 0]);
        assert!(file_system.exists(&stray).await.unwrap());
    });
}

#[test]
fn snapshots_are_listed_while_they_are_taken_and_cleared() {
    for seed in espalier_testing::sample(0..10) {
        let file_system = FileSystem::simulated(seed);
        run(async {
            let database = filled(&file_system).await;
            let is_done = Rc::new(Cell::new(false));
            let (other, done) = (database.clone(), is_done.clone());
            let changing = spawn_local(async move {
                for _ in 0..20 {
                    take(&other, "monday").await.unwrap();
                    other.snapshots().clear(Some("monday"), &[], &[]).await.unwrap();
                }
                done.set(true);
            });
            while !is_done.get() {
                assert!(tags(&database).await.iter().all(|tag| tag == "monday"));
                for _ in 0..seed {
                    yield_now().await;
                }
            }
            changing.await;
        });
    }
}

#[test]
fn a_snapshot_that_fails_leaves_nothing_and_its_name_is_free() {
    for operation in [Operation::HardLink, Operation::Sync, Operation::SyncDirectory] {
        for nth in [0, 3, 9, 14] {
            let file_system = FileSystem::simulated(nth);
            let disk = file_system.simulated_disk().unwrap().clone();
            run(async {
                let database = filled(&file_system).await;
                database.flush("ks", None).await.unwrap();
                disk.inject(Fault::nth(operation, nth, Effect::NoSpace));
                let taken = take(&database, "monday").await;
                disk.clear_faults();
                if taken.is_err() {
                    assert_eq!(tags(&database).await, [""; 0], "{operation:?} {nth}");
                    take(&database, "monday").await.unwrap();
                }
                assert!(taken.is_err() || operation != Operation::HardLink, "{nth}");
                assert_eq!(tags(&database).await, ["monday", "monday"]);
            });
        }
    }
}

#[test]
fn an_incomplete_snapshot_directory_blocks_its_name() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = filled(&file_system).await;
        let left = table_directory(&narrow_table()).join("snapshots/monday");
        file_system.create_dir_all(&left).await.unwrap();
        let refused = take(&database, "monday").await.unwrap_err().to_string();
        assert!(refused.contains("without manifest.json"), "{refused}");
        database.snapshots().clear(Some("monday"), &["ks"], &[]).await.unwrap();
        take(&database, "monday").await.unwrap();
        let refused = take(&database, "monday").await.unwrap_err().to_string();
        assert!(refused.contains("already exists. "), "{refused}");
        assert!(refused.ends_with("nodetool clearsnapshot -t monday ks"), "{refused}");
    });
}

#[test]
fn only_the_named_snapshots_are_removed() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = filled(&file_system).await;
        take(&database, "monday").await.unwrap();
        take(&database, "tuesday").await.unwrap();
        let clear = async |tag, keyspaces: &[&str], tables: &[&str]| {
            let cleared = database.snapshots().clear(tag, keyspaces, tables).await;
            cleared.map_err(|error| error.to_string())
        };
        for (tag, keyspaces, tables, message) in [
            (Some("sunday"), &[][..], &[][..], "There is no snapshot sunday"),
            (Some("sunday"), &["ks"], &[], "There is no snapshot sunday of these"),
            (Some("monday"), &["system"], &[], "There is no snapshot monday of these"),
            (Some("monday"), &["ks", "no"], &[], "there is no keyspace no"),
            (None, &["ks"], &["narrow", "no"], "There is no table no in ks"),
            (None, &["system"], &["narrow"], "There is no table narrow in system"),
            (None, &[], &["no"], "There is no table no in any keyspace"),
        ] {
            let refused = clear(tag, keyspaces, tables).await.unwrap_err();
            assert!(refused.starts_with(message), "{refused}");
        }
        assert_eq!(tags(&database).await, ["monday", "tuesday", "monday", "tuesday"]);
        clear(Some("monday"), &["ks"], &["narrow"]).await.unwrap();
        assert_eq!(tags(&database).await, ["tuesday", "monday", "tuesday"]);
        clear(Some("tuesday"), &[], &["narrow", "wide"]).await.unwrap();
        assert_eq!(tags(&database).await, ["monday"]);
        clear(None, &["ks"], &[]).await.unwrap();
        clear(None, &[], &[]).await.unwrap();
        assert_eq!(tags(&database).await, [""; 0]);
    });
}

#[test]
fn a_snapshot_fails_if_a_file_was_removed() {
    for component in ["-TOC.txt", "-Data.db", ""] {
        let file_system = FileSystem::simulated(1);
        run(async {
            let database = filled(&file_system).await;
            database.flush("ks", None).await.unwrap();
            for entry in file_system.read_dir(table_directory(&narrow_table())).await.unwrap() {
                if entry.name.ends_with(component) {
                    file_system.remove_file(&entry.path).await.unwrap();
                }
            }
            let refused = take(&database, "monday").await.unwrap_err().to_string();
            assert!(refused.contains("is not there any more"), "{component}: {refused}");
            assert_eq!(tags(&database).await, [""; 0], "{component}");
        });
    }
}

/// The shard that splits a file removes it while other shards link it.
#[test]
fn files_are_split_while_a_snapshot_is_taken() {
    for seed in espalier_testing::sample(0..24) {
        let file_system = FileSystem::simulated(seed);
        on_shards(1, &file_system, configuration(), |database| async move {
            create(&database, vec![narrow_table()]).await;
            for round in 0..6 {
                let names: Vec<String> = (0..12).map(|at| format!("k{round}{at:02}")).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                write_narrow(&database, &names).await;
                database.flush("ks", None).await.unwrap();
            }
            database.shutdown().await.unwrap();
        })
        .unwrap();
        on_shards(3, &file_system, configuration(), move |database| async move {
            let all = names_in_narrow(&database).await;
            assert_eq!(all.len(), 72);
            let other = database.clone();
            let splitting = spawn_local(async move {
                other.compactions().compact("ks", Some("narrow"), false).await.unwrap();
            });
            for tag in 0..6 {
                for _ in 0..seed * 4 {
                    yield_now().await;
                }
                take(&database, &format!("s{tag}")).await.unwrap();
            }
            splitting.await;
            for tag in 0..6 {
                // A restore compares the files with the manifest.
                database.snapshots().restore("ks", "narrow", &format!("s{tag}")).await.unwrap();
                assert_eq!(names_in_narrow(&database).await, all, "{seed} {tag}");
            }
        })
        .unwrap();
    }
}

/// Writes a partition to `narrow` and returns the names of its SSTables after a flush.
async fn flushed(database: &Node, file_system: &FileSystem, name: &str) -> Vec<String> {
    write_narrow(database, &[name]).await;
    database.flush("ks", None).await.unwrap();
    sstable_names(file_system, &narrow_table()).await
}

/// Tools that keep copies of files tell them apart by name.
#[test]
fn no_sstable_gets_the_number_of_one_in_a_snapshot_or_before_a_truncation() {
    for has_snapshot in [true, false] {
        let file_system = FileSystem::simulated(1);
        let reopened = || async { open(&file_system, configuration()).await.unwrap() };
        run(async {
            let database = reopened().await;
            create(&database, vec![narrow_table()]).await;
            flushed(&database, &file_system, "one").await;
            assert_eq!(flushed(&database, &file_system, "two").await.len(), 2);
            if has_snapshot {
                take(&database, "monday").await.unwrap();
                // As after a compaction that has purged everything.
                for name in sstable_names(&file_system, &narrow_table()).await {
                    let set = table_directory(&narrow_table()).join(format!("{name}-Data.db"));
                    let (set, _) = espalier_sstable::Descriptor::parse(&set).unwrap();
                    let removed = espalier_sstable::components::remove_sstable(&file_system, &set);
                    removed.await.unwrap();
                }
            } else {
                database.truncate(table(&database, "narrow").id).await.unwrap();
            }
            database.shutdown().await.unwrap();
        });
        for _ in 0..2 {
            run(async {
                let database = reopened().await;
                let names = flushed(&database, &file_system, "new").await;
                for used in ["da-1-bti", "da-2-bti"] {
                    assert!(!names.iter().any(|name| name == used), "{names:?}");
                }
                database.shutdown().await.unwrap();
            });
        }
    }
}

/// A file in a snapshot has the name of another file that the table has.
#[test]
fn the_true_size_of_a_snapshot_counts_files_that_the_table_lacks() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let before = flushed(&database, &file_system, "one").await;
        take(&database, "monday").await.unwrap();
        database.truncate(table(&database, "narrow").id).await.unwrap();
        let after = flushed(&database, &file_system, "two").await;
        take(&database, "tuesday").await.unwrap();
        take(&database, "wednesday").await.unwrap();
        let monday = table_directory(&narrow_table()).join("snapshots/monday");
        for file in file_system.read_dir(&monday).await.unwrap() {
            let renamed = file.name.replace(&before[0], &after[0]);
            file_system.rename(&file.path, monday.join(renamed)).await.unwrap();
        }
        let mut small = 0;
        for details in database.snapshots().list().await.unwrap() {
            let directory = table_directory(&narrow_table()).join("snapshots").join(&details.tag);
            for name in ["manifest.json", "schema.cql"] {
                small += file_system.metadata(directory.join(name)).await.unwrap().length;
            }
            let own = if details.tag == "monday" { details.total_bytes } else { small };
            assert_eq!(details.true_bytes, own, "{details:?}");
            assert!(details.total_bytes > small, "{details:?}");
            small = 0;
        }
    });
}
