//! Tests reads whose chunks end in a partition with a large static row, among dead rows, or in a
//! group.

use espalier_cql::{ClientState, QueryOptions, QueryResult, Value, Values};
use espalier_runtime::{block_on, file::FileSystem, time};
use espalier_storage::StorageConfiguration;
use espalier_types::duration::Duration;

use super::support::node::{execute, open, open_with, open_with_keyspace, rows};

const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
'replication_factor': 1}";

/// The static row alone fills a chunk.
#[test]
fn a_read_by_index_goes_on_in_a_partition_with_a_large_static_row() {
    block_on(async {
        let (database, processor) = open(&FileSystem::simulated(1)).await;
        for statement in [
            KEYSPACE,
            "CREATE TABLE k.t (k int, c int, s blob static, v int, PRIMARY KEY (k, c))",
            "CREATE INDEX ON k.t (v)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        let client = ClientState::default();
        let prepared = processor.prepare("INSERT INTO k.t (k, s) VALUES (1, ?)", &client).unwrap();
        let values = [Value::Bytes(vec![7; 5 << 20].into())];
        let options =
            QueryOptions { values: Values::Positional(&values), ..QueryOptions::default() };
        processor.execute(&prepared, &client, &options).await.unwrap();
        for c in 0..100 {
            let insert = format!("INSERT INTO k.t (k, c, v) VALUES (1, {c}, 1)");
            execute(&processor, &insert).await.unwrap();
        }
        let count = "SELECT count(s) FROM k.t WHERE v = 1";
        let hundred = [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 100];
        assert_eq!(rows(&processor, count, None).await, (1, hundred.to_vec()));
        database.flush("k", None).await.unwrap();
        assert_eq!(rows(&processor, count, None).await, (1, hundred.to_vec()));
    });
}

/// The chunk ends among expired rows of partition 2, after partition 1 has reached its limit.
#[test]
fn a_partition_limit_does_not_skip_the_next_partition() {
    block_on(async {
        let mut configuration = StorageConfiguration::new("node");
        configuration.query_tombstone_page_limit = 10;
        let (_, processor) = open_with(&FileSystem::simulated(1), configuration).await;
        for statement in [
            KEYSPACE,
            "CREATE TABLE k.t (k int, c int, v int, PRIMARY KEY (k, c))",
            "CREATE INDEX ON k.t (v)",
            "INSERT INTO k.t (k, c, v) VALUES (1, 1, 1)",
            "INSERT INTO k.t (k, c, v) VALUES (1, 2, 1)",
            "INSERT INTO k.t (k, c, v) VALUES (2, 5000, 1)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        for c in 0..500 {
            let insert = format!("INSERT INTO k.t (k, c, v) VALUES (2, {c}, 1) USING TTL 1");
            execute(&processor, &insert).await.unwrap();
        }
        time::sleep(std::time::Duration::from_millis(2100)).await;
        let mut expected = Vec::new();
        for value in [1, 1, 2, 5000] {
            expected.extend_from_slice(&4i32.to_be_bytes());
            expected.extend_from_slice(&i32::to_be_bytes(value));
        }
        for clauses in [
            "WHERE v = 1 PER PARTITION LIMIT 1 ALLOW FILTERING",
            "WHERE v < 2 PER PARTITION LIMIT 1 ALLOW FILTERING",
            "GROUP BY k, c PER PARTITION LIMIT 1",
        ] {
            let select = format!("SELECT k, c FROM k.t {clauses}");
            for page_size in [None, Some(100)] {
                let found = rows(&processor, &select, page_size).await;
                assert_eq!(found, (2, expected.clone()), "{select}, {page_size:?}");
            }
        }
    });
}

/// The second group begins in the first chunk and ends in the second.
#[test]
fn a_group_by_function_goes_on_in_the_next_chunk() {
    block_on(async {
        let table = "CREATE TABLE ks.t (k int, at timestamp, PRIMARY KEY (k, at))";
        let (_database, processor) = open_with_keyspace(&FileSystem::simulated(1), &[table]).await;
        for second in 0..5000 {
            let insert = format!("INSERT INTO ks.t (k, at) VALUES (1, {})", second * 1000);
            execute(&processor, &insert).await.unwrap();
        }
        let mut expected = Vec::new();
        for count in [3600, 1400] {
            expected.extend_from_slice(&8i32.to_be_bytes());
            expected.extend_from_slice(&i64::to_be_bytes(count));
        }
        let select = "SELECT count(*) FROM ks.t WHERE k = 1 GROUP BY k, floor(at, 1h)";
        for page_size in [None, Some(1), Some(100)] {
            let found = rows(&processor, select, page_size).await;
            assert_eq!(found, (2, expected.clone()), "{page_size:?}");
        }
        let client = ClientState::default();
        let bound = select.replace("1h", "?");
        let prepared = processor.prepare(&bound, &client).unwrap();
        let hour = Duration { months: 0, days: 0, nanoseconds: 3_600_000_000_000 };
        let mut encoded = Vec::new();
        hour.encode(&mut encoded);
        let values = [Value::Bytes(encoded.into())];
        let options =
            QueryOptions { values: Values::Positional(&values), ..QueryOptions::default() };
        let answer = processor.execute(&prepared, &client, &options).await.unwrap();
        let QueryResult::Rows(found) = answer else { panic!("{bound}: no rows") };
        assert_eq!((found.row_count, found.content), (2, expected));
    });
}
