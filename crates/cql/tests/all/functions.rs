//! Functions, casts and operators, compared with the answers of a real Cassandra
//! (`testdata/cql/functions.txt`).
//!
//! A line `espalier | type | result | why` below an expression declares an intended difference, and
//! the answers must really differ.

use std::{path::PathBuf, sync::Arc};

use espalier_cql::{ClientState, PreparedCache, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{ShardContext, block_on, file::FileSystem};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};

const SETUP: [&str; 3] = [
    "CREATE KEYSPACE functions WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE functions.one (k int PRIMARY KEY, i int, ti tinyint, bi bigint, d double, dec decimal, vi varint, \
     t text, b blob, ts timestamp, l list<int>, s set<int>, m map<text, int>, v vector<float, 3>, nothing int)",
    "INSERT INTO functions.one (k, i, ti, bi, d, dec, vi, t, b, ts, l, s, m, v) VALUES (0, 1, 1, 2, 1.5, 2.50, 300, \
     'abc', 0x616263, '2020-01-02T03:04:05.678Z', [3, 1, 2], {1, 2, 3}, {'a': 1, 'b': 2}, [1, 2, 3])",
];

async fn run(
    processor: &QueryProcessor,
    statement: &str,
) -> Result<QueryResult, espalier_cql::Error> {
    let mut client = ClientState::default();
    processor.query(statement, &mut client, &QueryOptions::default()).await
}

/// Creates a node in memory with the table and its row.
async fn processor() -> QueryProcessor {
    let file_system = FileSystem::simulated(1);
    let configuration = StorageConfiguration::new("node");
    let context = ShardContext { index: 0, count: 1 };
    let shared = SharedStorage::new();
    let database = Node::open(context, file_system, Arc::new(configuration), shared).await.unwrap();
    let processor = QueryProcessor::new(database, Arc::new(PreparedCache::default()));
    for statement in SETUP {
        run(&processor, statement).await.unwrap();
    }
    processor
}

/// Evaluates an expression; for `column := term`, stores the term and reads the column. Returns
/// `type | result`, or an error such as `error 0x2200`, with its message.
async fn answer(processor: &QueryProcessor, expression: &str) -> (String, String) {
    let select = match expression.split_once(" := ") {
        Some((column, term)) => {
            let values = if term.starts_with("JSON ") {
                term.to_string()
            } else {
                format!("(k, {column}) VALUES (1, {term})")
            };
            let insert = format!("INSERT INTO functions.one {values}");
            if let Err(error) = run(processor, &insert).await {
                return (format!("error 0x{:04x}", error.code as u32), error.message);
            }
            format!("SELECT {column} FROM functions.one WHERE k = 1")
        }
        None => format!("SELECT {expression} FROM functions.one WHERE k = 0"),
    };
    match run(processor, &select).await {
        Err(error) => (format!("error 0x{:04x}", error.code as u32), error.message),
        Ok(QueryResult::Rows(rows)) => {
            assert_eq!(rows.row_count, 1, "{expression}");
            let column = &rows.metadata.columns[0];
            let mut name = column.column_type.cql_name();
            if let Some(inner) = name.strip_prefix("frozen<").and_then(|n| n.strip_suffix('>')) {
                name = inner.to_string();
            }
            let (length, value) = rows.content.split_at(4);
            let result = match i32::from_be_bytes(length.try_into().unwrap()) {
                -1 => "null".to_string(),
                _ => value.iter().fold("0x".to_string(), |hex, byte| format!("{hex}{byte:02x}")),
            };
            (format!("{name} | {result}"), String::new())
        }
        Ok(other) => panic!("{expression}: {other:?}"),
    }
}

#[test]
fn functions_answer_as_cassandra_does() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cql/functions.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut wrong = Vec::new();
    let mut checked = 0;
    block_on(async {
        let processor = processor().await;
        for (index, line) in lines.iter().enumerate() {
            if line.is_empty() || line.starts_with(['#', ' ']) {
                continue;
            }
            let mut parts = line.split(" | ");
            let expression = parts.next().unwrap();
            let cassandra = parts.take(2).collect::<Vec<_>>().join(" | ");
            let ours = lines
                .get(index + 1)
                .and_then(|next| next.strip_prefix("  espalier | "))
                .map(|next| next.split(" | ").take(2).collect::<Vec<_>>().join(" | "));
            let (found, message) = answer(&processor, expression).await;
            let agrees = |expected: &str| {
                found == expected || found.starts_with("error") && expected.starts_with(&found)
            };
            match &ours {
                Some(ours) if agrees(ours) && !agrees(&cassandra) => {}
                None if agrees(&cassandra) => {}
                _ => wrong.push(format!(
                    "{expression}\n    expected {}\n    found    {found} {message}",
                    ours.unwrap_or(cassandra)
                )),
            }
            checked += 1;
        }
    });
    assert!(checked > 1000, "only {checked} expressions");
    assert!(wrong.is_empty(), "{} of {checked} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Cassandra 5.0.9 reports a hinted marker to drivers with the type of its receiver, except in a
/// selector.
#[test]
fn hinted_markers_have_the_receivers_type() {
    let cases = [
        ("INSERT INTO functions.one (k, vi) VALUES ((int) ?, (int) ?)", "int varint"),
        ("INSERT INTO functions.one (k, b) VALUES (1, (text) ?)", "blob"),
        ("INSERT INTO functions.one (k, vi) VALUES (1, (int) 1 + (int) ?)", "int"),
        ("SELECT k FROM functions.one WHERE ts = (bigint) ? ALLOW FILTERING", "timestamp"),
        ("SELECT (varint) ? FROM functions.one", "varint"),
        ("SELECT blob_as_int((int) ?) FROM functions.one", "int"),
    ];
    block_on(async {
        let processor = processor().await;
        for (statement, expected) in cases {
            let prepared = processor.prepare(statement, &ClientState::default()).unwrap();
            let markers = prepared.bind.columns.iter();
            let types: Vec<String> = markers.map(|marker| marker.column_type.cql_name()).collect();
            assert_eq!(types.join(" "), expected, "{statement}");
        }
        let refused = "INSERT INTO functions.one (k, bi) VALUES (1, (int) ?)";
        assert!(processor.prepare(refused, &ClientState::default()).is_err());
    });
}
