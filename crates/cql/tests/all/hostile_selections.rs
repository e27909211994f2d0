//! Selections that try to take much time or memory: large values that a row repeats, collections
//! that many selectors name, and sorted reads of many partitions.

use std::future::{Future, poll_fn};

use espalier_cql::{ErrorDetail, QueryOptions, QueryResult, Value, Values};
use espalier_runtime::{block_on, preempt::force_every_yield};
use espalier_testing::Stopwatch;
use espalier_types::collection::list_of;

use crate::hostile_values::{PATIENCE, TestNode, int, ints};

#[test]
fn a_row_that_repeats_a_large_value_is_refused() {
    block_on(async {
        let mut node = TestNode::new().await;
        let table = "CREATE TABLE b (k int, c int, v blob, t text, PRIMARY KEY (k, c))";
        node.query(table, Values::NONE).await.unwrap();
        let blob = Value::Bytes(vec![b'x'; 1 << 20].into());
        let values = [blob.clone(), blob];
        let insert = "INSERT INTO b (k, c, v, t) VALUES (1, 1, ?, ?)";
        node.query(insert, Values::Positional(&values)).await.unwrap();
        let repeated = |part: &str, separator: &str| vec![part; 600].join(separator);
        let sum = |count: usize| format!("({})", vec!["t"; count].join(" + "));
        for selection in [
            repeated("v", ", "),
            format!("[{}]", repeated("v", ", ")),
            format!("({})", repeated("v", ", ")),
            vec![sum(10); 30].join(" + "),
            format!("JSON {}", repeated("v", ", ")),
            format!("count(*), {}", repeated("v", ", ")),
        ] {
            for (condition, page_size) in
                [("k = 1 AND c = 1", None), ("k = 1", None), ("k = 1", Some(10))]
            {
                let text = format!("SELECT {selection} FROM b WHERE {condition}");
                let options = QueryOptions { page_size, ..QueryOptions::default() };
                let outcome = node.query_with(&text, &options).await;
                let message = outcome.map(|_| ()).unwrap_err().message;
                let refusal = match page_size {
                    None => "The result is larger than 256 MiB; use paging",
                    Some(_) => "A row of the result is larger than 256 MiB; select fewer values",
                };
                let is_expected = message.contains(refusal)
                    || message.contains("computes too much with large values");
                assert!(is_expected, "{message}");
            }
        }
        let row = node.row("SELECT v, c, v FROM b WHERE k = 1 AND c = 1").await;
        assert_eq!((row[0].as_ref().unwrap().len(), &row[0]), (1 << 20, &row[2]));
        assert_eq!(row[1], Some(vec![0, 0, 0, 1]));
    });
}

/// The last row of a page may exceed the memory of the answer, but not many times.
#[test]
fn a_row_that_repeats_its_values_waits_for_memory() {
    block_on(async {
        let mut node = TestNode::new().await;
        let table = "CREATE TABLE b (k int, c int, v blob, PRIMARY KEY (k, c))";
        node.query(table, Values::NONE).await.unwrap();
        let insert = "INSERT INTO b (k, c, v) VALUES (1, 1, ?)";
        let blob = [Value::Bytes(vec![7; 1 << 20].into())];
        node.query(insert, Values::Positional(&blob)).await.unwrap();
        for (selection, answer_bytes, is_refused) in [
            ("v", 64 << 10, false),
            ("v, k, c", 64 << 10, false),
            ("v, v", 64 << 10, true),
            ("v, v", 1 << 20, false),
        ] {
            let text = format!("SELECT {selection} FROM b WHERE k = 1");
            let options =
                QueryOptions { page_size: Some(10), answer_bytes, ..QueryOptions::default() };
            let outcome = node.query_with(&text, &options).await;
            let detail = outcome.err().map(|error| error.detail);
            assert_eq!(detail, is_refused.then_some(ErrorDetail::AnswerTooLarge), "{selection}");
        }
    });
}

