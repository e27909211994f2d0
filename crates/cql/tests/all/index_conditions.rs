//! Conditions that a secondary index must not answer, names of indexes, and prepared schema
//! statements beside a session's keyspace.

use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{block_on, file::FileSystem};

use super::support::node::open;

async fn execute(processor: &QueryProcessor, statement: &str) -> Result<QueryResult, String> {
    let (mut client, options) = (ClientState::default(), QueryOptions::default());
    let answer = processor.query(statement, &mut client, &options).await;
    answer.map_err(|error| error.message)
}

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

/// The name is a part of the names of files.
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

/// The permissions of a schema statement are those of its preparation, so a USE after it must not
/// change its keyspace.
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
