//! The whole cycle: write, read, flush, read, stop without warning, restart.

use crate::support::*;
use espalier_runtime::file::FileSystem;

#[test]
pub fn rows_are_read_from_memory_from_files_and_after_a_restart() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![wide_table(), narrow_table()]).await;
        let wide = table(&database, "wide");
        for (clustering, value) in [(1, "one"), (2, "two"), (-3, "minus three")] {
            let values = [("v", value), ("w", "x")];
            database.apply(insert(&wide, "a", Some(clustering), 10, &values)).await.unwrap();
        }
        let expected =
            ["a/-3 v=minus three w=x", "a/1 v=one w=x", "a/2 v=two w=x"].map(String::from);
        assert_eq!(show(&wide, &read_all(&database, &wide).await), expected);
        let ticket = database.store().try_apply(&insert(&wide, "a", Some(2), 11, &[("v", "zwei")]));
        ticket.unwrap().unwrap().await.unwrap();
        let expected =
            ["a/-3 v=minus three w=x", "a/1 v=one w=x", "a/2 v=zwei w=x"].map(String::from);
        assert_eq!(show(&wide, &read_all(&database, &wide).await), expected);

        database.flush("ks", None).await.unwrap();
        assert_eq!(database.store().metrics().sstables, 1);
        assert_eq!(show(&wide, &read_all(&database, &wide).await), expected);
        let rows = read_partition(&database, &wide, "a").await.unwrap().rows;
        assert_eq!(rows.len(), 3);
        database.apply(insert(&wide, "a", Some(1), 12, &[("w", "y")])).await.unwrap();
    });
    // The process is gone; its writes to the file system remain.
    let expected = ["a/-3 v=minus three w=x", "a/1 v=one w=y", "a/2 v=zwei w=x"].map(String::from);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let wide = table(&database, "wide");
        assert_eq!(show(&wide, &read_all(&database, &wide).await), expected);
        database.shutdown().await.unwrap();
        let segments = file_system.read_dir("node/commitlog").await.unwrap();
        assert_eq!(segments, [], "nothing is left to replay");
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let wide = table(&database, "wide");
        assert_eq!(show(&wide, &read_all(&database, &wide).await), expected);
    });
}