#[test]
fn a_sorted_read_of_many_partitions_keeps_only_the_rows_of_its_answer() {
    const PARTITIONS: i32 = 20;
    const ROWS: i32 = 30;
    block_on(async {
        let mut node = TestNode::new().await;
        let table = "CREATE TABLE o (k int, c int, v blob, PRIMARY KEY (k, c))";
        node.query(table, Values::NONE).await.unwrap();
        // Later partitions have smaller clusterings, and each clustering is in two partitions.
        let clustering = |key: i32, row: i32| 10 * (PARTITIONS - key / 2 * 2) + row;
        let mut all = Vec::new();
        for key in 0..PARTITIONS {
            for row in 0..ROWS {
                all.push((clustering(key, row), key));
                let insert = "INSERT INTO o (k, c, v) VALUES (?, ?, ?)";
                let value = Value::Bytes(vec![key as u8; 4 << 10].into());
                let values = [int(key), int(clustering(key, row)), value];
                node.query(insert, Values::Positional(&values)).await.unwrap();
            }
        }
        let keys: Vec<_> = (0..PARTITIONS).map(|key| key.to_string()).collect();
        let keys = keys.join(", ");
        for (order, limit) in [("ASC", 7), ("DESC", 7), ("ASC", 25), ("DESC", 25)] {
            all.sort_by_key(|(c, _)| if order == "ASC" { *c } else { -c });
            for group_by in ["", "GROUP BY k, c "] {
                let text = format!(
                    "SELECT c, v FROM o WHERE k IN ({keys}) {group_by}ORDER BY c {order} LIMIT {limit}"
                );
                // All rows have 2.4 MiB, and those of all partitions up to the limit 560 KiB.
                let options = QueryOptions { answer_bytes: 128 << 10, ..QueryOptions::default() };
                let outcome = node.query_with(&text, &options).await;
                let QueryResult::Rows(rows) = outcome.unwrap() else { unreachable!() };
                assert_eq!(rows.row_count, limit as i32);
                let found = rows.content.chunks(4 + 4 + 4 + (4 << 10));
                let clustering = |row: &[u8]| i32::from_be_bytes(row[4..8].try_into().unwrap());
                let found = found.map(|row| (clustering(row), i32::from(row[12])));
                // Rows with the same clustering come in the order of the values of the IN.
                assert!(found.eq(all.iter().copied().take(limit)), "{text}");
            }
        }
    });
}

#[test]
fn many_selectors_of_one_collection_do_not_copy_it() {
    const SELECTORS: i32 = 10_000;
    block_on(async {
        let mut node = TestNode::new().await;
        node.insert_map(100_000).await;
        let insert = "UPDATE m USING TIMESTAMP 7 SET m[5] = 6 WHERE k = 2";
        node.query(insert, Values::NONE).await.unwrap();
        for (selector, expected) in [
            ("m[#]", Some(vec![0, 0, 0, 6])),
            ("m[#..#]", Some(vec![0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 6])),
            ("writetime(m[#])", Some(7i64.to_be_bytes().to_vec())),
            ("maxwritetime(m[#..#])", Some(7i64.to_be_bytes().to_vec())),
            ("ttl(m[#])", None),
        ] {
            let select = |element: i32| selector.replace('#', &element.to_string());
            let selectors: Vec<_> = (0..SELECTORS).map(select).collect();
            let text = |key: i32| format!("SELECT {} FROM m WHERE k = {key}", selectors.join(", "));
            let start = Stopwatch::start();
            let large = node.row(&text(1)).await;
            assert!(start.elapsed() < PATIENCE, "{selector}: {:?}", start.elapsed());
            assert_eq!(large.len(), SELECTORS as usize);
            assert_eq!(large[9].is_some(), expected.is_some(), "{selector}");
            let small = node.row(&text(2)).await;
            assert_eq!(
                small.iter().filter(|value| value.is_some()).count(),
                usize::from(expected.is_some())
            );
            assert_eq!(small[5], expected, "{selector}");
        }
    });
}

