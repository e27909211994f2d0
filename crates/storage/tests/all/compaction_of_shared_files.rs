//! Files that several shards share are split before they are compacted, and each shard continues
//! with its own parts.

use std::time::Duration;

use espalier_runtime::{file::FileSystem, random::Generator, spawn_local, time};
use espalier_storage::CompactionKind;

use crate::support::{shards::on_shards, *};

#[test]
fn a_node_that_has_more_shards_than_before_splits_its_files() {
    let file_system = FileSystem::simulated(7);
    let first = on_shards(1, &file_system, configuration(), |database| async move {
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        for round in 0..3 {
            for number in 0..60 {
                let (name, value) = (format!("p{number:02}"), format!("{round}"));
                database
                    .apply(insert(&narrow, &name, None, round, &[("v", &value)]))
                    .await
                    .unwrap();
            }
            database.flush("ks", None).await.unwrap();
        }
        let lines = show(&narrow, &read_all(&database, &narrow).await);
        database.shutdown().await.unwrap();
        lines
    });
    let first = first.unwrap();
    assert_eq!(first.len(), 60);
    let disk = file_system.clone();
    let (before, after, names) = on_shards(3, &file_system, configuration(), move |database| {
        let disk = disk.clone();
        async move {
            let narrow = table(&database, "narrow");
            let pending: usize =
                database.compactions().pending().await.iter().map(|one| one.2).sum();
            assert_eq!(pending, 3, "each file waits to be split; one shard counts it");
            let before = show(&narrow, &read_all(&database, &narrow).await);
            database.compactions().compact("ks", Some("narrow"), true).await.unwrap();
            let after = show(&narrow, &read_all(&database, &narrow).await);
            assert!(database.compactions().pending().await.is_empty());
            (before, after, sstable_names(&disk, &narrow).await)
        }
    })
    .unwrap();
    assert_eq!(before, first);
    assert_eq!(after, first);
    assert_eq!(names.len(), 3, "one file for each shard: {names:?}");
    // And back to one shard.
    let again = on_shards(1, &file_system, configuration(), |database| async move {
        let narrow = table(&database, "narrow");
        database.compactions().compact("ks", Some("narrow"), true).await.unwrap();
        show(&narrow, &read_all(&database, &narrow).await)
    });
    assert_eq!(again.unwrap(), first);
}

/// Several files are split at a time. A split that is stopped must not remove the parts of another
/// one.
#[test]
fn splits_that_are_stopped_leave_others_alone() {
    for seed in espalier_testing::seeds(12) {
        let file_system = FileSystem::simulated(seed);
        let first = on_shards(1, &file_system, configuration(), |database| async move {
            create(&database, vec![narrow_table()]).await;
            let narrow = table(&database, "narrow");
            for number in 0..240 {
                let name = format!("p{number:03}");
                let write = insert(&narrow, &name, None, 1, &[("v", "x")]);
                database.apply(write).await.unwrap();
                if number % 20 == 19 {
                    database.flush("ks", None).await.unwrap();
                }
            }
            database.shutdown().await.unwrap();
            show(&narrow, &read_all(&database, &narrow).await)
        });
        let first = first.unwrap();
        let last = on_shards(4, &file_system, configuration(), move |database| async move {
            let narrow = table(&database, "narrow");
            let mut random = Generator::from_seed(seed);
            for _ in 0..12 {
                let other = database.clone();
                let compaction = spawn_local(async move {
                    // A stopped compaction returns an error, so the test ignores errors.
                    let _ = other.compactions().compact("ks", Some("narrow"), true).await;
                });
                time::sleep(Duration::from_micros(random.below(4000))).await;
                database.compactions().stop(&CompactionKind::ALL).await;
                compaction.await;
                let seen = show(&narrow, &read_all(&database, &narrow).await);
                assert_eq!(seen.len(), 240, "seed {seed}");
            }
            database.compactions().compact("ks", Some("narrow"), true).await.unwrap();
            show(&narrow, &read_all(&database, &narrow).await)
        });
        assert_eq!(last.unwrap(), first, "seed {seed}");
    }
}
