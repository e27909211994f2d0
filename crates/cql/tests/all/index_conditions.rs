//! Conditions that a secondary index must not answer, limits of index names and entries, copies of
//! tables with indexes, and prepared schema statements after a USE.

use std::time::Duration;

use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{block_on, file::FileSystem, time};

use super::support::node::{execute, open, rows};

async fn open_tables() -> QueryProcessor {
    let (_, processor) = open(&FileSystem::simulated(1)).await;
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (k int PRIMARY KEY, v int, s set<text>, m map<text, int>)",
        "CREATE INDEX by_v ON k.t (v)",
        "CREATE INDEX by_s ON k.t (s)",
        "CREATE INDEX by_m ON k.t (keys(m))",
        "INSERT INTO k.t (k, v, s, m) VALUES (1, 1, {'x'}, {'x': 1})",
        "INSERT INTO k.t (k, v, s, m) VALUES (2, 2, {'y'}, {'y': 2})",
        "INSERT INTO k.t (k, v, s, m) VALUES (3, 3, {'z'}, {'z': 3})",
    ] {
        execute(&processor, statement).await.unwrap();
    }
    processor
}

#[test]
fn rows_without_a_value_are_found_beside_an_index_on_it() {
    block_on(async {
        let processor = open_tables().await;
        for (condition, expected) in [
            ("v = 1", 1),
            ("v NOT IN (1)", 2),
            ("v NOT IN (1, 2) AND s CONTAINS 'z'", 1),
            ("s NOT CONTAINS 'x'", 2),
            ("m NOT CONTAINS KEY 'x'", 2),
            ("k = 2 AND v > 1", 1),
            ("k = 1 AND v > 1", 0),
        ] {
            let query = format!("SELECT k FROM k.t WHERE {condition} ALLOW FILTERING");
            let answer = execute(&processor, &query).await.unwrap();
            let QueryResult::Rows(rows) = answer else { panic!("{condition}: no rows") };
            assert_eq!(rows.row_count, expected, "{condition}");
        }
    });
}

/// The name of an index is a part of the names of its files.
#[test]
fn a_name_that_no_file_could_have_is_refused() {
    block_on(async {
        let processor = open_tables().await;
        let create = |length| format!("CREATE INDEX {} ON k.t (entries(m))", "i".repeat(length));
        let refused = execute(&processor, &create(193)).await.unwrap_err();
        assert!(refused.contains("must not be more than 192 characters long"), "{refused}");
        execute(&processor, &create(192)).await.unwrap();
        processor.database().flush("k", None).await.unwrap();
    });
}

/// A prepared schema statement needs the permissions that were determined when it was prepared, so
/// a later USE must not change the statement's keyspace.
#[test]
fn a_prepared_schema_statement_ignores_a_later_use() {
    block_on(async {
        let processor = open_tables().await;
        let (mut client, options) = (ClientState::default(), QueryOptions::default());
        let prepared = processor.prepare("DROP TABLE t", &client).unwrap();
        client.keyspace = Some("k".into());
        let outcome = processor.execute(&prepared, &client, &options).await;
        assert!(outcome.unwrap_err().message.contains("No keyspace has been specified"));
        execute(&processor, "SELECT * FROM k.t").await.unwrap();
    });
}

/// Each entry repeats the key, so that the entries take many times the bytes of the write.
#[test]
fn a_write_with_too_many_bytes_of_entries_is_refused_before_it_is_logged() {
    block_on(async {
        let (database, processor) = open(&FileSystem::simulated(1)).await;
        for statement in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (k blob PRIMARY KEY, s set<int>)",
            "CREATE INDEX by_s ON k.t (s)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        // The node writes to the commit log, in the background, that the index is built.
        while rows(&processor, "SELECT * FROM system.\"IndexInfo\"", None).await.0 == 0 {
            time::sleep(Duration::from_millis(1)).await;
        }
        let key = "ab".repeat(60_000);
        let insert = |elements: u32, tail: &str| {
            let elements: Vec<String> = (0..elements).map(|element| element.to_string()).collect();
            format!("INSERT INTO k.t (k, s) VALUES (0x{key}, {{{}}}){tail}", elements.join(", "))
        };
        let logged = database.store().metrics().commit_log.bytes_appended;
        for tail in ["", " IF NOT EXISTS"] {
            let refused = execute(&processor, &insert(2000, tail)).await.unwrap_err();
            let expected = "this cannot be stored: the entries of this write in the secondary \
                            indexes of k.t take";
            assert!(refused.starts_with(expected), "{refused}");
        }
        assert_eq!(database.store().metrics().commit_log.bytes_appended, logged);
        execute(&processor, &insert(100, "")).await.unwrap();
        let found = rows(&processor, "SELECT k FROM k.t WHERE s CONTAINS 99", None).await;
        assert_eq!(found.0, 1);
    });
}

#[test]
fn a_copy_of_a_table_has_its_indexes_on_request() {
    block_on(async {
        let processor = open_tables().await;
        for statement in [
            "CREATE INDEX ON k.t (entries(m))",
            "CREATE TABLE k.plain LIKE k.t",
            "CREATE TABLE k.copy LIKE k.t WITH INDEXES",
            "INSERT INTO k.copy (k, v) VALUES (5, 1)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        let schema = processor.database().store().schema();
        let names = |table: &str| -> Vec<String> {
            let indexes = &schema.table("k", table).unwrap().indexes;
            indexes.iter().map(|index| index.name.clone()).collect()
        };
        assert_eq!(names("copy"), ["by_m_1", "by_s_1", "by_v_1", "copy_m_idx"]);
        assert!(names("plain").is_empty());
        assert_eq!(rows(&processor, "SELECT k FROM k.copy WHERE v = 1", None).await.0, 1);
        execute(&processor, "DROP INDEX k.by_v_1").await.unwrap();
        let refused = execute(&processor, "SELECT k FROM k.copy WHERE v = 1").await.unwrap_err();
        assert!(refused.contains("ALLOW FILTERING"), "{refused}");
    });
}
