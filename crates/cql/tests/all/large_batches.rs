//! BATCH messages with many statements for one row.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use espalier_cql::{
    Batch, BatchStatement, BatchedStatement, ClientState, QueryOptions, QueryProcessor, Value,
    Values, grammar::ast::BatchKind,
};
use espalier_runtime::{block_on, file::FileSystem, preempt::force_every_yield};
use espalier_testing::Stopwatch;
use futures_util::FutureExt;

use crate::support::node::{execute, open_with_keyspace, rows};

/// Linear and n log n time take a fraction of a second without optimisation, quadratic time takes
/// minutes.
const PATIENCE: Duration = Duration::from_secs(10);

fn int(value: i32) -> Value {
    Value::Bytes(Bytes::copy_from_slice(&value.to_be_bytes()))
}

/// Executes a BATCH message: `first`, and `repeated` once for each of `values`.
async fn batch(processor: &QueryProcessor, first: &str, repeated: &str, values: &[[Value; 2]]) {
    let client = ClientState::default();
    let [first, repeated] = [first, repeated].map(|text| processor.prepare(text, &client).unwrap());
    let first =
        BatchStatement { statement: BatchedStatement::Prepared(first), values: Values::NONE };
    let others = values.iter().map(|values| BatchStatement {
        statement: BatchedStatement::Prepared(repeated.clone()),
        values: Values::Positional(values),
    });
    let statements = std::iter::once(first).chain(others).collect();
    let batch = Batch { kind: BatchKind::Unlogged, statements };
    processor.batch(batch, &client, &QueryOptions::default()).await.unwrap();
}

#[test]
fn many_writes_of_one_row_do_not_take_quadratic_time() {
    const COUNT: i32 = 10_000;
    block_on(async {
        let statements = [
            "CREATE TABLE ks.t (k int, c decimal, v int, m map<int, int>, s map<int, int> static, \
             PRIMARY KEY (k, c))",
        ];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let values: Vec<_> = (0..COUNT).rev().map(|number| [int(number), int(-number)]).collect();
        let start = Stopwatch::start();
        for (key, condition) in [(1, ""), (2, "IF NOT EXISTS")] {
            // The decimals 1 and 1.0 are equal.
            let first = format!("INSERT INTO ks.t (k, c, v) VALUES ({key}, 1.0, 7) {condition}");
            let update = format!("UPDATE ks.t SET m[?] = ? WHERE k = {key} AND c = 1");
            batch(&processor, &first, &update, &values).await;
        }
        let first = "INSERT INTO ks.t (k, c, v) VALUES (3, 1, 7)";
        batch(&processor, first, "UPDATE ks.t SET s[?] = ? WHERE k = 3", &values).await;
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        let last = COUNT - 1;
        for (key, column) in [(1, 'm'), (2, 'm'), (3, 's')] {
            let query = format!(
                "SELECT v, collection_count({column}), {column}[{last}] FROM ks.t WHERE k = {key}"
            );
            let (count, content) = rows(&processor, &query, None).await;
            let wanted = [7, COUNT, -last].map(|value| [4i32.to_be_bytes(), value.to_be_bytes()]);
            assert_eq!((count, content), (1, wanted.concat().concat()), "{query}");
        }
    });
}

