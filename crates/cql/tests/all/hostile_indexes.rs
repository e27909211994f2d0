//! Conditions on columns with indexes that try to take much time or memory.

use bytes::Bytes;
use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult, Value, Values};
use espalier_runtime::{
    block_on,
    file::FileSystem,
    trace::{Trace, traced},
};
use espalier_testing::Stopwatch;
use espalier_types::collection;

use super::{
    hostile_values::{PATIENCE, ints},
    support::node::{execute, open},
};

async fn open_with(statements: &[&str]) -> QueryProcessor {
    let (_, processor) = open(&FileSystem::simulated(1)).await;
    let keyspace =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    for statement in [keyspace].iter().chain(statements) {
        execute(&processor, statement).await.unwrap();
    }
    processor
}

async fn execute_with(
    processor: &QueryProcessor,
    statement: &str,
    values: &[Value],
) -> QueryResult {
    let options = QueryOptions { values: Values::Positional(values), ..QueryOptions::default() };
    processor.query(statement, &mut ClientState::default(), &options).await.unwrap()
}

/// Executes a query. Returns the number of its rows, and of the terms that it has looked up.
async fn search(processor: &QueryProcessor, query: &str, values: &[Value]) -> (i32, usize) {
    let trace = Trace::new(None);
    let answer = traced(Some(trace.clone()), execute_with(processor, query, values)).await;
    let QueryResult::Rows(rows) = answer else { panic!("{query}: no rows") };
    let log = trace.take_log();
    let names = log.events().into_iter().find_map(|event| {
        Some(event.text.strip_prefix("Reading by the secondary indexes ")?.split(", ").count())
    });
    (rows.row_count, names.unwrap_or(0))
}

/// A client may repeat CONTAINS as often as the text of a statement allows. Each term that a read
/// looks up takes memory for each source of entries.
#[test]
fn a_search_has_few_terms_however_many_conditions_there_are() {
    block_on(async {
        let processor = open_with(&[
            "CREATE TABLE k.t (k int PRIMARY KEY, s set<int>, v int)",
            "CREATE INDEX by_s ON k.t (s) USING 'sai'",
            "CREATE INDEX by_v ON k.t (v) USING 'sai'",
        ])
        .await;
        let insert = "INSERT INTO k.t (k, s, v) VALUES (?, ?, 3)";
        for (key, elements) in [(1, 200), (2, 199), (3, 100)] {
            let key = Value::Bytes(Bytes::copy_from_slice(&i32::to_be_bytes(key)));
            execute_with(&processor, insert, &[key, ints(0..elements)]).await;
        }
        let query = |count: i32, element: fn(i32) -> i32| {
            let conditions: Vec<_> =
                (0..count).map(|number| format!("s CONTAINS {}", element(number))).collect();
            format!("SELECT k FROM k.t WHERE {} AND v = 3", conditions.join(" AND "))
        };
        let equal = query(2000, |_| 199);
        let different = query(200, |number| number);
        assert_eq!(search(&processor, &equal, &[]).await, (1, 2));
        assert_eq!(search(&processor, &different, &[]).await, (1, 64));
        // With 20 files, 64 terms have more streams than a search may have.
        for _ in 0..20 {
            execute(&processor, "INSERT INTO k.t (k, s, v) VALUES (4, {0}, 3)").await.unwrap();
            processor.database().flush("k", None).await.unwrap();
        }
        let (rows, terms) = search(&processor, &different, &[]).await;
        assert_eq!(rows, 1);
        assert!((1..=64).contains(&terms), "{terms}");
    });
}

/// The index does not serve an IN of so many values, so the statement does not encode them for a
/// search.
#[test]
fn an_in_of_very_many_values_reads_without_the_index() {
    block_on(async {
        let processor = open_with(&[
            "CREATE TABLE k.t (k int PRIMARY KEY, v int)",
            "CREATE INDEX by_v ON k.t (v)",
            "INSERT INTO k.t (k, v) VALUES (1, 5)",
            "INSERT INTO k.t (k, v) VALUES (2, -1)",
        ])
        .await;
        let query = "SELECT k FROM k.t WHERE v IN ? ALLOW FILTERING";
        assert_eq!(search(&processor, query, &[ints(0..1000)]).await, (1, 1));
        assert_eq!(search(&processor, query, &[ints(0..100_000)]).await, (1, 0));
        // Equal values count, too.
        let equal = [ints((0..2000).map(|_| 5).collect::<Vec<_>>().into_iter())];
        assert_eq!(search(&processor, query, &equal).await, (1, 0));
    });
}

