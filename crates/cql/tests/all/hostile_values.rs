//! Bound values and statements that try to take much time or memory, and values that are null or
//! unset.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use espalier_cql::{
    ClientState, PreparedCache, QueryOptions, QueryProcessor, QueryResult, Result, Value, Values,
};
use espalier_runtime::{ShardContext, block_on, file::FileSystem};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};
use espalier_testing::Stopwatch;
use espalier_types::collection;

/// Linear and n log n time take a fraction of a second without optimisation, quadratic time takes
/// minutes.
pub const PATIENCE: Duration = Duration::from_secs(10);

pub struct TestNode {
    processor: QueryProcessor,
    client: ClientState,
}

impl TestNode {
    pub async fn new() -> Self {
        let database = Node::open(
            ShardContext { index: 0, count: 1 },
            FileSystem::simulated(1),
            Arc::new(StorageConfiguration::new("node")),
            SharedStorage::new(),
        );
        let processor =
            QueryProcessor::new(database.await.unwrap(), Arc::new(PreparedCache::default()));
        let mut node = Self { processor, client: ClientState::default() };
        for text in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "USE ks",
            "CREATE TABLE t (k int PRIMARY KEY, v int, s set<int>, l list<int>) WITH default_time_to_live = 1000",
        ] {
            node.query(text, Values::NONE).await.unwrap();
        }
        node
    }

    /// Creates the table `m` and inserts the map `{0: 0, 1: -1, 2: -2, …}` with `count` elements.
    pub async fn insert_map(&mut self, count: i32) {
        let table = "CREATE TABLE m (k int PRIMARY KEY, m map<int, int>, v int)";
        self.query(table, Values::NONE).await.unwrap();
        let mut bytes = count.to_be_bytes().to_vec();
        for number in 0..count {
            for part in [4, number, 4, -number] {
                bytes.extend_from_slice(&part.to_be_bytes());
            }
        }
        let map = [Value::Bytes(bytes.into())];
        self.query("INSERT INTO m (k, m) VALUES (1, ?)", Values::Positional(&map)).await.unwrap();
    }

    pub async fn query(&mut self, text: &str, values: Values<'_>) -> Result<QueryResult> {
        self.query_with(text, &QueryOptions { values, ..QueryOptions::default() }).await
    }

    pub async fn query_with(
        &mut self,
        text: &str,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        self.processor.query(text, &mut self.client, options).await
    }

    /// Returns the content of the only row, without the lengths of its cells.
    pub async fn row(&mut self, text: &str) -> Vec<Option<Vec<u8>>> {
        let QueryResult::Rows(rows) = self.query(text, Values::NONE).await.unwrap() else {
            panic!("{text}: no rows")
        };
        assert_eq!(rows.row_count, 1);
        let mut rest = rows.content.as_slice();
        let mut cells = Vec::new();
        while !rest.is_empty() {
            let (length, tail) = rest.split_at(4);
            let length = i32::from_be_bytes(length.try_into().unwrap());
            let (cell, tail) = tail.split_at(length.max(0) as usize);
            cells.push((length >= 0).then(|| cell.to_vec()));
            rest = tail;
        }
        cells
    }
}

pub fn int(value: i32) -> Value {
    Value::Bytes(Bytes::copy_from_slice(&value.to_be_bytes()))
}

/// Encodes a list or set of ints as a client sends it.
pub fn ints(values: impl ExactSizeIterator<Item = i32>) -> Value {
    let mut bytes = (values.len() as i32).to_be_bytes().to_vec();
    for value in values {
        bytes.extend_from_slice(&4i32.to_be_bytes());
        bytes.extend_from_slice(&value.to_be_bytes());
    }
    Value::Bytes(bytes.into())
}

#[test]
fn large_collections_in_the_worst_order_take_no_longer() {
    const COUNT: i32 = 100_000;
    block_on(async {
        let mut node = TestNode::new().await;
        let start = Stopwatch::start();
        let descending = [ints((0..COUNT).rev())];
        node.query("UPDATE t SET s = ? WHERE k = 1", Values::Positional(&descending))
            .await
            .unwrap();
        let ascending = [ints(0..COUNT)];
        node.query("UPDATE t SET l = ? + l WHERE k = 1", Values::Positional(&ascending))
            .await
            .unwrap();
        node.query("UPDATE t SET l = l + [-1, -1] WHERE k = 1", Values::NONE).await.unwrap();
        let all_but_one = [ints((1..COUNT).rev())];
        node.query("UPDATE t SET l = l - ? WHERE k = 1", Values::Positional(&all_but_one))
            .await
            .unwrap();
        let row = node.row("SELECT collection_count(s), l FROM t WHERE k = 1").await;
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        let Value::Bytes(left) = ints([0, -1, -1].into_iter()) else { unreachable!() };
        assert_eq!(row, [Some(COUNT.to_be_bytes().to_vec()), Some(left.to_vec())]);
    });
}

