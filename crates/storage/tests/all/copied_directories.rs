//! Copies of a table's directory that somebody made beside it are nobody's table; what no shard reads of a truncated one is gone as well.

use std::path::Path;

use espalier_runtime::file::FileSystem;

use crate::support::*;

async fn link_all(
    file_system: &FileSystem,
    from: &Path,
    into: &Path,
    rename: impl Fn(&str) -> String,
) {
    file_system.create_dir_all(into).await.unwrap();
    for entry in file_system.read_dir(from).await.unwrap() {
        if !entry.is_directory && entry.name.contains("-bti-") {
            file_system.hard_link(&entry.path, into.join(rename(&entry.name))).await.unwrap();
        }
    }
}

#[test]
fn the_table_is_read_from_its_own_directory() {
    let file_system = FileSystem::simulated(3);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        write_narrow(&database, &["old"]).await;
        database.flush("ks", None).await.unwrap();
        database.shutdown().await.unwrap();
    });
    let copy =
        configuration().data_directory.join("a_backup").join(narrow_table().directory_name());
    run(async {
        let own = table_directory(&narrow_table());
        link_all(&file_system, &own, &copy, str::to_owned).await;
        let database = open(&file_system, configuration()).await.unwrap();
        let orphans = database.orphans().await.unwrap();
        assert!(orphans.iter().any(|orphan| orphan.path == copy), "{orphans:?}");
        write_narrow(&database, &["new"]).await;
        database.flush("ks", None).await.unwrap();
        database.shutdown().await.unwrap();
    });
    run(async {
        file_system.remove_dir_all(&copy).await.unwrap();
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["new", "old"]);
    });
}

#[test]
fn truncation_removes_what_no_shard_reads() {
    let file_system = FileSystem::simulated(4);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        for name in ["a", "b"] {
            write_narrow(&database, &[name]).await;
            database.flush("ks", None).await.unwrap();
        }
        database.compact("ks", None, false).await.unwrap();
        // As a compaction would leave them that came to no end.
        let [file] = &sstable_names(&file_system, &narrow).await[..] else { panic!("one file") };
        let number = file.split('-').nth(1).unwrap();
        let directory = table_directory(&narrow);
        let left = |name: &str| name.replacen(number, "1", 1);
        assert_ne!(number, "1");
        link_all(&file_system, &directory, &directory, left).await;
        assert_eq!(sstable_names(&file_system, &narrow).await.len(), 2);
        database.truncate(narrow.id).await.unwrap();
        assert_eq!(sstable_names(&file_system, &narrow).await, [""; 0]);
        database.shutdown().await.unwrap();
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, [""; 0]);
    });
}
