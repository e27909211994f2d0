//! A long scan changes nothing in the page cache and the row cache, however often it stops within a
//! partition.

use espalier_mutation::KeyRange;
use espalier_runtime::file::FileSystem;
use espalier_storage::ReadTarget;

use crate::{row_cache::settings, support::*};

#[test]
fn a_scan_of_a_wide_partition_by_pages_leaves_caches_as_they_are() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(1 << 20)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        let value = "x".repeat(300);
        for at in 0..2000 {
            database.apply(insert(&wide, "p", Some(at), 10, &[("v", &value)])).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
        let held = || {
            (
                database.store().metrics().page_cache.used_bytes,
                database.store().row_cache().metrics().rows,
            )
        };
        let before = held();
        let mut command = command(&wide, ReadTarget::Range(KeyRange::full()));
        command.limits.rows = 100;
        let (mut rows, mut pages) = (0, 0);
        loop {
            let result = database.read(command.clone()).await.unwrap();
            rows += result.partitions.iter().map(|partition| partition.rows.len()).sum::<usize>();
            pages += 1;
            command.resume = result.next;
            if command.resume.is_none() {
                break;
            }
        }
        assert_eq!(rows, 2000);
        assert!(pages >= 20, "{pages}");
        assert_eq!(held(), before);
        // A read of the partition does add something.
        read_partition(&database, &wide, "p").await.unwrap();
        assert!(held().0 > before.0 && held().1 > before.1);
    });
}