#[test]
fn conditions_that_exclude_each_other_come_before_an_invalid_value() {
    block_on(async {
        let mut node = TestNode::new().await;
        let short = [Value::Bytes(Bytes::from_static(&[1, 2]))];
        for (condition, error) in [
            ("v = 1", "Cannot mix IF conditions and IF NOT EXISTS for the same row"),
            ("EXISTS", "Invalid value for \"v\": expected 0 or 4 bytes for int, got 2 bytes"),
        ] {
            let text = format!(
                "BEGIN BATCH UPDATE t SET v = ? WHERE k = 1 IF EXISTS; \
                 UPDATE t SET v = 2 WHERE k = 1 IF {condition}; APPLY BATCH"
            );
            let outcome = node.query(&text, Values::Positional(&short)).await;
            assert_eq!(outcome.unwrap_err().message, error);
        }
    });
}

#[test]
fn the_later_of_equal_elements_stays() {
    block_on(async {
        let mut node = TestNode::new().await;
        node.query("CREATE TABLE m (k int PRIMARY KEY, m map<int, int>)", Values::NONE)
            .await
            .unwrap();
        // The map {2: 20, 1: 10, 2: 21}, which no driver would send.
        let mut bytes = 3i32.to_be_bytes().to_vec();
        for number in [2i32, 20, 1, 10, 2, 21] {
            bytes.extend_from_slice(&4i32.to_be_bytes());
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        let values = [Value::Bytes(bytes.into())];
        node.query("INSERT INTO m (k, m) VALUES (1, ?)", Values::Positional(&values))
            .await
            .unwrap();
        let row = node.row("SELECT m[1], m[2] FROM m WHERE k = 1").await;
        assert_eq!(row, [Some(10i32.to_be_bytes().to_vec()), Some(21i32.to_be_bytes().to_vec())]);
    });
}

/// Cassandra and this node sort bound sets. Only this node sorts sets inside tuples.
#[test]
fn bound_unsorted_sets_equal_sorted_literals() {
    block_on(async {
        let mut node = TestNode::new().await;
        let table = "CREATE TABLE u (k frozen<set<int>>, c tuple<frozen<set<int>>>, v frozen<list<frozen<set<int>>>>, \
            PRIMARY KEY (k, c))";
        node.query(table, Values::NONE).await.unwrap();
        let inside = |value: &Value| {
            let Value::Bytes(bytes) = value else { unreachable!() };
            collection::tuple_of([Some(bytes)])
        };
        let list_of = |value: &Value| {
            let Value::Bytes(bytes) = value else { unreachable!() };
            Value::Bytes(collection::list_of([bytes]))
        };
        let insert = "INSERT INTO u (k, c, v) VALUES (?, ?, ?)";
        let set = |values: &[i32]| ints(values.iter().copied());
        for (key, element) in [([3, 1], [2, 1]), ([1, 3], [1, 2])] {
            let (key, element) = (set(&key), set(&element));
            let values = [key, Value::Bytes(inside(&element)), list_of(&element)];
            node.query(insert, Values::Positional(&values)).await.unwrap();
        }
        let one = Some(1i64.to_be_bytes().to_vec());
        let literal = "SELECT count(*) FROM u WHERE k = {1, 3} AND c = ({1, 2})";
        assert_eq!(node.row(literal).await, std::slice::from_ref(&one));
        assert_eq!(node.row("SELECT count(*) FROM u").await, std::slice::from_ref(&one));
        let filter = "SELECT count(*) FROM u WHERE v = [{1, 2}] ALLOW FILTERING";
        assert_eq!(node.row(filter).await, std::slice::from_ref(&one));
        let unsorted = set(&[3, 1, 3]);
        let tuple = Value::Bytes(inside(&set(&[2, 2, 1])));
        let Value::Bytes(in_list) = list_of(&unsorted) else { unreachable!() };
        for (text, values) in [
            ("k = ?", vec![unsorted.clone()]),
            ("k IN (?, ?)", vec![unsorted.clone(), set(&[1, 3])]),
            ("k IN ?", vec![Value::Bytes(in_list)]),
            ("token(k) = token(?)", vec![unsorted.clone()]),
            ("k = ? AND c = ?", vec![unsorted.clone(), tuple.clone()]),
            ("k = ? AND c >= ? AND c <= ?", vec![unsorted, tuple.clone(), tuple]),
            ("v = ? ALLOW FILTERING", vec![list_of(&set(&[2, 1]))]),
            ("v CONTAINS ? ALLOW FILTERING", vec![set(&[2, 1])]),
        ] {
            let text = format!("SELECT count(*) FROM u WHERE {text}");
            let result = node.query(&text, Values::Positional(&values)).await.unwrap();
            let QueryResult::Rows(rows) = result else { panic!("{text}: no rows") };
            assert_eq!(rows.content[4..], one.clone().unwrap(), "{text}");
        }
    });
}

#[test]
fn many_named_values_are_found_at_once() {
    block_on(async {
        let mut node = TestNode::new().await;
        let names: Vec<String> = (0..60_000).map(|index| format!("name_{index:06}")).collect();
        let values: Vec<(&str, Value)> =
            names.iter().rev().map(|name| (name.as_str(), int(1))).collect();
        let markers: Vec<String> = names.iter().map(|name| format!(":{name}")).collect();
        let text = format!("SELECT v FROM t WHERE k IN ({})", markers.join(", "));
        let start = Stopwatch::start();
        node.query(&text, Values::Named(&values)).await.unwrap();
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}

#[test]
fn bounds_of_markers_keys_and_prepared_text() {
    block_on(async {
        let mut node = TestNode::new().await;
        let text = format!("SELECT v FROM t WHERE k IN ({})", vec!["?"; 65_536].join(", "));
        let error = node.query(&text, Values::NONE).await.unwrap_err();
        assert!(error.message.contains("Too many bind markers"), "{error:?}");
        let numbers: Vec<String> = (0..70_000).map(|number| number.to_string()).collect();
        let text = format!("SELECT v FROM t WHERE k IN ({})", numbers.join(", "));
        let error = node.query(&text, Values::NONE).await.unwrap_err();
        assert!(error.message.contains("more than 65535 combinations"), "{error:?}");
        let text = format!("SELECT v FROM t WHERE k = 1 /* {} */", "long ".repeat(1 << 18));
        let error = node.processor.prepare(&text, &node.client).unwrap_err();
        assert!(error.message.contains("larger than allowed maximum of 1 MB"), "{error:?}");
        // Each statement of a batch has access to all markers of the batch. Planning must not take
        // time proportional to the number of statements times the number of markers.
        let start = Stopwatch::start();
        let update = "UPDATE t SET v = ? WHERE k = 1; ";
        let text = format!("BEGIN BATCH {} APPLY BATCH", update.repeat(20_000));
        node.processor.prepare(&text, &node.client).unwrap();
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}

#[test]
fn null_is_no_ttl_and_unset_is_the_default() {
    block_on(async {
        let mut node = TestNode::new().await;
        let insert = "INSERT INTO t (k, v) VALUES (1, 1) USING TTL ?";
        node.query(insert, Values::Positional(&[Value::Unset])).await.unwrap();
        assert_ne!(node.row("SELECT ttl(v) FROM t WHERE k = 1").await, [None]);
        node.query(insert, Values::Positional(&[Value::Null])).await.unwrap();
        assert_eq!(node.row("SELECT ttl(v) FROM t WHERE k = 1").await, [None]);
        let insert = "INSERT INTO t (k, v) VALUES (1, 1) USING TIMESTAMP ?";
        node.query(insert, Values::Positional(&[Value::Unset])).await.unwrap();
        let error = node.query(insert, Values::Positional(&[Value::Null])).await.unwrap_err();
        assert_eq!(error.message, "Invalid null value of timestamp");
    });
}

#[test]
fn pages_end_where_they_are_large_enough() {
    block_on(async {
        let mut node = TestNode::new().await;
        node.query("CREATE TABLE b (k int, c int, b blob, PRIMARY KEY (k, c))", Values::NONE)
            .await
            .unwrap();
        let blob = Value::Bytes(vec![7; 512 << 10].into());
        for c in 0..40 {
            let values = [int(c), blob.clone()];
            node.query("INSERT INTO b (k, c, b) VALUES (1, ?, ?)", Values::Positional(&values))
                .await
                .unwrap();
        }
        for text in ["SELECT c, b FROM b WHERE k = 1", "SELECT c, b FROM b GROUP BY k, c"] {
            let (mut state, mut rows_seen, mut pages) = (None, 0, 0);
            loop {
                let options = QueryOptions {
                    page_size: Some(5000),
                    paging_state: state.as_deref(),
                    ..QueryOptions::default()
                };
                let result = node.processor.query(text, &mut node.client, &options).await.unwrap();
                let QueryResult::Rows(rows) = result else { panic!("no rows") };
                assert!(rows.content.len() < 8 << 20, "{}", rows.content.len());
                rows_seen += rows.row_count;
                pages += 1;
                state = rows.paging_state;
                if state.is_none() {
                    break;
                }
            }
            assert_eq!(rows_seen, 40, "{text}");
            assert!(pages > 3, "{text}: {pages}");
        }
    });
}

/// Arithmetic and printing take time quadratic in the number of digits, so the node limits the size
/// of the operands.
#[test]
fn numbers_too_large_to_compute_with_are_refused() {
    const EXPRESSIONS: [&str; 17] = [
        "cast(v as text)",
        "cast(v as double)",
        "cast(v as decimal)",
        "to_json(v)",
        "v * v",
        "v % 12345678901234567890",
        "v / 7",
        "-v",
        "exp(v)",
        "log(v)",
        "sum(v)",
        "cast(d as text)",
        "to_json(d)",
        "d + d",
        "log10(d)",
        "to_json(s)",
        "json v",
    ];
    block_on(async {
        let mut node = TestNode::new().await;
        let table =
            "CREATE TABLE n (k int PRIMARY KEY, v varint, d decimal, s frozen<set<varint>>)";
        node.query(table, Values::NONE).await.unwrap();
        let number = vec![1; 1 << 20];
        let decimal = [&5i32.to_be_bytes()[..], &number].concat();
        let set = Value::Bytes(collection::list_of([&number]));
        let values = [Value::Bytes(number.into()), Value::Bytes(decimal.into()), set];
        let insert = "INSERT INTO n (k, v, d, s) VALUES (1, ?, ?, ?)";
        node.query(insert, Values::Positional(&values)).await.unwrap();
        let start = Stopwatch::start();
        for expression in EXPRESSIONS {
            let text = format!("SELECT {expression} FROM n WHERE k = 1");
            let error = node.query(&text, Values::NONE).await.unwrap_err();
            assert!(error.message.contains("the limit is 16384 bytes"), "{text}: {error}");
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        // Returning and comparing such numbers needs no arithmetic.
        let row = node.row("SELECT v, max(v) FROM n WHERE k = 1").await;
        assert_eq!((&row[0], row[0].as_ref().unwrap().len()), (&row[1], 1 << 20));
    });
}

#[test]
fn a_document_is_checked_against_the_columns_of_each_table() {
    block_on(async {
        let mut node = TestNode::new().await;
        for text in [
            "CREATE TABLE one (k int PRIMARY KEY, a int)",
            "CREATE TABLE two (k int PRIMARY KEY, b int)",
        ] {
            node.query(text, Values::NONE).await.unwrap();
        }
        let values = [Value::Bytes(Bytes::from_static(b"{\"k\": 1, \"a\": 2}"))];
        let values = Values::Positional(&values);
        node.query("INSERT INTO one JSON ?", values).await.unwrap();
        let error = node.query("INSERT INTO two JSON ?", values).await.unwrap_err().to_string();
        assert!(error.contains("unrecognized column: a"), "{error}");
    });
}

#[test]
fn a_large_document_is_read_once_for_all_columns() {
    const COLUMNS: usize = 500;
    block_on(async {
        let mut node = TestNode::new().await;
        let columns: String = (0..COLUMNS).map(|index| format!(", c{index} int")).collect();
        let table = format!("CREATE TABLE j (k int PRIMARY KEY{columns})");
        node.query(&table, Values::NONE).await.unwrap();
        let document = format!("{{\"k\": 1{}}}", ", \"c0\": 7".repeat(300_000));
        let values = [Value::Bytes(document.into())];
        let start = Stopwatch::start();
        node.query("INSERT INTO j JSON ?", Values::Positional(&values)).await.unwrap();
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        let row = node.row("SELECT c0, c1 FROM j WHERE k = 1").await;
        assert_eq!(row, [Some(7i32.to_be_bytes().to_vec()), None]);
    });
}

#[test]
fn many_references_to_one_collection_share_its_value() {
    const ELEMENTS: i32 = 4_000;
    const REFERENCES: i32 = 30_000;
    block_on(async {
        let mut node = TestNode::new().await;
        node.insert_map(ELEMENTS).await;
        let condition = |number: i32| {
            let key = number % ELEMENTS;
            format!("x.m[{key}] = {} AND x.m IS NOT NULL", -key)
        };
        let conditions: Vec<_> = (0..REFERENCES).map(condition).collect();
        let transaction = format!(
            "BEGIN TRANSACTION LET x = (SELECT m FROM m WHERE k = 1); IF {} THEN \
             UPDATE m SET v = 7 WHERE k = 1; END IF COMMIT TRANSACTION",
            conditions.join(" AND ")
        );
        let start = Stopwatch::start();
        node.query(&transaction, Values::NONE).await.unwrap();
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        let row = node.row("SELECT v FROM m WHERE k = 1").await;
        assert_eq!(row, [Some(7i32.to_be_bytes().to_vec())]);
    });
}

#[test]
fn many_conditions_on_one_collection_do_not_copy_it() {
    const ELEMENTS: i32 = 10_000;
    block_on(async {
        let mut node = TestNode::new().await;
        node.insert_map(ELEMENTS).await;
        let conditions: Vec<_> = (0..2 * ELEMENTS)
            .map(|number| {
                let key = number % ELEMENTS;
                format!("m[{key}] = {} AND m != {{}}", -key)
            })
            .collect();
        let update = format!("UPDATE m SET v = 7 WHERE k = 1 IF {}", conditions.join(" AND "));
        let start = Stopwatch::start();
        assert_eq!(node.row(&update).await, [Some(vec![1])]);
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}

#[test]
fn many_changes_of_one_list_do_not_copy_it() {
    const ELEMENTS: i32 = 10_000;
    block_on(async {
        let mut node = TestNode::new().await;
        let list = [ints(0..ELEMENTS)];
        let insert = "INSERT INTO t (k, l) VALUES (1, ?)";
        node.query(insert, Values::Positional(&list)).await.unwrap();
        // The first assignment deletes an element, so the indices of the others move.
        let last = ELEMENTS - 2;
        let assignments: Vec<_> = (0..=last).map(|index| format!("l[{index}] = 1")).collect();
        let update = format!("UPDATE t SET l[0] = null, {} WHERE k = 1", assignments.join(", "));
        let start = Stopwatch::start();
        node.query(&update, Values::NONE).await.unwrap();
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        let Value::Bytes(changed) = ints((0..last + 1).map(|_| 1)) else { unreachable!() };
        assert_eq!(node.row("SELECT l FROM t WHERE k = 1").await, [Some(changed.to_vec())]);
    });
}

#[test]
fn rows_are_compared_with_a_long_list_of_an_in_at_once() {
    const VALUES: i32 = 50_000;
    const ROWS: i32 = 1_000;
    block_on(async {
        let mut node = TestNode::new().await;
        for key in 0..ROWS {
            let values = [int(key), int(2 * key)];
            let insert = "INSERT INTO t (k, v) VALUES (?, ?)";
            node.query(insert, Values::Positional(&values)).await.unwrap();
        }
        let start = Stopwatch::start();
        let none = 0;
        for (operator, count) in [("IN", ROWS), ("NOT IN", none)] {
            let text = format!("SELECT count(*) FROM t WHERE v {operator} ? ALLOW FILTERING");
            let list = [ints((0..VALUES).rev())];
            let result = node.query(&text, Values::Positional(&list)).await.unwrap();
            let QueryResult::Rows(rows) = result else { panic!("{text}: no rows") };
            assert_eq!(rows.content[4..], i64::from(count).to_be_bytes(), "{text}");
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}
