//! Tests compactions on demand: of files chosen by a range of tokens or by name, and requests to
//! stop them.

use std::path::PathBuf;

use espalier_runtime::{file::FileSystem, spawn_local, yield_now};
use espalier_storage::{CompactionKind, Node, StorageConfiguration, StorageError, TokenRange};

use crate::support::{shards::on_shards, *};

/// Returns a configuration without automatic compactions.
fn by_hand() -> StorageConfiguration {
    StorageConfiguration { autocompaction: false, ..configuration() }
}

/// Writes three files for each round, each with the partitions of a third of the ring.
async fn fill(database: &Node, rounds: i64) {
    let narrow = table(database, "narrow");
    let mut names: Vec<String> = (0..90).map(|number| format!("p{number:02}")).collect();
    names.sort_by_key(|name| key(name).token.0);
    for round in 0..rounds {
        for third in names.chunks(30) {
            for name in third {
                let mutation = insert(&narrow, name, None, round, &[("v", "1")]);
                database.apply(mutation).await.unwrap();
            }
            database.flush("ks", None).await.unwrap();
        }
    }
}

/// Returns the greatest token of the first third of the ring that [`fill`] writes.
fn end_of_first_third() -> i64 {
    let mut tokens: Vec<i64> = (0..90).map(|number| key(format!("p{number:02}")).token.0).collect();
    tokens.sort_unstable();
    tokens[29]
}

#[test]
fn the_files_of_a_range_are_compacted_and_no_others() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, by_hand()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        fill(&database, 4).await;
        let narrow = table(&database, "narrow");
        let before = show(&narrow, &read_all(&database, &narrow).await);
        assert_eq!(sstable_names(&file_system, &narrow).await.len(), 12);
        let through = end_of_first_third();
        let first = TokenRange { after: i64::MIN, through };
        database.compactions().compact_range("ks", Some("narrow"), first, true).await.unwrap();
        assert_eq!(sstable_names(&file_system, &narrow).await.len(), 9);
        // The range wraps around the end of the ring and has only the first third, whose files are
        // one file by now.
        let tokens = end_of_first_third();
        let others = TokenRange { after: i64::MAX - 1, through: tokens };
        database.compactions().compact_range("ks", None, others, true).await.unwrap();
        assert_eq!(sstable_names(&file_system, &narrow).await.len(), 9);
        let rest = TokenRange { after: tokens, through: i64::MAX };
        database.compactions().compact_range("ks", None, rest, true).await.unwrap();
        assert_eq!(sstable_names(&file_system, &narrow).await.len(), 2);
        assert_eq!(show(&narrow, &read_all(&database, &narrow).await), before);
        let unknown = database.compactions().compact_range("ks", Some("x"), rest, true).await;
        assert!(matches!(unknown, Err(StorageError::UnknownTableName { .. })));
    });
}

