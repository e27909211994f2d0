//! Tests imports. SSTables from elsewhere become part of a table on every shard, and only if they
//! fit. An import is done as a whole or not at all; if power fails, this holds for each SSTable.

use std::path::PathBuf;

use espalier_mutation::{
    DeletionTime, Mutation, PartitionUpdate,
    schema::{Schema, TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    random::{Generator, timeuuid_now},
    spawn_local, yield_now,
};
use espalier_storage::{Imported, Node, SnapshotTable, StorageConfiguration, StorageError};
use espalier_types::CqlType;

use crate::support::{shards::on_shards, *};

/// Makes a backup: the files of the table `narrow` of another node, with `count` partitions `k0`,
/// `k1` and so on. Returns the directory.
fn backup(file_system: &FileSystem, version: &str, count: u32) -> PathBuf {
    let mut other = StorageConfiguration::new("other");
    other.sstables.format = version.into();
    run(async {
        let database = open(file_system, other).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        for number in 0..count {
            let mutation = insert(&narrow, &format!("k{number}"), None, 1, &[("v", "imported")]);
            database.apply(mutation).await.unwrap();
            if number == count / 2 {
                database.flush("ks", None).await.unwrap();
            }
        }
        database.flush("ks", None).await.unwrap();
        let keyspace = file_system.read_dir("other/data/ks").await.unwrap();
        keyspace[0].path.clone()
    })
}

/// Imports the directory of a node that stopped after a compaction, before the inputs were removed.
/// The purged rows do not come back.
#[test]
fn files_that_a_compaction_has_replaced_are_not_imported() {
    let file_system = FileSystem::simulated(5);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let other =
            StorageConfiguration { autocompaction: false, ..StorageConfiguration::new("other") };
        let database = open(&file_system, other).await.unwrap();
        let mut definition = narrow_table();
        definition.options.gc_grace_seconds = 0;
        create(&database, vec![definition]).await;
        let narrow = table(&database, "narrow");
        write_narrow(&database, &["dead", "kept"]).await;
        database.flush("ks", None).await.unwrap();
        let mut update = PartitionUpdate::new(narrow.id, key("dead"));
        update.deletion = DeletionTime::new(2, NOW - 10);
        database.apply(Mutation { updates: vec![update] }).await.unwrap();
        database.flush("ks", None).await.unwrap();
        // The output gets its TOC.txt, and the inputs keep theirs.
        let fault = Fault { skip: 1, ..Fault::always(Operation::Rename, Effect::InputOutput) };
        disk.inject(fault.on_path("TOC"));
        let _ = database.compactions().compact("ks", None, true).await;
        disk.clear_faults();
        let directory = file_system.read_dir("other/data/ks").await.unwrap()[0].path.clone();
        let files = file_system.read_dir(&directory).await.unwrap();
        let count = |part: &str| files.iter().filter(|file| file.name.contains(part)).count();
        assert_eq!((count("-TOC.txt"), count("_txn_")), (3, 1), "{files:?}");

        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let imported = database.import("ks", "narrow", Some(directory)).await.unwrap();
        assert_eq!((imported.sstables, imported.partitions), (1, 1));
        assert_eq!(names(&database).await, ["kept"]);
    });
}

/// Files that are imported while the table is altered are read as files of the new table. Otherwise
/// a compaction would fail.
#[test]
fn a_table_is_altered_while_files_come_in() {
    for steps in espalier_testing::sample(0..80) {
        let file_system = FileSystem::simulated(steps);
        let backup = backup(&file_system, "da", 4);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![narrow_table()]).await;
            let other = database.clone();
            let import =
                spawn_local(async move { other.import("ks", "narrow", Some(backup)).await });
            for _ in 0..steps {
                yield_now().await;
            }
            let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
                let table = schema.table("ks", "narrow").unwrap();
                let table = table.rebuild().drop_column("v", 20_000_000).build();
                Ok(Some(with_tables(schema, vec![table])))
            };
            assert!(database.change_schema(change).await.unwrap().unwrap());
            import.await.unwrap();
            database.compactions().compact("ks", Some("narrow"), true).await.unwrap();
            assert_eq!(names(&database).await, expected(4), "{steps}");
        });
    }
}

async fn names(database: &Node) -> Vec<String> {
    let narrow = table(database, "narrow");
    let partitions = read_all(database, &narrow).await.partitions;
    let name = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let mut names: Vec<String> = partitions.iter().map(|p| name(&p.key.key)).collect();
    names.sort();
    names
}

fn expected(count: u32) -> Vec<String> {
    let mut names: Vec<String> = (0..count).map(|number| format!("k{number}")).collect();
    names.sort();
    names
}

