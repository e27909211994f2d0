//! Vectors that an index cannot store, and queries for such vectors. Cassandra answers with a
//! failure of the replica, without a text. This node refuses them with the text that Cassandra
//! writes to its log.

use espalier_runtime::{block_on, file::FileSystem};

use super::support::node::{execute, open};

const STATEMENTS: [&str; 8] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE k.t (k int PRIMARY KEY, v vector<float, 2>, e vector<float, 2>, n int)",
    // Before there is an index, the node stores any vector.
    "INSERT INTO k.t (k, v, e) VALUES (9, [0, 0], [NaN, 0])",
    "CREATE INDEX ON k.t (v) USING 'sai'",
    "CREATE INDEX ON k.t (e) USING 'sai' WITH OPTIONS = {'similarity_function': 'euclidean'}",
    "INSERT INTO k.t (k, v, e) VALUES (1, [1, 2], [3, 4])",
    "CREATE TABLE k.c (k int, c int, v vector<float, 2>, PRIMARY KEY (k, c))",
    "CREATE INDEX ON k.c (v) USING 'sai'",
];

const ZERO: &str = "Zero vectors cannot be indexed or queried with cosine similarity";

const REFUSED: [(&str, &str); 11] = [
    ("INSERT INTO k.t (k, v) VALUES (1, [0, -0.0])", ZERO),
    ("UPDATE k.t SET v = [0, 0] WHERE k = 1", ZERO),
    ("UPDATE k.t SET v = [0, 0] WHERE k = 1 IF EXISTS", ZERO),
    ("BEGIN BATCH INSERT INTO k.t (k, v) VALUES (2, [0, 0]); APPLY BATCH", ZERO),
    ("INSERT INTO k.t (k, e) VALUES (1, [NaN, 0])", "non-finite value at vector[0]=NaN"),
    (
        "INSERT INTO k.t (k, e) VALUES (1, [0, -Infinity])",
        "non-finite value at vector[1]=-Infinity",
    ),
    ("INSERT INTO k.t (k, e) VALUES (1, [1e18, 0])", "Out-of-bounds value at vector[0]=1.0E18"),
    ("SELECT k FROM k.t ORDER BY v ANN OF [0, 0] LIMIT 1", ZERO),
    ("SELECT k FROM k.t ORDER BY e ANN OF [NaN, 0] LIMIT 1", "non-finite value at vector[0]=NaN"),
    // The vector is refused although the conditions select no row.
    ("SELECT k FROM k.c WHERE k = 1 AND c IN () ORDER BY v ANN OF [0, 0] LIMIT 1", ZERO),
    (
        "SELECT k FROM k.t WHERE e = [1, 2] ORDER BY v ANN OF [1, 2] LIMIT 3 ALLOW FILTERING",
        "Vector indexes only support ANN queries",
    ),
];

#[test]
fn vectors_that_cannot_be_compared_are_refused() {
    block_on(async {
        let file_system = FileSystem::simulated(1);
        let (database, processor) = open(&file_system).await;
        for statement in STATEMENTS {
            execute(&processor, statement).await.unwrap();
        }
        for (statement, message) in REFUSED {
            let refused = execute(&processor, statement).await;
            assert_eq!(refused.err().as_deref(), Some(message), "{statement}");
        }
        for is_flushed in [false, true] {
            if is_flushed {
                database.flush("k", None).await.unwrap();
            }
            // Null, and other columns, may be written.
            execute(&processor, "UPDATE k.t SET v = null, n = 5 WHERE k = 9").await.unwrap();
            for column in ["v", "e"] {
                let query = format!("SELECT k FROM k.t ORDER BY {column} ANN OF [1, 2] LIMIT 9");
                let (count, content) =
                    super::support::node::rows(&processor, &query, Some(1)).await;
                assert_eq!((count, &content[..]), (1, &[0, 0, 0, 4, 0, 0, 0, 1][..]));
            }
        }
    });
}