/// Each row of the batch has the writes of all its statements, also if other rows come between
/// them.
#[test]
fn rows_in_any_order_have_all_writes() {
    block_on(async {
        let statements = [
            "CREATE TABLE ks.t (k int, c int, a int, b int, PRIMARY KEY (k, c))",
            "INSERT INTO ks.t (k, c, a) VALUES (1, 2, 9)",
            "BEGIN BATCH \
             UPDATE ks.t SET a = 1 WHERE k = 1 AND c = 3; \
             DELETE FROM ks.t WHERE k = 1 AND c = 2; \
             UPDATE ks.t SET a = 2 WHERE k = 1 AND c = 1; \
             UPDATE ks.t SET b = 3 WHERE k = 1 AND c = 3; \
             UPDATE ks.t SET b = 4 WHERE k = 1 AND c = 2; \
             UPDATE ks.t SET a = 5 WHERE k = 1 AND c = 3; \
             APPLY BATCH",
        ];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let (count, content) = rows(&processor, "SELECT c, a, b FROM ks.t", None).await;
        let value = |value: Option<i32>| match value {
            Some(value) => [4i32.to_be_bytes(), value.to_be_bytes()].concat(),
            None => (-1i32).to_be_bytes().to_vec(),
        };
        // At equal timestamps, the greater value stays, and a deletion wins over a write.
        let wanted = [Some(1), Some(2), None, Some(3), Some(5), Some(3)];
        assert_eq!((count, content), (2, wanted.map(value).concat()));
    });
}

/// Overlapping range deletions, of which a batch may have 65,535, take n log n time, and delete the
/// same rows as one after another.
#[test]
fn many_range_deletions_do_not_take_quadratic_time() {
    const COUNT: i32 = 10_000;
    block_on(async {
        let statements = ["CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))"];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        // Rows 0 and 3 are newer than the wide deletions, but not than the narrow ones.
        for (row, timestamp) in [(0, 7), (1, 7), (2, 4), (3, 7), (-1, 4)] {
            let insert = format!(
                "INSERT INTO ks.t (k, c, v) VALUES (1, {row}, 0) USING TIMESTAMP {timestamp}"
            );
            execute(&processor, &insert).await.unwrap();
        }
        let client = ClientState::default();
        let narrow = "DELETE FROM ks.t USING TIMESTAMP 10 WHERE k = 1 AND c >= ? AND c < ?";
        let wide = "DELETE FROM ks.t USING TIMESTAMP 5 WHERE k = 1 AND c >= ? AND c < ?";
        let [narrow, wide] = [narrow, wide].map(|text| processor.prepare(text, &client).unwrap());
        let values: Vec<_> =
            (0..COUNT).map(|number| [int(3 * number), int(3 * number + 1)]).collect();
        let all = [int(-1), int(3 * COUNT)];
        let narrow = values.iter().map(|values| (&narrow, values));
        let wide = (0..COUNT).map(|_| (&wide, &all));
        let statements = narrow.chain(wide).map(|(statement, values)| BatchStatement {
            statement: BatchedStatement::Prepared(statement.clone()),
            values: Values::Positional(values),
        });
        let batch = Batch { kind: BatchKind::Unlogged, statements: statements.collect() };
        let start = Stopwatch::start();
        processor.batch(batch, &client, &QueryOptions::default()).await.unwrap();
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        let (count, content) = rows(&processor, "SELECT c FROM ks.t", None).await;
        let wanted = [4i32.to_be_bytes(), 1i32.to_be_bytes()].concat();
        assert_eq!((count, content), (1, wanted));
    });
}

