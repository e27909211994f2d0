//! `x BETWEEN low AND high` answers as `x >= low AND x <= high` does: by slices, tokens, indexes
//! and filters, in DELETE and in the WHERE of views.

use bytes::Bytes;
use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult, Value, Values};
use espalier_runtime::{block_on, file::FileSystem};

use super::support::node::{execute, open_with_keyspace, rows};

/// Returns a node with a table of 12 rows, numbered by `u`, in three partitions.
async fn open_table() -> QueryProcessor {
    let view = |name: &str, keys: &str| {
        format!(
            "CREATE MATERIALIZED VIEW ks.{name} AS SELECT p, c, d, v FROM ks.t \
             WHERE p BETWEEN {keys} AND c BETWEEN 1 AND 2 AND d IS NOT NULL \
             PRIMARY KEY (c, p, d)"
        )
    };
    let (some, nothing) = (view("some", "1 AND 2"), view("nothing", "2 AND 1"));
    let statements = [
        "CREATE TABLE ks.t (p int, c int, d int, s int static, u int, v int, w int, x text, \
         y duration, PRIMARY KEY (p, c, d))",
        "CREATE INDEX by_v ON ks.t (v) USING 'sai'",
        "CREATE INDEX by_w ON ks.t (w)",
        &some,
        &nothing,
    ];
    let (_, processor) = open_with_keyspace(&FileSystem::simulated(1), &statements).await;
    for row in 0..12 {
        let (p, c) = (row / 4, row % 4);
        let insert = format!(
            "INSERT INTO ks.t (p, c, d, s, u, v, w, x) \
             VALUES ({p}, {c}, {c}, {p}, {row}, {row}, {row}, 'a{row:02}')"
        );
        execute(&processor, &insert).await.unwrap();
    }
    processor
}

async fn count(processor: &QueryProcessor, table: &str) -> i32 {
    rows(processor, &format!("SELECT * FROM ks.{table}"), None).await.0
}

#[test]
fn between_is_two_comparisons() {
    block_on(async {
        let processor = open_table().await;
        let (first, last) = ("-9223372036854775807", "9223372036854775807");
        for (column, low, high, rest, expected) in [
            ("v", "3", "6", "", 4),
            ("v", "3", "6", " AND u = 4 ALLOW FILTERING", 1),
            ("w", "3", "6", " ALLOW FILTERING", 4),
            ("u", "3", "6", " ALLOW FILTERING", 4),
            ("x", "'a03'", "'a06'", " ALLOW FILTERING", 4),
            ("s", "1", "2", " ALLOW FILTERING", 8),
            ("p", "1", "2", " ALLOW FILTERING", 8),
            ("c", "1", "2", " AND p = 1", 2),
            ("c", "1", "2", " ALLOW FILTERING", 6),
            ("d", "1", "2", " AND p = 1 ALLOW FILTERING", 2),
            ("token(p)", first, last, "", 12),
        ] {
            let found = async |condition: String| {
                let query = format!("SELECT p, c, d FROM ks.t WHERE {condition}{rest}");
                rows(&processor, &query, None).await
            };
            let between = found(format!("{column} BETWEEN {low} AND {high}")).await;
            assert_eq!(between.0, expected, "{column}{rest}");
            let compared = found(format!("{column} >= {low} AND {column} <= {high}")).await;
            assert_eq!(between, compared, "{column}{rest}");
            let descending = found(format!("{column} BETWEEN {high} AND {low}")).await;
            assert_eq!(descending.0, 0, "{column}{rest}");
        }
    });
}

#[test]
fn between_takes_bound_values() {
    block_on(async {
        let processor = open_table().await;
        let int = |number: i32| Value::Bytes(Bytes::copy_from_slice(&number.to_be_bytes()));
        for (low, high) in [(3, 6), (6, 6), (6, 3)] {
            let values = [int(low), int(high)];
            let values = Values::Positional(&values);
            let options = QueryOptions { values, ..QueryOptions::default() };
            let query = "SELECT u FROM ks.t WHERE u BETWEEN ? AND ? ALLOW FILTERING";
            let answer = processor.query(query, &mut ClientState::default(), &options).await;
            let QueryResult::Rows(rows) = answer.unwrap() else { panic!("no rows") };
            let expected = (high - low + 1).max(0);
            assert_eq!(rows.row_count, expected, "{low} to {high}");
        }
    });
}

#[test]
fn between_is_refused_as_comparisons_are() {
    block_on(async {
        let processor = open_table().await;
        for (condition, reason) in [
            ("u BETWEEN 3 AND 6", "use ALLOW FILTERING"),
            ("w BETWEEN 3 AND 6", "use ALLOW FILTERING"),
            ("u BETWEEN null AND 6 ALLOW FILTERING", "Unsupported null value for column u"),
            ("v BETWEEN 3 AND null", "Unsupported null value for column v"),
            (
                "y BETWEEN 1s AND 2s ALLOW FILTERING",
                "Slice restrictions are not supported on duration columns",
            ),
        ] {
            let query = format!("SELECT p FROM ks.t WHERE {condition}");
            let refusal = execute(&processor, &query).await.unwrap_err();
            assert!(refusal.contains(reason), "{condition}: {refusal}");
        }
    });
}

#[test]
fn views_and_deletions_take_between() {
    block_on(async {
        let processor = open_table().await;
        assert_eq!(count(&processor, "some").await, 4);
        assert_eq!(count(&processor, "nothing").await, 0);
        for (condition, left) in [("c BETWEEN 2 AND 1", 12), ("c BETWEEN 1 AND 2", 10)] {
            let delete = format!("DELETE FROM ks.t WHERE p = 1 AND {condition}");
            execute(&processor, &delete).await.unwrap();
            assert_eq!(count(&processor, "t").await, left, "{condition}");
        }
        assert_eq!(count(&processor, "some").await, 2);
    });
}
