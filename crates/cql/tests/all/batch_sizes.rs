//! The node refuses as too large the batches that Cassandra 5.0.9 refused.

use std::sync::Arc;

use espalier_cql::{ClientState, PreparedCache, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{ShardContext, block_on, file::FileSystem};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};

const TABLES: [&str; 5] = [
    "CREATE KEYSPACE g WITH replication = {'class': 'SimpleStrategy'}",
    "USE g",
    "CREATE TABLE v (k int PRIMARY KEY, t text, i int, b bigint, m map<text, int>)",
    "CREATE TABLE p (k int, j int, c int, s int static, v int, PRIMARY KEY ((k, j), c))",
    "CREATE TABLE n (k int PRIMARY KEY, n counter)",
];

/// Statements with the key `#`, and the greatest number of keys for which Cassandra accepted the
/// statement in one batch.
const LARGEST: [(&str, usize); 14] = [
    ("INSERT INTO v (k) VALUES (#)", 1024),
    ("INSERT INTO v (k, i) VALUES (#, 1)", 691),
    ("INSERT INTO v (k, i) VALUES (#, null)", 731),
    ("INSERT INTO v (k, t) VALUES (#, '')", 731),
    ("INSERT INTO v (k, i, b) VALUES (#, 1, 1)", 501),
    ("INSERT INTO v (k, i) VALUES (#, 1) USING TTL 1000", 595),
    ("UPDATE v SET m['a'] = 1 WHERE k = #", 588),
    ("UPDATE v SET m = {'a': 1} WHERE k = #", 588),
    ("DELETE FROM v WHERE k = #", 1765),
    ("INSERT INTO p (k, j, c, v) VALUES (#, 1, 1, 1)", 656),
    ("INSERT INTO p (k, j, s) VALUES (#, 1, 1)", 966),
    ("DELETE FROM p WHERE k = # AND j = 1 AND c > 1", 1044),
    ("DELETE FROM p WHERE k = # AND j = 1 AND c = 1", 948),
    ("UPDATE n SET n = n + 1 WHERE k = #", 483),
];

async fn run(processor: &QueryProcessor, client: &mut ClientState, text: &str) -> Option<String> {
    let answer = processor.query(text, client, &QueryOptions::default()).await;
    if let Ok(QueryResult::SetKeyspace(keyspace)) = &answer {
        client.keyspace = Some(keyspace.clone());
    }
    answer.err().map(|error| error.message)
}

fn batch(kind: &str, statement: &str, keys: impl Iterator<Item = usize>) -> String {
    let statements: String =
        keys.map(|key| statement.replace('#', &key.to_string()) + "; ").collect();
    format!("BEGIN {kind} BATCH {statements}APPLY BATCH")
}

#[test]
fn batches_above_the_limit_are_refused() {
    block_on(async {
        let database = Node::open(
            ShardContext { index: 0, count: 1 },
            FileSystem::simulated(1),
            Arc::new(StorageConfiguration::new("node")),
            SharedStorage::new(),
        );
        let database = database.await.unwrap();
        let processor = QueryProcessor::new(database, Arc::new(PreparedCache::default()));
        let mut client = ClientState::default();
        for text in TABLES {
            assert_eq!(run(&processor, &mut client, text).await, None);
        }
        for (statement, largest) in LARGEST {
            let kind = if statement.contains("n + 1") { "COUNTER" } else { "UNLOGGED" };
            let text = batch(kind, statement, 0..largest);
            assert_eq!(run(&processor, &mut client, &text).await, None, "{statement}");
            let text = batch(kind, statement, 0..largest + 1);
            let refused = run(&processor, &mut client, &text).await.unwrap_or_default();
            assert!(refused.starts_with("Batch too large"), "{statement}: {refused}");
        }
        // Two partitions with texts of 25,530 bytes are at the limit. A batch of one partition has
        // no limit.
        let insert =
            |length: usize| format!("INSERT INTO v (k, t) VALUES (#, '{}')", "x".repeat(length));
        for (length, keys, is_refused) in
            [(25_530, [1, 2], false), (25_531, [1, 2], true), (60_000, [1, 1], false)]
        {
            let text = batch("", &insert(length), keys.into_iter());
            assert_eq!(run(&processor, &mut client, &text).await.is_some(), is_refused, "{length}");
        }
    });
}