/// Returns the error of a BATCH message, and the number of polls in which the node found it. `last`
/// follows `count` times `repeated`.
async fn failure(
    processor: &QueryProcessor,
    (count, repeated): (usize, &str),
    (last, values): (&str, Values<'_>),
) -> (String, usize) {
    let text = |text, values| BatchStatement { statement: BatchedStatement::Text(text), values };
    let mut statements: Vec<_> = (0..count).map(|_| text(repeated, Values::NONE)).collect();
    statements.push(text(last, values));
    let (client, options) = (ClientState::default(), QueryOptions::default());
    let batch = Batch { kind: BatchKind::Unlogged, statements };
    let (mut execution, mut polls) = (pin!(processor.batch(batch, &client, &options)), 0);
    let outcome = poll_fn(|context| {
        polls += 1;
        execution.as_mut().poll(context)
    });
    (outcome.await.unwrap_err().message, polls)
}

/// A batch may have 65,535 statements, so each step yields between them.
#[test]
fn each_step_yields_between_statements() {
    const COUNT: usize = 100;
    block_on(async {
        let statements = ["CREATE TABLE ks.t (k int PRIMARY KEY, v int)"];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let plain = "UPDATE ks.t SET v = 1 WHERE k = 1";
        let conditional = "UPDATE ks.t SET v = 1 WHERE k = 1 IF v = 1";
        let marker = "UPDATE ks.t SET v = 1 WHERE k = ?";
        let (short, null) = ([Value::Bytes(Bytes::from_static(&[1]))], [Value::Null]);
        let (short, null) = (Values::Positional(&short), Values::Positional(&null));
        let other_key = "UPDATE ks.t SET v = 1 WHERE k = 2";
        force_every_yield(true);
        // Each case fails in a later step: planning, binding of the values, keys of a turn, writes.
        for (steps, repeated, last, values, error) in [
            (1, plain, "UPDATE ks.t SET x = 1 WHERE k = 1", Values::NONE, "Undefined column name"),
            (2, plain, marker, short, "Invalid value for \"k\""),
            (2, conditional, marker, short, "Invalid value for \"k\""),
            (3, conditional, other_key, Values::NONE, "Batch with conditions cannot span"),
            (3, plain, marker, null, "Invalid null value in condition for column k"),
        ] {
            let (found, polls) = failure(&processor, (COUNT, repeated), (last, values)).await;
            assert!(found.starts_with(error), "{repeated}, {last}: {found}");
            assert!(polls > steps * COUNT, "{repeated}, {last}: {polls} polls");
        }
        force_every_yield(false);
    });
}

/// Returns the error of a BATCH message that consists of `count` times the same statement.
async fn error_of<'a>(
    processor: &QueryProcessor,
    count: usize,
    statement: impl Fn() -> BatchStatement<'a>,
) -> Option<String> {
    let statements = std::iter::repeat_with(statement).take(count).collect();
    let (client, options) = (ClientState::default(), QueryOptions::default());
    let batch = Batch { kind: BatchKind::Unlogged, statements };
    processor.batch(batch, &client, &options).await.err().map(|error| error.message)
}

/// Statements may write much more than the text and the values of the message hold, so the node
/// counts the bytes before it evaluates the next statement.
#[test]
fn statements_of_a_batch_that_write_too_much_are_refused() {
    block_on(async {
        let statements = ["CREATE TABLE ks.t (k int PRIMARY KEY, v blob)"];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let insert = "INSERT INTO ks.t (k, v) VALUES (1, ?)";
        let insert = processor.prepare(insert, &ClientState::default()).unwrap();
        let values = [Value::Bytes(vec![0u8; 1 << 20].into())];
        let statement = || BatchStatement {
            statement: BatchedStatement::Prepared(insert.clone()),
            values: Values::Positional(&values),
        };
        assert_eq!(error_of(&processor, 200, statement).await, None);
        let error = "The changes of the statements take more than 256 MiB of memory; send fewer \
                     statements at a time";
        assert_eq!(error_of(&processor, 300, statement).await.as_deref(), Some(error));
    });
}

/// An absent field takes nothing of the text, but a part of the plan.
#[test]
fn the_texts_of_a_batch_share_the_limit_on_absent_fields() {
    block_on(async {
        let fields: Vec<_> = (0..100).map(|number| format!("f{number} int")).collect();
        let create = format!("CREATE TYPE ks.u ({})", fields.join(", "));
        let table = "CREATE TABLE ks.t (k int PRIMARY KEY, l list<frozen<u>>)";
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &[&create, table]).await;
        let elements = vec!["{f0: 1}"; 2000].join(", ");
        let insert = format!("INSERT INTO ks.t (k, l) VALUES (1, [{elements}])");
        let statement =
            || BatchStatement { statement: BatchedStatement::Text(&insert), values: Values::NONE };
        assert_eq!(error_of(&processor, 2, statement).await, None);
        let error = "The user types in the statements of the batch have too many absent fields: \
                     at most 500000";
        assert_eq!(error_of(&processor, 3, statement).await.as_deref(), Some(error));
    });
}