#[test]
fn every_shard_has_its_part_and_keeps_it_over_a_restart() {
    for (seed, version) in ["da", "me", "nb"].into_iter().enumerate() {
        let file_system = FileSystem::simulated(seed as u64);
        let backup = backup(&file_system, version, 40);
        on_shards(3, &file_system, configuration(), move |database| {
            let backup = backup.clone();
            async move {
                create(&database, vec![narrow_table()]).await;
                let imported = database.import("ks", "narrow", Some(backup)).await.unwrap();
                assert_eq!((imported.sstables, imported.partitions), (2, 40));
                assert_eq!(names(&database).await, expected(40));
            }
        })
        .unwrap();
        on_shards(2, &file_system, configuration(), |database| async move {
            assert_eq!(names(&database).await, expected(40));
        })
        .unwrap();
    }
}

/// Makes a table with a new id, as CREATE TABLE does, so that no earlier table had its id.
fn new_table() -> TableMetadata {
    let mut table = narrow_table();
    table.id = TableId(timeuuid_now());
    table
}

#[test]
fn a_table_has_a_directory_from_its_creation_until_its_drop() {
    let file_system = FileSystem::simulated(6);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![new_table()]).await;
        let narrow = table(&database, "narrow");
        assert_eq!(file_system.read_dir(table_directory(&narrow)).await.unwrap(), []);
        let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
            Ok(Some(without_table(schema, "narrow")))
        };
        assert!(database.change_schema(change).await.unwrap().unwrap());
        assert!(!file_system.exists(table_directory(&narrow)).await.unwrap());
        assert_eq!(database.orphans().list().await.unwrap(), []);
    });
}

#[test]
fn a_table_is_made_whether_its_directory_can_be_or_not() {
    let file_system = FileSystem::simulated(6);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let fault = Fault::always(Operation::CreateDirectory, Effect::NoSpace);
        disk.inject(fault.on_path("narrow"));
        create(&database, vec![new_table()]).await;
        let narrow = table(&database, "narrow");
        assert!(!file_system.exists(table_directory(&narrow)).await.unwrap());
        disk.clear_faults();
        write_narrow(&database, &["later"]).await;
        database.flush("ks", None).await.unwrap();
        assert!(file_system.exists(table_directory(&narrow)).await.unwrap());
    });
}

#[test]
fn an_import_moves_files_from_the_upload_directory() {
    let file_system = FileSystem::simulated(7);
    let backup = backup(&file_system, "da", 9);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let directory = PathBuf::from("node/data/ks").join(narrow.directory_name());
        let upload = directory.join("upload");
        file_system.create_dir_all(&upload).await.unwrap();
        let nothing = database.import("ks", "narrow", None).await.unwrap_err();
        assert!(matches!(nothing, StorageError::NothingToImport(_)), "{nothing}");
        let files = file_system.read_dir(&backup).await.unwrap();
        for file in files.iter().filter(|file| file.name.starts_with("da-")) {
            file_system.rename(&file.path, upload.join(&file.name)).await.unwrap();
        }
        let imported: Imported = database.import("ks", "narrow", None).await.unwrap();
        assert_eq!(imported.sstables, 2);
        assert_eq!(names(&database).await, expected(9));
        let left = file_system.read_dir(&upload).await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn a_failed_import_changes_nothing() {
    let file_system = FileSystem::simulated(8);
    let backup = backup(&file_system, "da", 9);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table(), wide_table()]).await;
        let import = |table: &'static str| {
            let (database, backup) = (database.clone(), backup.clone());
            async move { database.import("ks", table, Some(backup)).await.unwrap_err().to_string() }
        };
        let other = import("wide").await;
        assert!(other.contains("clustering columns") && !other.contains("corrupt"), "{other}");
        assert!(other.contains("Statistics.db is of another table: "), "{other}");
        let missing = database.import("ks", "narrow", Some("no/such".into())).await.unwrap_err();
        assert!(matches!(missing, StorageError::NotImportable(_)), "{missing}");
        assert_eq!(missing.to_string(), "nothing was imported: there is no directory no/such");
        assert!(import("nothing").await.contains("there is no table ks.nothing"));

        let files = file_system.read_dir(&backup).await.unwrap();
        let data = files.iter().rfind(|file| file.name.ends_with("-Data.db")).unwrap();
        let file = file_system.open_write(&data.path).await.unwrap();
        file.write_at(20, b"damage".to_vec()).await.unwrap();
        let damaged = import("narrow").await;
        assert!(damaged.contains("nothing was imported: "), "{damaged}");
        assert!(names(&database).await.is_empty());
    });
}