/// The elements of a frozen collection are found by a scan, so a row may do only a limited work.
#[test]
fn many_selectors_of_one_frozen_collection_are_refused() {
    block_on(async {
        let mut node = TestNode::new().await;
        let table = "CREATE TABLE f (k int PRIMARY KEY, s frozen<set<blob>>)";
        node.query(table, Values::NONE).await.unwrap();
        let elements = (0..1000_u32).map(|number| [&number.to_be_bytes()[..], &[0; 2000]].concat());
        let set = [Value::Bytes(list_of(elements.collect::<Vec<_>>()))];
        let insert = "INSERT INTO f (k, s) VALUES (1, ?)";
        node.query(insert, Values::Positional(&set)).await.unwrap();
        let text = |selector: &str, count: usize| {
            format!("SELECT {} FROM f WHERE k = 1", vec![selector; count].join(", "))
        };
        let start = Stopwatch::start();
        for selector in ["s[0x01]", "[s[0x01]]", "collection_max(s)", "[collection_max(s)]"] {
            node.row(&text(selector, 10)).await;
            let outcome = node.query(&text(selector, 1_000), Values::NONE).await;
            let message = outcome.unwrap_err().message;
            assert!(message.contains("computes too much with large values"), "{message}");
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}

#[test]
fn a_static_collection_is_made_once_for_all_rows_of_its_partition() {
    const ROWS: i32 = 2_000;
    const ELEMENTS: i32 = 20_000;
    block_on(async {
        let mut node = TestNode::new().await;
        let table = "CREATE TABLE st (k int, c int, s list<int> static, v int, PRIMARY KEY (k, c))";
        node.query(table, Values::NONE).await.unwrap();
        for key in 0..2 {
            let values = [int(key), ints(key..key + ELEMENTS)];
            let insert = "INSERT INTO st (k, s) VALUES (?, ?)";
            node.query(insert, Values::Positional(&values)).await.unwrap();
            for c in 0..ROWS {
                let values = [int(key), int(c)];
                let insert = "INSERT INTO st (k, c, v) VALUES (?, ?, 1)";
                node.query(insert, Values::Positional(&values)).await.unwrap();
            }
        }
        let start = Stopwatch::start();
        for (text, expected) in [
            ("SELECT count(s) FROM st", 2 * ROWS),
            ("SELECT sum(collection_count(s)) FROM st WHERE k = 1", ROWS * ELEMENTS),
            (
                "SELECT count(s) FROM st WHERE k IN (0, 1) AND s CONTAINS 1 ALLOW FILTERING",
                2 * ROWS,
            ),
            ("SELECT count(v) FROM st WHERE s CONTAINS 1 ALLOW FILTERING", 2 * ROWS),
        ] {
            let row = node.row(text).await;
            let value = row[0].as_deref().unwrap();
            assert_eq!(value[value.len() - 4..], expected.to_be_bytes(), "{text}");
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        let firsts = "SELECT s FROM st WHERE k IN (0, 1) PER PARTITION LIMIT 1";
        let QueryResult::Rows(rows) = node.query(firsts, Values::NONE).await.unwrap() else {
            unreachable!()
        };
        let lists = rows.content.chunks(8 + 8 * ELEMENTS as usize);
        let first_elements = lists.map(|list| list[15]);
        assert!(first_elements.eq([0, 1]));
    });
}

/// A call or an element that reads a few bytes of a large value costs little, however many rows.
#[test]
fn small_parts_of_a_large_static_value_are_selected_for_each_row() {
    block_on(async {
        let mut node = TestNode::new().await;
        let table = "CREATE TABLE fs (k int, c int, s frozen<set<int>> static, PRIMARY KEY (k, c))";
        node.query(table, Values::NONE).await.unwrap();
        let insert = "INSERT INTO fs (k, s) VALUES (1, ?)";
        node.query(insert, Values::Positional(&[ints(0..300_000)])).await.unwrap();
        for c in 0..500 {
            let insert = "INSERT INTO fs (k, c) VALUES (1, ?)";
            node.query(insert, Values::Positional(&[int(c)])).await.unwrap();
        }
        let select = "SELECT s[0], collection_count(s) FROM fs WHERE k = 1";
        let QueryResult::Rows(rows) = node.query(select, Values::NONE).await.unwrap() else {
            unreachable!()
        };
        assert_eq!(rows.row_count, 500);
    });
}

/// Returns how often the execution of a statement yields, if it yields at each opportunity.
async fn yields_of(node: &mut TestNode, text: &str) -> u32 {
    let mut query = std::pin::pin!(node.query(text, Values::NONE));
    let mut yields = 0;
    force_every_yield(true);
    let outcome = poll_fn(|context| {
        let poll = query.as_mut().poll(context);
        yields += u32::from(poll.is_pending());
        poll
    })
    .await;
    force_every_yield(false);
    outcome.unwrap();
    yields
}

#[test]
fn scans_yield_after_each_row_with_a_static_column() {
    const ROWS: u32 = 200;
    block_on(async {
        let mut node = TestNode::new().await;
        let table =
            "CREATE TABLE st (k int, c int, m map<int, int> static, v int, PRIMARY KEY (k, c))";
        node.query(table, Values::NONE).await.unwrap();
        node.query("INSERT INTO st (k, m) VALUES (1, {1: 5})", Values::NONE).await.unwrap();
        for c in 0..ROWS {
            let insert = format!("INSERT INTO st (k, c, v) VALUES (1, {c}, 1)");
            node.query(&insert, Values::NONE).await.unwrap();
        }
        let of_regular = "SELECT count(*) FROM st WHERE v = 1 ALLOW FILTERING";
        let of_static = "SELECT count(*) FROM st WHERE m CONTAINS 5 ALLOW FILTERING";
        let few = yields_of(&mut node, of_regular).await;
        let many = yields_of(&mut node, of_static).await;
        assert!(many >= few + ROWS * 9 / 10, "{few} and {many}");
    });
}