/// A helper thread parses and plans a long text, so that other tasks of the shard run meanwhile.
#[test]
fn a_long_text_is_planned_apart() {
    block_on(async {
        let statements = ["CREATE TABLE ks.t (k int PRIMARY KEY, v int)"];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let insert = "INSERT INTO ks.t (k, v) VALUES (1, 2); ";
        let written = insert.repeat(3000);
        let refused = insert.repeat(3000) + "INSERT INTO ks.t (k, x) VALUES (1, 2);";
        for (inserts, error) in [(written, None), (refused, Some("Undefined column name x"))] {
            let text = format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH");
            let (client, options) = (ClientState::default(), QueryOptions::default());
            let mut planning = pin!(processor.plan(&text, &client, &options));
            let first = poll_fn(|context| Poll::Ready(planning.as_mut().poll(context))).await;
            assert!(first.is_pending(), "the shard plans the text itself");
            let answer = match planning.await {
                Ok(prepared) => processor.execute(&prepared, &client, &options).await,
                Err(error) => Err(error),
            };
            let answer = answer.map(|_| ()).map_err(|error| error.message);
            match error {
                None => assert_eq!(answer, Ok(())),
                Some(error) => assert!(answer.unwrap_err().contains(error)),
            }
        }
        let (count, _) =
            rows(&processor, "SELECT k FROM ks.t WHERE v = 2 ALLOW FILTERING", None).await;
        assert_eq!(count, 1);
    });
}

#[test]
fn a_long_text_is_prepared_apart() {
    block_on(async {
        let statements = ["CREATE TABLE ks.t (k int PRIMARY KEY, v int)"];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let inserts = "INSERT INTO ks.t (k, v) VALUES (1, 2); ".repeat(3000);
        let text = format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH");
        let client = ClientState::default();
        let mut preparing = pin!(processor.prepare_apart(&text, &client));
        let first = poll_fn(|context| Poll::Ready(preparing.as_mut().poll(context))).await;
        assert!(first.is_pending(), "the shard plans the text itself");
        let prepared = preparing.await.unwrap();
        let cached = processor.planned(&prepared.id).unwrap();
        assert!(Arc::ptr_eq(&prepared, &cached));
        // A statement in the cache needs no plan.
        let again = processor.prepare_apart(&text, &client).now_or_never();
        assert!(Arc::ptr_eq(&prepared, &again.unwrap().unwrap()));
    });
}

/// A helper thread has a smaller stack than a shard.
#[test]
fn a_long_text_may_nest_as_deep_as_others() {
    block_on(async {
        let statements = ["CREATE TABLE ks.t (k int PRIMARY KEY, v int, l list<int>)"];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let padding = format!("/*{}*/", " ".repeat(100_000));
        for [start, open, close, end] in [
            ["SELECT ", "abs(", ")", " FROM ks.t"],
            ["SELECT k FROM ks.t WHERE k = ", "abs(", ")", ""],
            ["UPDATE ks.t SET v = ", "-(", ")", " WHERE k = 1"],
            ["UPDATE ks.t SET l = ", "[", "]", " WHERE k = 1"],
            ["UPDATE ks.t SET l = ", "(list<int>) (", ")", " WHERE k = 1"],
        ] {
            for depth in [30, 45, 90, 97] {
                let inside = if start == "SELECT " { "v" } else { "1" };
                let (open, close) = (open.repeat(depth), close.repeat(depth));
                let text = format!("{start}{open}{inside}{close}{end}");
                let short = execute(&processor, &text).await.map(|_| ());
                let long = execute(&processor, &format!("{text} {padding}")).await.map(|_| ());
                assert_eq!(long, short, "{text}");
            }
        }
    });
}
