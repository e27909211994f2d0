//! Statements and named values that try to take much time or memory, or that lack a value.

use bytes::Bytes;
use espalier_cql::{
    Batch, BatchStatement, BatchedStatement, ClientState, QueryOptions, Value, Values,
    grammar::ast::BatchKind,
};
use espalier_runtime::{block_on, file::FileSystem};
use espalier_testing::Stopwatch;

use crate::{
    hostile_values::{PATIENCE, TestNode, int, ints},
    support::node::open_with_keyspace,
};

/// A hint or a cast may name a type that no table has, so the limits of types must hold there, too.
#[test]
fn hints_of_huge_types_are_refused() {
    block_on(async {
        let mut node = TestNode::new().await;
        let start = Stopwatch::start();
        for text in [
            "SELECT mask_default((vector<bigint, 4294967295>) ?) FROM system.local",
            "SELECT (vector<empty, 4294967295>) ? FROM system.local",
            "SELECT (vector<vector<empty, 4294967295>, 4294967295>) ? FROM system.local",
            "SELECT CAST(? AS vector<bigint, 4294967295>) FROM system.local",
            "INSERT INTO t (k, v) VALUES (1, (vector<empty, 4294967295>) ?)",
            // Within the limits of types, but each plan would keep a mask of this length.
            "SELECT mask_default((vector<bigint, 268435455>) ?) FROM system.local",
        ] {
            let empty = [Value::Bytes(Bytes::new())];
            let outcome = node.query(text, Values::Positional(&empty)).await;
            assert!(outcome.is_err(), "{text}");
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        let text = "SELECT mask_default((vector<int, 3>) [1, 2, 3]) FROM system.local";
        assert_eq!(node.row(text).await, [Some(vec![0; 12])]);
    });
}

#[test]
fn a_marker_without_a_named_value_is_an_error() {
    block_on(async {
        let mut node = TestNode::new().await;
        let insert = "INSERT INTO t (k, v) VALUES (:k, :v)";
        let misspelt = [("k", int(1)), ("vv", int(5))];
        let outcome = node.query(insert, Values::Named(&misspelt)).await;
        let expected = "Invalid amount of bind variables: expected 2, got 1";
        assert_eq!(outcome.unwrap_err().message, expected);
        let more = [("k", int(1)), ("v", int(5)), ("vv", int(6))];
        node.query(insert, Values::Named(&more)).await.unwrap();
        assert_eq!(node.row("SELECT v FROM t WHERE k = 1").await, [Some(vec![0, 0, 0, 5])]);
    });
}

#[test]
fn a_wrong_number_of_values_is_an_error_of_each_request() {
    block_on(async {
        let statements = ["CREATE TABLE ks.t (k int PRIMARY KEY, v int)"];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let insert = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
        let (one, named) = ([int(1)], [("k", int(1)), ("x", int(2))]);
        let mut client = ClientState::default();
        for values in [Values::Positional(&one), Values::Named(&named)] {
            let options = QueryOptions { values, ..QueryOptions::default() };
            let query = processor.query(insert, &mut client, &options).await;
            let expected = "Invalid amount of bind variables: expected 2, got 1";
            assert_eq!(query.unwrap_err().message, expected);
            let prepared = processor.prepare(insert, &client).unwrap();
            let execute = processor.execute(&prepared, &client, &options).await;
            let expected = "there were 2 markers(?) in CQL but 1 bound variables";
            assert_eq!(execute.unwrap_err().message, expected);
            for statement in [BatchedStatement::Text(insert), BatchedStatement::Prepared(prepared)]
            {
                let statements = vec![BatchStatement { statement, values }];
                let batch = Batch { kind: BatchKind::Logged, statements };
                let batch = processor.batch(batch, &client, &QueryOptions::default()).await;
                let expected = "There were 2 markers(?) in CQL but 1 bound variables";
                assert_eq!(batch.unwrap_err().message, expected);
            }
        }
    });
}

#[test]
fn slices_of_in_and_comparisons_of_tuples_are_bounded() {
    block_on(async {
        let mut node = TestNode::new().await;
        let names: Vec<_> = (0..21).map(|number| format!("c{number}")).collect();
        let columns = names.join(" int, ");
        let key = names.join(", ");
        let create = format!("CREATE TABLE wide (k int, {columns} int, PRIMARY KEY (k, {key}))");
        node.query(&create, Values::NONE).await.unwrap();
        let (tuple, ones, twos) =
            (names[1..].join(", "), ["1"; 20].join(", "), ["2"; 20].join(", "));
        let condition =
            format!("k = 1 AND c0 IN ? AND ({tuple}) > ({ones}) AND ({tuple}) < ({twos})");
        let start = Stopwatch::start();
        for text in [
            format!("SELECT k FROM wide WHERE {condition}"),
            format!("DELETE FROM wide WHERE {condition}"),
        ] {
            let many = [ints(0..65_535)];
            let outcome = node.query(&text, Values::Positional(&many)).await;
            let message = outcome.unwrap_err().message;
            assert!(message.contains("more than 65535 combinations"), "{message}");
            node.query(&text, Values::Positional(&[ints(0..100)])).await.unwrap();
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}

#[test]
fn excluded_values_beside_comparisons_of_tuples_take_linear_time() {
    block_on(async {
        let mut node = TestNode::new().await;
        let names: Vec<_> = (0..60).map(|number| format!("c{number}")).collect();
        let (columns, tuple) = (names.join(" int, "), names.join(", "));
        let create = format!("CREATE TABLE wide (k int, {columns} int, PRIMARY KEY (k, {tuple}))");
        node.query(&create, Values::NONE).await.unwrap();
        let (ones, twos) = (["1"; 60].join(", "), ["2"; 60].join(", "));
        let mut tuples = 65_534i32.to_be_bytes().to_vec();
        for value in 0..65_534i32 {
            tuples.extend([8, 4, value].iter().flat_map(|part| part.to_be_bytes()));
        }
        let text = format!(
            "SELECT k FROM wide WHERE k = 1 AND ({tuple}) > ({ones}) AND ({tuple}) < ({twos}) \
             AND (c0) NOT IN ?"
        );
        let start = Stopwatch::start();
        node.query(&text, Values::Positional(&[Value::Bytes(tuples.into())])).await.unwrap();
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}

#[test]
fn literals_of_user_types_take_no_longer_with_more_fields() {
    block_on(async {
        let mut node = TestNode::new().await;
        let fields: Vec<_> = (0..4000).map(|number| format!("f{number} int")).collect();
        node.query(&format!("CREATE TYPE u ({})", fields.join(", ")), Values::NONE).await.unwrap();
        let create = "CREATE TABLE large (k int PRIMARY KEY, u frozen<u>)";
        node.query(create, Values::NONE).await.unwrap();
        let start = Stopwatch::start();
        let given = vec!["f3999: 1"; 200_000].join(", ");
        let insert = format!("INSERT INTO large (k, u) VALUES (1, {{{given}}})");
        node.query(&insert, Values::NONE).await.unwrap();
        let given = vec!["\"f3999\": 1"; 200_000].join(", ");
        let insert = format!("INSERT INTO large JSON '{{\"k\": 2, \"u\": {{{given}}}}}'");
        node.query(&insert, Values::NONE).await.unwrap();
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}

/// A short literal of a user type has a part for each field of the type.
#[test]
fn fields_of_literals_in_a_statement_are_bounded() {
    block_on(async {
        let mut node = TestNode::new().await;
        let fields: Vec<_> = (0..4000).map(|number| format!("f{number} int")).collect();
        node.query(&format!("CREATE TYPE u ({})", fields.join(", ")), Values::NONE).await.unwrap();
        let create = "CREATE TABLE large (k int PRIMARY KEY, l list<frozen<u>>)";
        node.query(create, Values::NONE).await.unwrap();
        let repeated = |literal: &str, count: usize| vec![literal; count].join(", ");
        let json = |count| {
            format!(r#"INSERT INTO large JSON '{{"k":1,"l":[{}]}}'"#, repeated("{}", count))
        };
        for text in [
            format!("INSERT INTO large (k, l) VALUES (1, [{}])", repeated("{f1: 1}", 126)),
            format!("INSERT INTO large (k, l) VALUES (1, [{}])", repeated("{f1: :v}", 126)),
            format!("SELECT (list<frozen<u>>) [{}] FROM large", repeated("{f1: k}", 126)),
            json(126),
            format!("BEGIN BATCH {}; {}; APPLY BATCH", json(63), json(63)),
        ] {
            let message = node.query(&text, Values::NONE).await.unwrap_err().message;
            assert!(message.contains("504000 fields or more"), "{message}");
        }
        let few = repeated("{f1: 1}", 10);
        let text = format!("INSERT INTO large (k, l) VALUES (1, [{few}])");
        node.query(&text, Values::NONE).await.unwrap();
        node.query(&json(10), Values::NONE).await.unwrap();
    });
}

/// A short literal of a user type has a term in the plan for each field of the type.
#[test]
fn a_cache_of_plans_counts_the_fields_of_literals() {
    block_on(async {
        let fields: Vec<_> = (0..4000).map(|number| format!("f{number} int")).collect();
        let create_type = format!("CREATE TYPE ks.u ({})", fields.join(", "));
        let create_table = "CREATE TABLE ks.large (k int PRIMARY KEY, l list<frozen<u>>)";
        let statements = [create_type.as_str(), create_table];
        let (_, processor) = open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let list = vec!["{f1: ?}"; 40].join(", ");
        let prepare = |key: usize| {
            let text = format!("INSERT INTO ks.large (k, l) VALUES ({key}, [{list}])");
            processor.prepare(&text, &ClientState::default()).unwrap().id
        };
        let ids: Vec<_> = (0..3).map(prepare).collect();
        let is_cached = ids.iter().map(|id| processor.known(id).is_some());
        assert_eq!(is_cached.collect::<Vec<_>>(), [false, true, true]);
    });
}

/// Each of these texts of less than 1 MiB has a plan of many MB, but names hardly any columns.
#[test]
fn a_cache_of_plans_counts_statements_terms_and_parts_of_selectors() {
    block_on(async {
        let create_table = "CREATE TABLE ks.t (k int PRIMARY KEY, v int)";
        let (_, processor) = open_with_keyspace(&FileSystem::simulated(1), &[create_table]).await;
        let deletes = "DELETE FROM ks.t WHERE k = 1; ".repeat(27_000);
        let keys = vec!["1"; 140_000].join(",");
        let parts = vec!["v"; 140_000].join(",");
        let ids = [
            format!("BEGIN BATCH {deletes} APPLY BATCH"),
            format!("SELECT v FROM ks.t WHERE k IN ({keys})"),
            format!("SELECT [{parts}] FROM ks.t"),
        ]
        .map(|text| processor.prepare(&text, &ClientState::default()).unwrap().id);
        let is_cached = ids.map(|id| processor.known(&id).is_some());
        assert_eq!(is_cached, [false, true, true]);
    });
}

/// A JSON document has a value for each column of its table.
#[test]
fn fields_of_a_json_document_are_bounded_over_all_columns() {
    block_on(async {
        let mut node = TestNode::new().await;
        let fields: Vec<_> = (0..4000).map(|number| format!("f{number} int")).collect();
        node.query(&format!("CREATE TYPE u ({})", fields.join(", ")), Values::NONE).await.unwrap();
        let create = "CREATE TABLE two (k int PRIMARY KEY, a list<frozen<u>>, b list<frozen<u>>)";
        node.query(create, Values::NONE).await.unwrap();
        let document = |count: usize| {
            let list = vec!["{}"; count].join(",");
            format!(r#"{{"k":1,"a":[{list}],"b":[{list}]}}"#)
        };
        for (count, is_refused) in [(63, true), (62, false)] {
            let bound = [Value::Bytes(document(count).into())];
            let literal = format!("INSERT INTO two JSON '{}'", document(count));
            for (text, values) in [
                ("INSERT INTO two JSON ?", Values::Positional(&bound)),
                (literal.as_str(), Values::NONE),
            ] {
                let message = node.query(text, values).await.err().map(|error| error.message);
                assert_eq!(message.is_some(), is_refused, "{message:?}");
                assert!(message.is_none_or(|message| message.contains("504000 fields or more")));
            }
        }
    });
}

#[test]
fn nested_calls_are_planned_in_linear_time() {
    block_on(async {
        let mut node = TestNode::new().await;
        let create = "CREATE TABLE many (k int PRIMARY KEY, l list<int>, b list<bigint>)";
        node.query(create, Values::NONE).await.unwrap();
        let nested = |open: &str, depth: usize, inner: &str, close: &str| {
            format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
        };
        let start = Stopwatch::start();
        for (expression, count) in [
            (nested("1+(", 40, "1", ")"), 40),
            (nested("(", 40, "1", "+1)"), 40),
            (nested("abs(", 90, "1", ")"), 20),
            (nested("-(", 40, "1", ")"), 40),
            // Each part is ambiguous until the type of the list is known.
            ("null+null".to_string(), 500),
        ] {
            let expressions = vec![expression.as_str(); count].join(", ");
            for column in ["l", "b"] {
                let insert = format!("INSERT INTO many (k, {column}) VALUES (1, [{expressions}])");
                assert!(insert.len() < 64 << 10, "a long text is planned on another thread");
                let outcome = node.query(&insert, Values::NONE).await;
                let message = outcome.map_or_else(|error| error.message, |_| String::new());
                assert!(message.is_empty() || message.contains("null is not supported"));
            }
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    });
}

/// A short JSON insert writes all columns of its table, and its plan has each of them.
#[test]
fn columns_of_json_documents_in_a_statement_are_bounded() {
    block_on(async {
        let mut node = TestNode::new().await;
        let columns: Vec<_> = (1..1000).map(|number| format!("c{number} int")).collect();
        let create = format!("CREATE TABLE wide (k int PRIMARY KEY, {})", columns.join(", "));
        node.query(&create, Values::NONE).await.unwrap();
        let inserts = |count| "INSERT INTO wide JSON '{\"k\": 1, \"c7\": 2}'; ".repeat(count);
        for (begin, end) in
            [("BEGIN BATCH", "APPLY BATCH"), ("BEGIN TRANSACTION", "COMMIT TRANSACTION")]
        {
            let text = format!("{begin} {} {end}", inserts(201));
            let message = node.query(&text, Values::NONE).await.unwrap_err().message;
            assert!(message.contains("more than 200000 columns"), "{message}");
        }
        let sparse = "INSERT INTO wide JSON '{\"k\": 1, \"c7\": 2}' DEFAULT UNSET; ".repeat(201);
        let text = format!("BEGIN BATCH {sparse} APPLY BATCH");
        node.query(&text, Values::NONE).await.unwrap();
        let text = format!("BEGIN BATCH {} APPLY BATCH", inserts(10));
        node.query(&text, Values::NONE).await.unwrap();
        assert_eq!(node.row("SELECT c7 FROM wide").await, [Some(vec![0, 0, 0, 2])]);
    });
}

#[test]
fn a_literal_that_repeats_a_long_value_is_refused() {
    block_on(async {
        let mut node = TestNode::new().await;
        node.query("CREATE TABLE l (k int PRIMARY KEY, f list<blob>)", Values::NONE).await.unwrap();
        let value = [("v", Value::Bytes(vec![7; 1 << 20].into()))];
        for markers in [100, 10_000] {
            let list = vec![":v"; markers].join(", ");
            let text = format!("INSERT INTO l (k, f) VALUES (1, [{list}])");
            let message = node.query(&text, Values::Named(&value)).await.unwrap_err().message;
            assert!(message.contains("longer than 67108864 bytes"), "{message}");
        }
    });
}
