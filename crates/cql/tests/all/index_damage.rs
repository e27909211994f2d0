//! Files of secondary indexes that cannot be read, and SSTables that cannot be indexed. Queries
//! still return the right rows, and the other SSTables are indexed.

use std::time::Duration;

use espalier_cql::QueryProcessor;
use espalier_runtime::{
    block_on,
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    time,
};
use espalier_storage::Node;

use super::support::node::{execute, open, rows};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TABLE: &str = "CREATE TABLE k.t (k int PRIMARY KEY, v int)
    WITH compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': false}";
const INDEX: &str = "CREATE INDEX by_v ON k.t (v)";

/// Writes rows into a file of their own, a tenth of them with each value.
async fn write_file(database: &Node, processor: &QueryProcessor, keys: std::ops::Range<i32>) {
    for key in keys {
        let insert = format!("INSERT INTO k.t (k, v) VALUES ({key}, {})", key % 10);
        execute(processor, &insert).await.unwrap();
    }
    database.flush("k", None).await.unwrap();
}

async fn wait_until(condition: impl AsyncFn() -> bool) {
    for _ in 0..60_000 {
        if condition().await {
            return;
        }
        time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it did not come true");
}

async fn is_built(database: &Node) -> bool {
    let table = database.store().schema().table("k", "t").cloned().unwrap();
    database.has_built_indexes(&table).await
}

#[test]
fn a_damaged_component_is_left_out_and_built_again() {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    block_on(async {
        let (database, processor) = open(&file_system).await;
        for statement in [KEYSPACE, TABLE, INDEX] {
            execute(&processor, statement).await.unwrap();
        }
        write_file(&database, &processor, 0..200).await;
        for query in
            ["SELECT k FROM k.t WHERE v = 3", "SELECT k FROM k.t WHERE v > 8 ALLOW FILTERING"]
        {
            wait_until(async || is_built(&database).await).await;
            let before = database.store().metrics();
            assert_eq!((before.indexes.damaged, before.indexes.failed_builds), (0, 0));
            let damage = Fault::always(Operation::Read, Effect::FlipBit);
            disk.inject(damage.on_path("SecondaryIndex_"));
            let (count, _) = rows(&processor, query, Some(7)).await;
            assert_eq!(count, 20, "{query}");
            disk.clear_faults();
            assert_eq!(database.store().metrics().reads.by_index, before.reads.by_index, "{query}");
            assert!(!is_built(&database).await || database.store().metrics().indexes.damaged == 0);
            wait_until(async || is_built(&database).await).await;
            assert_eq!(database.store().metrics().indexes.damaged, 0);
            let (count, _) = rows(&processor, query, None).await;
            assert_eq!(count, 20, "{query}");
            assert_eq!(
                database.store().metrics().reads.by_index,
                before.reads.by_index + 1,
                "{query}"
            );
            // The next query must meet pages that are not cached.
            database.compactions().compact("k", None, false).await.unwrap();
        }
    });
}

#[test]
fn a_file_that_cannot_be_indexed_does_not_stop_the_others() {
    let file_system = FileSystem::simulated(2);
    let disk = file_system.simulated_disk().unwrap().clone();
    block_on(async {
        let (database, processor) = open(&file_system).await;
        for statement in [KEYSPACE, TABLE] {
            execute(&processor, statement).await.unwrap();
        }
        for file in 0..3 {
            write_file(&database, &processor, file * 20..file * 20 + 20).await;
        }
        // The newest file is the first to be indexed.
        disk.inject(Fault::always(Operation::Read, Effect::InputOutput).on_path("-3-bti-Data"));
        execute(&processor, INDEX).await.unwrap();
        let components = async || {
            let mut count = 0;
            for directory in file_system.read_dir("node/data/k").await.unwrap_or_default() {
                let files = file_system.read_dir(&directory.path).await.unwrap_or_default();
                count += files.iter().filter(|file| file.name.contains("SecondaryIndex")).count();
            }
            count
        };
        wait_until(async || components().await == 2).await;
        wait_until(async || database.store().metrics().indexes.failed_builds == 1).await;
        assert!(!is_built(&database).await);
        let waiting = "SELECT * FROM system_views.sstable_tasks
            WHERE kind = 'index build failed, waiting' ALLOW FILTERING";
        assert_eq!(rows(&processor, waiting, None).await.0, 1);
        let built = "SELECT * FROM system.\"IndexInfo\"";
        assert_eq!(rows(&processor, built, None).await.0, 0);
        disk.clear_faults();
        database.compactions().compact("k", None, false).await.unwrap();
        assert!(is_built(&database).await);
        assert_eq!(database.store().metrics().indexes.failed_builds, 0);
        assert_eq!(rows(&processor, waiting, None).await.0, 0);
        assert_eq!(rows(&processor, "SELECT k FROM k.t WHERE v = 3", None).await.0, 6);
    });
}