#[test]
fn each_sstable_is_imported_whole_or_not_at_all_wherever_the_power_goes() {
    let (mut none, mut all) = (0, 0);
    let mut operations = 0;
    for seed in 0..=espalier_testing::cases(23) {
        let file_system = FileSystem::simulated(seed);
        let backup = backup(&file_system, "da", 8);
        let disk = file_system.simulated_disk().unwrap().clone();
        let is_imported = run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![narrow_table()]).await;
            let before = disk.operations();
            // The first seed measures the number of operations.
            if seed > 0 {
                let mut random = Generator::from_seed(espalier_testing::first_seed() + seed);
                disk.power_off_after(random.below(operations + 20));
            }
            let is_imported = database.import("ks", "narrow", Some(backup)).await.is_ok();
            if seed == 0 {
                operations = disk.operations() - before;
            }
            is_imported
        });
        let file_system = FileSystem::on(disk.crash(seed));
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            let found = names(&database).await;
            // The first of the two files has k0 to k4.
            let is_whole = [0, 3, 5, 8].contains(&found.len());
            assert!(is_whole, "seed {seed}: {found:?}");
            assert!(!is_imported || found.len() == 8, "seed {seed}: {found:?}");
            none += u32::from(found.is_empty());
            all += u32::from(found.len() == 8);
        });
    }
    assert!(!espalier_testing::runs_all() || none > 2 && all > 2, "{none} {all}");
}

/// The files record the intervals of this node's log whose mutations they have. This record is
/// valid only for their own table: unflushed writes of another table lie within these intervals,
/// and are not in the files.
#[test]
fn unflushed_writes_survive_an_import_from_another_table() {
    for shards in [1, 3] {
        for is_compacted in [false, true] {
            let file_system = FileSystem::simulated(shards as u64);
            let disk = file_system.simulated_disk().unwrap().clone();
            on_shards(shards, &file_system, configuration(), move |database| async move {
                let other = TableBuilder::new("ks", "other", TableId(uuid::Uuid::from_u128(0xb1)))
                    .partition_key("k", CqlType::Blob)
                    .regular("v", CqlType::Blob)
                    .build();
                create(&database, vec![narrow_table(), other]).await;
                let other = table(&database, "other");
                for number in 0..40 {
                    // Writes of both tables alternate, so that the log intervals of each table
                    // contain writes of the other.
                    let written = insert(&other, &format!("k{number}"), None, 1, &[("v", "x")]);
                    database.apply(written).await.unwrap();
                    write_narrow(&database, &[&format!("own{number}")]).await;
                }
                for number in 40..60 {
                    let written = insert(&other, &format!("k{number}"), None, 1, &[("v", "x")]);
                    database.apply(written).await.unwrap();
                }
                let kept = SnapshotTable { id: other.id, describe: |_, _| String::new() };
                database.snapshots().take("kept".into(), vec![kept], true).await.unwrap();
                let from = table_directory(&other).join("snapshots/kept");
                let imported = database.import("ks", "narrow", Some(from)).await.unwrap();
                assert_eq!(imported.sstables, shards as u64);
                if is_compacted {
                    database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
                }
                write_narrow(&database, &["later"]).await;
            })
            .unwrap();
            let file_system = FileSystem::on(disk.crash(1));
            let found = on_shards(shards, &file_system, configuration(), |database| async move {
                names_in_narrow(&database).await
            });
            let mut expected: Vec<String> = (0..60).map(|number| format!("k{number}")).collect();
            expected.extend((0..40).map(|number| format!("own{number}")));
            expected.push("later".into());
            expected.sort();
            assert_eq!(found.unwrap(), expected, "{shards} shards, compacted: {is_compacted}");
        }
    }
}

#[test]
fn files_that_one_shard_cannot_open_are_on_none() {
    // Each shard opens some files of both SSTables.
    for nth in [0, 3, 6, 9, 12, 15] {
        let file_system = FileSystem::simulated(nth);
        let backup = backup(&file_system, "da", 40);
        let (files, disk) = (file_system.clone(), file_system.simulated_disk().unwrap().clone());
        on_shards(3, &file_system, configuration(), move |database| {
            let (backup, files, disk) = (backup.clone(), files.clone(), disk.clone());
            async move {
                create(&database, vec![narrow_table()]).await;
                write_narrow(&database, &["own"]).await;
                database.flush("ks", None).await.unwrap();
                let before = file_names(&files, &narrow_table()).await;
                let fault = Fault::nth(Operation::Open, nth, Effect::InputOutput);
                disk.inject(fault.on_path("node/data/ks/narrow"));
                let refused = database.import("ks", "narrow", Some(backup.clone())).await;
                disk.clear_faults();
                assert!(refused.is_err(), "{nth}: {refused:?}");
                assert_eq!(names(&database).await, ["own"], "{nth}");
                assert_eq!(file_names(&files, &narrow_table()).await, before, "{nth}");
                // Compactions are not held up afterwards.
                database.compactions().compact("ks", Some("narrow"), true).await.unwrap();
                database.import("ks", "narrow", Some(backup)).await.unwrap();
                let mut all = expected(40);
                all.push("own".into());
                assert_eq!(names(&database).await, all, "{nth}");
            }
        })
        .unwrap();
    }
}

