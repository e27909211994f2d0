//! Tests that a compaction that fails does not prevent compactions of other files, that expired
//! files are removed, and that a compaction needs free disk space.

use espalier_mutation::{
    DeletionTime, Mutation, PartitionUpdate,
    schema::{TableMetadata, TableOptions},
};
use espalier_runtime::{file::FileSystem, random::Generator, yield_now};
use espalier_storage::{Node, StorageConfiguration, StorageError};

use crate::support::{shards::on_shards, *};

/// Returns a table that compacts four files of similar size.
pub fn by_size() -> TableMetadata {
    let mut narrow = narrow_table();
    let options = [("class", "SizeTieredCompactionStrategy"), ("min_threshold", "4")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    narrow.options = TableOptions { compaction: options.into(), ..TableOptions::default() };
    narrow
}

/// Writes a file of partitions that no earlier file has.
async fn write_file(database: &Node, number: usize) {
    let narrow = table(database, "narrow");
    let mut random = Generator::from_seed(number as u64);
    for row in 0..100 {
        let value = incompressible_text(&mut random, 200);
        let name = format!("p{number} {row}");
        database.apply(insert(&narrow, &name, None, 1, &[("v", &value)])).await.unwrap();
    }
    database.flush("ks", Some("narrow")).await.unwrap();
}

/// Waits until the numbers of compactions and of failed compactions are reached.
pub async fn wait_for(database: &Node, compactions: u64, failures: u64) {
    for _ in 0..1_000_000 {
        let metrics = database.store().metrics();
        if (metrics.compactions.done, metrics.compactions.failed) == (compactions, failures) {
            return;
        }
        yield_now().await;
    }
    panic!("{:?}", database.store().metrics());
}

#[test]
fn auto_compaction_leaves_out_an_unreadable_file() {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![by_size()]).await;
        for number in 0..4 {
            write_file(&database, number).await;
        }
        database.shutdown().await.unwrap();
    });
    run(async {
        let settings = StorageConfiguration { autocompaction: true, ..configuration() };
        let narrow = table_directory(&narrow_table());
        assert!(disk.flip_random_bit(narrow.join("da-2-bti-Data.db")).unwrap());
        let database = open(&file_system, settings).await.unwrap();
        wait_for(&database, 0, 1).await;
        write_file(&database, 4).await;
        wait_for(&database, 1, 1).await;
        let names = sstable_names(&file_system, &narrow_table()).await;
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.contains(&"da-2-bti".to_owned()), "{names:?}");
        // A compaction on demand tries the file and reports it.
        let error = database
            .compactions()
            .compact("ks", Some("narrow"), false)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("da-2-bti-Data.db"), "{error}");
    });
}

/// Each file has a deletion with the timestamp of the first deletion of the next file, as several
/// clients with clocks of their own write them. Only the last file has a live row.
#[test]
fn expired_files_are_removed_although_they_meet_live_files() {
    let file_system = FileSystem::simulated(3);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let mut narrow = narrow_table();
        let class = ("class".to_owned(), "LeveledCompactionStrategy".to_owned());
        narrow.options = TableOptions {
            compaction: [class].into(),
            gc_grace_seconds: 0,
            ..TableOptions::default()
        };
        create(&database, vec![narrow]).await;
        let narrow = table(&database, "narrow");
        for window in 0..5 {
            for (name, timestamp) in [("a", window * 10), ("b", window * 10 + 10)] {
                let mut update = PartitionUpdate::new(narrow.id, key(name));
                update.deletion = DeletionTime::new(timestamp, NOW - 10);
                database.apply(Mutation { updates: vec![update] }).await.unwrap();
            }
            database.flush("ks", None).await.unwrap();
        }
        for (name, timestamp) in [("a", 50), ("b", 60)] {
            let row = insert(&narrow, name, None, timestamp, &[("v", "1")]);
            database.apply(row).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
        database.shutdown().await.unwrap();
    });
    run(async {
        let settings = StorageConfiguration { autocompaction: true, ..configuration() };
        let database = open(&file_system, settings).await.unwrap();
        wait_for(&database, 1, 0).await;
        let mut names = sstable_names(&file_system, &narrow_table()).await;
        names.sort();
        assert_eq!(names, ["da-5-bti", "da-6-bti"]);
        assert_eq!(names_in_narrow(&database).await, ["a", "b"]);
    });
}

#[test]
fn the_disk_has_to_have_room_for_all_that_run() {
    let file_system = FileSystem::simulated(2);
    let disk = file_system.simulated_disk().unwrap().clone();
    on_shards(2, &file_system.clone(), configuration(), move |database| {
        let (disk, file_system) = (disk.clone(), file_system.clone());
        async move {
            create(&database, vec![by_size()]).await;
            for number in 0..2 {
                write_file(&database, number).await;
            }
            let used = u64::MAX - file_system.available_bytes("node").await.unwrap();
            const RESERVED: u64 = 64 << 20;
            // The disk has room for the files of one shard, but not for those of both.
            disk.set_capacity(used + RESERVED + 35_000);
            let refused = database.compactions().compact("ks", Some("narrow"), false).await;
            assert!(matches!(refused, Err(StorageError::NoDiskSpace { .. })), "{refused:?}");
            disk.set_capacity(used + RESERVED + 100_000);
            database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
        }
    })
    .unwrap();
}
