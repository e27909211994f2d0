//! Files that several shards have a part of: they are split before they are compacted, and each shard goes on with its own.

use espalier_runtime::file::FileSystem;

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
            let before = show(&narrow, &read_all(&database, &narrow).await);
            database.compact("ks", Some("narrow"), true).await.unwrap();
            let after = show(&narrow, &read_all(&database, &narrow).await);
            (before, after, sstable_names(&disk, &narrow).await)
        }
    })
    .unwrap();
    assert_eq!(before, first);
    assert_eq!(after, first);
    assert_eq!(names.len(), 3, "one file for each shard: {names:?}");
    // And back.
    let again = on_shards(1, &file_system, configuration(), |database| async move {
        let narrow = table(&database, "narrow");
        database.compact("ks", Some("narrow"), true).await.unwrap();
        show(&narrow, &read_all(&database, &narrow).await)
    });
    assert_eq!(again.unwrap(), first);
}