/// The text of a condition is analysed once, not for each element of each row.
#[test]
fn a_long_text_is_analysed_once() {
    const ELEMENTS: usize = 20_000;
    block_on(async {
        let processor = open_with(&[
            "CREATE TABLE k.t (k int PRIMARY KEY, v text, e set<text>, m map<text, int>)",
            "CREATE INDEX ON k.t (v) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}",
            "CREATE INDEX ON k.t (e) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}",
            "CREATE INDEX ON k.t (KEYS(m)) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}",
        ])
        .await;
        let long = "X".repeat(4 << 20);
        let texts: Vec<_> = (0..ELEMENTS).map(|number| format!("E{number}")).collect();
        let elements = collection::list_of(texts.iter().map(|text| text.as_bytes()));
        let entries = texts.iter().map(|text| (text.as_bytes(), &[0, 0, 0, 1][..]));
        let entries = collection::map_of(entries);
        let insert = "INSERT INTO k.t (k, v, e, m) VALUES (1, 'Text', ?, ?)";
        let values = [Value::Bytes(elements), Value::Bytes(entries)];
        execute_with(&processor, insert, &values).await;
        let start = Stopwatch::start();
        for condition in ["e CONTAINS ?", "m CONTAINS KEY ?", "v = ?"] {
            let query = format!("SELECT k FROM k.t WHERE k = 1 AND {condition}");
            let wanted = if condition == "v = ?" { "tEXT" } else { "e19999" };
            for (text, count) in [(wanted, 1), (long.as_str(), 0)] {
                let text = Value::Bytes(Bytes::copy_from_slice(text.as_bytes()));
                let (rows, _) = search(&processor, &query, &[text]).await;
                assert_eq!(rows, count, "{condition}");
            }
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}

/// The index analyses only the first part of a long text. In each form of the text, this part ends
/// elsewhere.
#[test]
fn a_long_text_is_found_by_its_other_forms() {
    block_on(async {
        let options = "{'case_sensitive': 'false', 'normalize': 'true', 'ascii': 'true'}";
        let processor = open_with(&[
            "CREATE TABLE k.t (k int PRIMARY KEY, v text)",
            &format!("CREATE INDEX ON k.t (v) USING 'sai' WITH OPTIONS = {options}"),
        ])
        .await;
        let texts = ["É".repeat(100_000), "e\u{301}".repeat(100_000), "E".repeat(100_000)];
        let text = |text: &str| Value::Bytes(Bytes::copy_from_slice(text.as_bytes()));
        let other = "é".repeat(99_999) + "x";
        for (key, value) in texts.iter().chain([&other]).enumerate() {
            let insert = format!("INSERT INTO k.t (k, v) VALUES ({key}, ?)");
            execute_with(&processor, &insert, &[text(value)]).await;
        }
        for (value, count) in texts.iter().map(|value| (value, 3)).chain([(&other, 1)]) {
            let query = "SELECT k FROM k.t WHERE v = ?";
            assert_eq!(search(&processor, query, &[text(value)]).await, (count, 1));
        }
    });
}

/// Each of these conditions is tested without a copy of the collection.
#[test]
fn many_conditions_of_a_select_do_not_copy_a_collection() {
    const ELEMENTS: i32 = 20_000;
    block_on(async {
        let processor =
            open_with(&["CREATE TABLE k.t (k int PRIMARY KEY, s set<int>, m map<int, int>)"]).await;
        let entries: Vec<_> = (0..ELEMENTS).map(i32::to_be_bytes).collect();
        let map = collection::map_of(entries.iter().map(|key| (&key[..], &key[..])));
        let insert = "INSERT INTO k.t (k, s, m) VALUES (1, ?, ?)";
        execute_with(&processor, insert, &[ints(0..ELEMENTS), Value::Bytes(map)]).await;
        execute(&processor, "INSERT INTO k.t (k) VALUES (2)").await.unwrap();
        let each = |condition: &str| {
            let conditions: Vec<_> = (0..ELEMENTS)
                .map(|number| format!("{condition} {}", number % 2 * (ELEMENTS - 1)))
                .collect();
            conditions.join(" AND ")
        };
        let start = Stopwatch::start();
        for (conditions, count) in [
            (each("s CONTAINS"), 1),
            (each("m CONTAINS KEY"), 1),
            (each("m CONTAINS KEY") + " AND m CONTAINS 7 AND m CONTAINS 0", 1),
            (each("s CONTAINS") + &format!(" AND s CONTAINS {ELEMENTS}"), 0),
            ("s NOT CONTAINS 7".to_string(), 0),
            ("s NOT CONTAINS -1".to_string(), 1),
            ("m NOT CONTAINS KEY -1".to_string(), 1),
        ] {
            for key in [1, 2] {
                let query =
                    format!("SELECT k FROM k.t WHERE k = {key} AND {conditions} ALLOW FILTERING");
                let (rows, _) = search(&processor, &query, &[]).await;
                let count = if key == 1 { count } else { 0 };
                assert_eq!(rows, count, "{}", &query[query.len().saturating_sub(80)..]);
            }
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}