#[test]
fn files_that_shards_share_are_split_before_a_range_of_them_is_compacted() {
    let file_system = FileSystem::simulated(2);
    run(async {
        let database = open(&file_system, by_hand()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        fill(&database, 3).await;
        database.compactions().compact("ks", None, true).await.unwrap();
    });
    let disk = file_system.clone();
    on_shards(2, &file_system, by_hand(), move |database| {
        let disk = disk.clone();
        async move {
            let narrow = table(&database, "narrow");
            let before = show(&narrow, &read_all(&database, &narrow).await);
            let range = TokenRange { after: i64::MIN, through: i64::MIN + 1 };
            let full = disk.simulated_disk().unwrap();
            let used = u64::MAX - disk.available_bytes("node").await.unwrap();
            full.set_capacity(used + (64 << 20));
            let refused = database.compactions().compact_range("ks", None, range, true).await;
            assert!(matches!(refused, Err(StorageError::NoDiskSpace { .. })), "{refused:?}");
            full.set_capacity(u64::MAX);
            database.compactions().compact_range("ks", None, range, true).await.unwrap();
            assert_eq!(sstable_names(&disk, &narrow).await.len(), 2);
            assert_eq!(show(&narrow, &read_all(&database, &narrow).await), before);
        }
    })
    .unwrap();
}

#[test]
fn files_are_compacted_by_name() {
    let file_system = FileSystem::simulated(3);
    run(async {
        let database = open(&file_system, by_hand()).await.unwrap();
        create(&database, vec![narrow_table(), wide_table()]).await;
        fill(&database, 2).await;
        let (narrow, wide) = (table(&database, "narrow"), table(&database, "wide"));
        let row = insert(&wide, "p", Some(1), 1, &[("v", "1")]);
        database.apply(row).await.unwrap();
        database.flush("ks", None).await.unwrap();
        let before = show(&narrow, &read_all(&database, &narrow).await);
        let mut names = sstable_names(&file_system, &narrow).await;
        names.sort();
        let (first, second) = (format!("{}-Data.db", names[0]), format!("{}-Data.db", names[1]));
        let file = |name: &str| PathBuf::from(name);

        let refused =
            database.compactions().compact_data_files(vec![file("da-99-bti-Data.db")]).await;
        assert!(matches!(refused, Err(StorageError::UnknownSSTable(_))), "{refused:?}");
        // Both tables have a first file.
        let refused =
            database.compactions().compact_data_files(vec![file(&second), file(&first)]).await;
        assert!(matches!(refused, Err(StorageError::AmbiguousSSTable(_))), "{refused:?}");
        assert_eq!(sstable_names(&file_system, &narrow).await, names);

        let with_directory = file(&narrow.directory_name()).join(&first);
        database
            .compactions()
            .compact_data_files(vec![file(&second), with_directory])
            .await
            .unwrap();
        let left = sstable_names(&file_system, &narrow).await;
        assert_eq!(left.len(), names.len() - 1);
        assert!(!left.contains(&names[0]) && !left.contains(&names[1]));
        assert_eq!(sstable_names(&file_system, &wide).await.len(), 1);
        assert_eq!(show(&narrow, &read_all(&database, &narrow).await), before);
    });
}

/// A caller that asks for a compaction gets an error when another request stops it.
#[test]
fn a_compaction_that_is_stopped_fails() {
    let file_system = FileSystem::simulated(4);
    run(async {
        let database = open(&file_system, by_hand()).await.unwrap();
        create(&database, vec![wide_table()]).await;
        fill_a_partition(&database, 2).await;
        let wide = table(&database, "wide");
        let names = sstable_names(&file_system, &wide).await;
        for is_upgrade in [false, true] {
            let other = database.clone();
            let asked = spawn_local(async move {
                if !is_upgrade {
                    other.compactions().compact("ks", None, true).await
                } else {
                    other.compactions().upgrade_sstables("ks", None, false).await
                }
            });
            while database.compactions().running().await.is_empty() {
                yield_now().await;
            }
            let (kind, others): (&'static [_], &'static [_]) = if !is_upgrade {
                (&[CompactionKind::Major], &[CompactionKind::Upgrade, CompactionKind::Scrub])
            } else {
                (&[CompactionKind::Upgrade], &[CompactionKind::Compaction, CompactionKind::Major])
            };
            // Stop requests for other kinds have no effect.
            database.compactions().stop(others).await;
            database.compactions().stop_of("ks", &["wide"], others).await.unwrap();
            let running = database.compactions().running().await;
            assert_eq!(running.iter().map(|one| one.kind).collect::<Vec<_>>(), kind);
            database.compactions().stop(kind).await;
            let ended = asked.await;
            assert!(matches!(ended, Err(StorageError::CompactionStopped(_))), "{ended:?}");
            assert_eq!(sstable_names(&file_system, &wide).await, names);
        }
        database.compactions().upgrade_sstables("ks", None, false).await.unwrap();
        database.compactions().compact("ks", None, true).await.unwrap();
        assert_eq!(sstable_names(&file_system, &wide).await.len(), 1);

        // One compaction waits for a file that another one has. A stop request ends both.
        for is_of_all in [false, true] {
            let names = sstable_names(&file_system, &wide).await;
            let asked = [(); 2].map(|()| {
                let other = database.clone();
                spawn_local(
                    async move { other.compactions().upgrade_sstables("ks", None, false).await },
                )
            });
            while database.compactions().running().await.is_empty() {
                yield_now().await;
            }
            // The second compaction begins to wait.
            for _ in 0..10 {
                yield_now().await;
            }
            if !is_of_all {
                database.compactions().stop_of("ks", &["wide"], &CompactionKind::ALL).await.unwrap()
            } else {
                database.compactions().stop(&CompactionKind::ALL).await
            }
            for asked in asked {
                let ended = asked.await;
                assert!(matches!(ended, Err(StorageError::CompactionStopped(_))), "{ended:?}");
            }
            assert_eq!(sstable_names(&file_system, &wide).await, names);
        }
    });
}

/// Writes files of one partition, so large that a compaction yields often before it ends.
async fn fill_a_partition(database: &Node, files: i32) {
    let wide = table(database, "wide");
    for file in 0..files {
        for clustering in 0..4000 {
            // In the output, the timestamps of later files take more bytes.
            let timestamp = 1 + i64::from(file) * (1 << 50) + i64::from(clustering);
            let place = Some(clustering * files + file);
            let row = insert(&wide, "p", place, timestamp, &[("v", "text")]);
            database.apply(row).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
    }
}

/// The progress of a compaction advances within a partition, too.
#[test]
fn a_large_partition_is_seen_to_be_compacted() {
    let file_system = FileSystem::simulated(5);
    run(async {
        let database = open(&file_system, by_hand()).await.unwrap();
        create(&database, vec![wide_table()]).await;
        fill_a_partition(&database, 2).await;
        let other = database.clone();
        let asked = spawn_local(async move { other.compactions().compact("ks", None, true).await });
        let mut seen = vec![0];
        while !asked.is_finished() {
            for running in database.compactions().running().await {
                assert!(running.completed_bytes <= running.total_bytes);
                let last = *seen.last().unwrap();
                assert!(running.completed_bytes >= last, "{seen:?}");
                if running.completed_bytes > last {
                    seen.push(running.completed_bytes);
                }
            }
            yield_now().await;
        }
        asked.await.unwrap();
        assert!(seen.len() > 4, "{seen:?}");
    });
}
