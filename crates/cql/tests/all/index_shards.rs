//! Secondary indexes of a node of several shards: a query by an index goes from shard to shard, and
//! the index is recorded as built when all shards have built it.

use std::time::Duration;

use espalier_cql::QueryProcessor;
use espalier_runtime::{file::FileSystem, time};

use super::support::{
    node::{execute, rows},
    shards::on_shards,
};

const ROWS: i32 = 150;

async fn write_rows(processor: &QueryProcessor) {
    for key in 0..ROWS {
        for table in ["indexed", "plain"] {
            let insert = format!(
                "INSERT INTO k.{table} (k, c, v, s) VALUES ({key}, {}, {}, {})",
                key % 3,
                key % 10,
                key % 7
            );
            execute(processor, &insert).await.unwrap();
        }
    }
}

/// Compares queries by the indexes with the same queries of a table without indexes.
async fn compare(processor: &QueryProcessor) {
    for query in [
        "SELECT * FROM {T} WHERE v = 3",
        "SELECT * FROM {T} WHERE v IN (1, 4, 9)",
        "SELECT * FROM {T} WHERE v > 6 AND v <= 8",
        "SELECT * FROM {T} WHERE v = 3 AND s = 5",
        "SELECT * FROM {T} WHERE s = 2",
        "SELECT count(*) FROM {T} WHERE v = 3",
        "SELECT k, max(c) FROM {T} WHERE v < 2 GROUP BY k",
        "SELECT * FROM {T} WHERE v = 3 LIMIT 17",
        "SELECT * FROM {T} WHERE v = 3 PER PARTITION LIMIT 1",
        "SELECT * FROM {T} WHERE v = 3 AND token(k) > -3000000000000000000",
        "SELECT * FROM {T} WHERE k = 43 AND v = 3",
        "SELECT * FROM {T} WHERE v = 11",
    ] {
        let query = format!("{query} ALLOW FILTERING");
        let expected = rows(processor, &query.replace("{T}", "k.plain"), None).await;
        for page_size in [None, Some(3)] {
            let found = rows(processor, &query.replace("{T}", "k.indexed"), page_size).await;
            assert_eq!(found, expected, "{query}, pages of {page_size:?}");
        }
    }
}

#[test]
fn a_query_by_index_unites_the_shards() {
    let file_system = FileSystem::simulated(1);
    let by_index = on_shards(3, &file_system, |processor| async move {
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        execute(&processor, keyspace).await.unwrap();
        for table in ["indexed", "plain"] {
            let columns = "k int, c int, v int, s int static, PRIMARY KEY (k, c)";
            let create = format!("CREATE TABLE k.{table} ({columns})");
            execute(&processor, &create).await.unwrap();
        }
        write_rows(&processor).await;
        let database = processor.database();
        database.flush("k", None).await.unwrap();
        // Both indexes are built from the flushed files.
        execute(&processor, "CREATE INDEX by_v ON k.indexed (v)").await.unwrap();
        execute(&processor, "CREATE INDEX by_s ON k.indexed (s)").await.unwrap();
        compare(&processor).await;
        let recorded =
            async || rows(&processor, "SELECT * FROM system.\"IndexInfo\"", None).await.0;
        let deadline = time::Instant::now() + Duration::from_secs(60);
        while recorded().await < 2 {
            assert!(time::Instant::now() < deadline, "the indexes are not recorded as built");
            time::sleep(Duration::from_millis(1)).await;
        }
        let table = database.store().schema().table("k", "indexed").cloned().unwrap();
        assert!(database.has_built_indexes(&table).await);
        let before = database.store().metrics().reads.by_index;
        compare(&processor).await;
        write_rows(&processor).await;
        compare(&processor).await;
        database.store().metrics().reads.by_index - before
    });
    assert!(by_index > 20, "{by_index} reads of the first shard by index");
}