/// An import must not let a compaction remove a file that another shard has not opened yet.
#[test]
fn compactions_go_on_while_files_come_in() {
    for seed in espalier_testing::seeds(12) {
        let file_system = FileSystem::simulated(seed);
        let backup = backup(&file_system, "da", 40);
        on_shards(3, &file_system, configuration(), move |database| {
            let backup = backup.clone();
            async move {
                create(&database, vec![narrow_table()]).await;
                let is_done = std::rc::Rc::new(std::cell::Cell::new(false));
                let (other, until) = (database.clone(), is_done.clone());
                let compacting = spawn_local(async move {
                    while !until.get() {
                        // An import stops the compaction for a moment.
                        done_or_stopped(
                            other.compactions().compact("ks", Some("narrow"), true).await,
                        );
                        yield_now().await;
                    }
                });
                for round in 0..4 {
                    write_narrow(&database, &[&format!("own{round}")]).await;
                    let imported = database.import("ks", "narrow", Some(backup.clone())).await;
                    assert_eq!(imported.unwrap().partitions, 40, "{seed} {round}");
                    let found = names(&database).await;
                    assert_eq!(found.len(), 40 + round + 1, "{seed} {round}: {found:?}");
                }
                is_done.set(true);
                compacting.await;
            }
        })
        .unwrap();
    }
}

/// Copies without enough room are not started, because flushes and the log need the rest of the
/// disk.
#[test]
fn an_import_without_disk_space_copies_nothing() {
    let file_system = FileSystem::simulated(7);
    let backup = backup(&file_system, "da", 40);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let used = u64::MAX - file_system.available_bytes("other").await.unwrap();
        disk.set_capacity(used + (64 << 20) + 1000);
        let import = || database.import("ks", "narrow", Some(backup.clone()));
        let error = import().await.unwrap_err().to_string();
        assert!(error.contains("the disk has room for"), "{error}");
        assert!(sstable_names(&file_system, &narrow_table()).await.is_empty());
        disk.set_capacity(u64::MAX);
        assert_eq!(import().await.unwrap().sstables, 2);
    });
}

/// An import of large files may take hours, so it does not block schema changes while it copies.
#[test]
fn the_schema_changes_while_an_import_copies_files() {
    let file_system = FileSystem::simulated(8);
    let backup = backup(&file_system, "da", 40);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let start = || {
            let (database, backup) = (database.clone(), backup.clone());
            spawn_local(async move { database.import("ks", "narrow", Some(backup)).await })
        };
        let directory = table_directory(&table(&database, "narrow"));
        let is_copying = || {
            let files = file_system.clone();
            let directory = directory.clone();
            async move {
                let is_unsealed = |name: &str| name.ends_with("TemporaryTOC.txt");
                let listed = || files.read_dir(&directory);
                while !listed().await.unwrap().iter().any(|entry| is_unsealed(&entry.name)) {
                    yield_now().await;
                }
            }
        };
        let import = start();
        is_copying().await;
        create(&database, vec![wide_table()]).await;
        assert!(!import.is_finished());
        assert_eq!(import.await.unwrap().sstables, 2);
        assert_eq!(names(&database).await.len(), 40);

        let import = start();
        is_copying().await;
        database.truncate(table(&database, "narrow").id).await.unwrap();
        let error = import.await.unwrap_err().to_string();
        assert!(error.contains("was truncated meanwhile"), "{error}");
        assert_eq!(names(&database).await, [""; 0]);
        assert!(sstable_names(&file_system, &narrow_table()).await.is_empty());

        let import = start();
        is_copying().await;
        let change = |schema: &Schema| Ok::<_, ()>(Some(without_table(schema, "narrow")));
        database.change_schema(change).await.unwrap().unwrap();
        assert!(import.await.is_err());
        assert_eq!(database.orphans().list().await.unwrap(), []);
    });
}
