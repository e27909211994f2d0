//! After its first reads, a reader of the newest rows of partitions that grow at their head reads
//! no files, for any number of flushes, although the cache has room for only a part of the rows.

use espalier_runtime::file::FileSystem;
use espalier_storage::{Node, ReadTarget};

use crate::{row_cache::settings, support::*};

const PARTITIONS: i32 = 10;

/// Reads the first rows of a partition, which must be the newest ones.
async fn read_head(database: &Node, partition: i32, newest: i32, rows: usize) {
    let wide = table(database, "wide");
    let mut command = command(&wide, ReadTarget::Partition(key(format!("p{partition}"))));
    command.limits.rows = rows;
    let result = database.read(command).await.unwrap();
    let first = &result.partitions[0].rows[0];
    assert_eq!(first.clustering.values[0], Some(int(-newest)));
    assert_eq!(result.partitions[0].rows.len(), rows);
}

#[test]
fn heads_of_growing_partitions_stay_known_for_any_number_of_flushes() {
    let flushes = if espalier_testing::runs_all() { 60 } else { 20 };
    // Rows that a flush adds to each partition, and rows that are read; a row has some 400 bytes.
    for (brought, read) in [(40, 10), (40, 30), (100, 10)] {
        let file_system = FileSystem::simulated(1);
        run(async {
            let rows_of_flush = (PARTITIONS * brought) as usize;
            let database = open(&file_system, settings(rows_of_flush * 4 * 420)).await.unwrap();
            create(&database, vec![wide_table()]).await;
            let wide = table(&database, "wide");
            let value = "x".repeat(330);
            let mut misses = 0;
            for flush in 0..flushes {
                for partition in 0..PARTITIONS {
                    for row in flush * brought..(flush + 1) * brought {
                        let key = format!("p{partition}");
                        let insert = insert(&wide, &key, Some(-row), 10, &[("v", &value)]);
                        database.apply(insert).await.unwrap();
                    }
                }
                database.flush("ks", None).await.unwrap();
                for partition in 0..PARTITIONS {
                    read_head(&database, partition, (flush + 1) * brought - 1, read).await;
                }
                let metrics = database.store().row_cache().metrics();
                if flush == 0 {
                    misses = metrics.reads_with_misses;
                }
                let context = format!("{brought} and {read} rows, flush {flush}: {metrics:?}");
                assert_eq!(metrics.reads_with_misses, misses, "{context}");
            }
            let metrics = database.store().row_cache().metrics();
            assert!(metrics.row_evictions > 10 * rows_of_flush as u64, "{metrics:?}");
            assert_eq!(metrics.partition_evictions, 0);
        });
    }
}
