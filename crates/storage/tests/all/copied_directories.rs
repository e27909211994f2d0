//! Tests copies that an operator makes below the data directory. A copy of a table's directory
//! belongs to no table. Files copied into the directory of a table stay as they are. Truncation
//! also removes files that no shard reads.

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
        let orphans = database.orphans().list().await.unwrap();
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
fn truncation_removes_files_that_no_shard_reads() {
    let file_system = FileSystem::simulated(4);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        for name in ["a", "b"] {
            write_narrow(&database, &[name]).await;
            database.flush("ks", None).await.unwrap();
        }
        database.compactions().compact("ks", None, false).await.unwrap();
        // The links are old files, as an interrupted compaction would leave them.
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

/// An operator copies files into the directory of an open table, under the numbers that the node
/// would use next.
#[test]
fn files_that_have_the_next_numbers_are_left_alone() {
    let file_system = FileSystem::simulated(4);
    let own = table_directory(&narrow_table());
    let contents = async |number: u32| {
        let mut contents = Vec::new();
        for entry in file_system.read_dir(&own).await.unwrap() {
            if entry.name.starts_with(&format!("da-{number}-bti-")) {
                contents.push((entry.name, file_system.read(&entry.path).await.unwrap()));
            }
        }
        contents
    };
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        write_narrow(&database, &["theirs"]).await;
        database.flush("ks", None).await.unwrap();
        let link = async |number: u32| {
            for (name, _) in contents(1).await {
                let copy = name.replace("da-1-", &format!("da-{number}-"));
                file_system.hard_link(own.join(name), own.join(copy)).await.unwrap();
            }
        };
        for number in [2, 4, 6] {
            link(number).await;
        }
        let before = (contents(2).await, contents(4).await, contents(6).await);
        assert!(!before.0.is_empty() && !before.2.is_empty());
        // Two flushes and a compaction skip these numbers, and so does the import below.
        for name in ["ours", "ours too"] {
            write_narrow(&database, &[name]).await;
            database.flush("ks", None).await.unwrap();
        }
        database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
        let names = sstable_names(&file_system, &narrow_table()).await;
        assert_eq!(names, ["da-2-bti", "da-4-bti", "da-6-bti", "da-7-bti"]);
        let elsewhere = configuration().data_directory.join("elsewhere");
        link_all(&file_system, &own, &elsewhere, str::to_owned).await;
        for (name, content) in contents(2).await {
            let copy = file_system.create(own.join(name.replace("da-2-", "da-8-"))).await.unwrap();
            copy.append(content).await.unwrap();
        }
        database.import("ks", "narrow", Some(elsewhere)).await.unwrap();
        let names = sstable_names(&file_system, &narrow_table()).await;
        assert!(names.contains(&"da-12-bti".to_owned()), "{names:?}");
        assert_eq!((contents(2).await, contents(4).await, contents(6).await), before);
        assert_eq!(names_in_narrow(&database).await, ["ours", "ours too", "theirs"]);
        database.shutdown().await.unwrap();
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(names_in_narrow(&database).await, ["ours", "ours too", "theirs"]);
        database.shutdown().await.unwrap();
    });
}
