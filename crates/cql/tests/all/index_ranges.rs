//! Queries with a range of values: the number of index entries that they read if few rows of the
//! range meet another condition, and a partition with more rows of the range than the read takes at
//! once.

use std::fmt::Write;

use espalier_runtime::{block_on, file::FileSystem};

use super::support::node::{execute, open, rows};

const ROWS: u64 = 6000;

#[test]
fn a_range_is_passed_a_few_times_or_the_table_is_scanned() {
    block_on(async {
        let (database, processor) = open(&FileSystem::simulated(1)).await;
        for statement in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (k int PRIMARY KEY, v int, x int)",
            "CREATE INDEX by_v ON k.t (v)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        for first in (0..ROWS).step_by(200) {
            let mut batch = "BEGIN UNLOGGED BATCH".to_owned();
            for key in first..first + 200 {
                let x = key % 100;
                let _ = write!(batch, " INSERT INTO k.t (k, v, x) VALUES ({key}, {key}, {x});");
            }
            execute(&processor, &format!("{batch} APPLY BATCH")).await.unwrap();
            if first == ROWS / 2 {
                database.flush("k", None).await.unwrap();
            }
        }
        let query = async |condition: &str, page_size: i32| {
            let before = database.store().metrics();
            let query = format!("SELECT k FROM k.t WHERE {condition} ALLOW FILTERING");
            let (count, _) = rows(&processor, &query, Some(page_size)).await;
            let after = database.store().metrics();
            let passed = after.reads.passed_entries - before.reads.passed_entries;
            (count, passed, after.reads.by_index - before.reads.by_index)
        };
        // The range has 450 rows. Each pass collects eight times as many rows as the pass before.
        // Each of three passes reads all entries of the range.
        assert_eq!(query("v >= 5550 AND x = 7", 20).await, (4, 3 * 450, 3));
        assert_eq!(query("v >= 5550 AND v < 5570", 20).await, (20, 20, 1));
        assert_eq!(query("v BETWEEN 5550 AND 5569", 20).await, (20, 20, 1));
        // The first pass collects as many rows as a page has.
        assert_eq!(query("v >= 5550", 1000).await, (450, 450, 1));
        // All rows are in the range, so the node detects within the first pass that a scan costs
        // less.
        let (count, passed, by_index) = query("v >= 0 AND x = 7", 50).await;
        assert_eq!((count, by_index), (60, 0));
        assert!(passed > 0 && passed < ROWS / 2, "{passed}");
        // Later reads of this range scan the table at once, until a flush changes the table.
        assert_eq!(query("v >= 0", 500).await, (ROWS as i32, 0, 0));
        database.flush("k", None).await.unwrap();
        let (count, passed, by_index) = query("v >= 0", 500).await;
        assert_eq!((count, by_index), (ROWS as i32, 0));
        assert!(passed > 0 && passed < ROWS / 2, "{passed}");
    });
}

#[test]
fn a_range_finds_all_rows_of_a_long_partition_in_order() {
    block_on(async {
        let (database, processor) = open(&FileSystem::simulated(1)).await;
        for statement in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (k int, c int, s int static, v int, PRIMARY KEY (k, c))",
            "CREATE INDEX by_v ON k.t (v)",
            "INSERT INTO k.t (k, s) VALUES (0, 7)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        for first in (0..ROWS).step_by(200) {
            let mut batch = "BEGIN UNLOGGED BATCH".to_owned();
            for row in first..first + 200 {
                // The first 1000 rows are those of the range, and are in one partition.
                let (key, v) = if row < 1000 { (0, row as i64) } else { (row, -1) };
                let _ = write!(batch, " INSERT INTO k.t (k, c, v) VALUES ({key}, {row}, {v});");
            }
            execute(&processor, &format!("{batch} APPLY BATCH")).await.unwrap();
        }
        let expected = rows(&processor, "SELECT s, c FROM k.t WHERE k = 0", None).await;
        assert_eq!(expected.0, 1000);
        for page_size in [300, 700, 2000] {
            let before = database.store().metrics().reads.by_index;
            let query = "SELECT s, c FROM k.t WHERE v >= 0 ALLOW FILTERING";
            assert_eq!(rows(&processor, query, Some(page_size)).await, expected, "{page_size}");
            assert!(database.store().metrics().reads.by_index > before, "{page_size}");
        }
    });
}
