//! Statements that have waited for their turn.

use std::time::Duration;

use bytes::Bytes;
use espalier_cql::{
    ClientState, ErrorCode, ErrorDetail, QueryOptions, QueryProcessor, QueryResult,
};
use espalier_mutation::{Clustering, DecoratedKey};
use espalier_runtime::{
    block_on,
    file::FileSystem,
    spawn_local,
    time::{self, ManualClock},
    yield_now,
};
use espalier_storage::{Node, TurnKind, TurnRows};

use crate::support::node::{self, execute, open_with_keyspace};

/// The protocol's code of the consistency level SERIAL.
const SERIAL: u16 = 8;

/// Opens a node with two tables, and returns the rows of a turn on key 7 of both.
async fn open_table() -> (Node, QueryProcessor, TurnRows) {
    let statements = [
        "CREATE TABLE ks.t (k bigint PRIMARY KEY, v int, l list<int>)",
        "CREATE TABLE ks.c (k bigint PRIMARY KEY, n counter)",
    ];
    let (database, processor) = open_with_keyspace(&FileSystem::simulated(1), &statements).await;
    let [mut rows, counters] = ["t", "c"].map(|name| {
        let table = database.store().schema().table("ks", name).unwrap().clone();
        let key = DecoratedKey::new(Bytes::copy_from_slice(&7i64.to_be_bytes()));
        let mut rows = TurnRows::new(&table, key.borrowed());
        rows.add_row(&table, &Clustering::empty());
        rows
    });
    rows.join(counters);
    (database, processor, rows)
}

/// Executes `before`, and then `statement`, which waits 1.5 s for its turn. Returns the number of
/// rows with key 7 afterwards.
fn rows_after_a_wait(before: &'static str, statement: &'static str) -> i32 {
    block_on(async {
        let (database, processor, rows) = open_table().await;
        let clock = ManualClock::new(time::now_micros());
        let _installed = clock.install();
        execute(&processor, before).await.unwrap();
        let turn = database.store().turns().take(rows).await;
        let lease = spawn_local(async move {
            execute(&processor, statement).await.unwrap();
            node::rows(&processor, "SELECT v FROM ks.t WHERE k = 7", None).await.0
        });
        for _ in 0..100 {
            yield_now().await;
        }
        clock.advance(Duration::from_millis(1_500));
        drop(turn);
        lease.await
    })
}

const NOTHING: &str = "DELETE FROM ks.t WHERE k = 0";
const EXPIRED: &str = "INSERT INTO ks.t (k, v) VALUES (7, 1) USING TTL 1";

/// A time to live counts from the write, not from the arrival of its statement.
#[test]
fn a_time_to_live_begins_after_the_wait_for_the_turn() {
    for statement in [
        "INSERT INTO ks.t (k, v) VALUES (7, 1) IF NOT EXISTS USING TTL 1",
        "BEGIN BATCH INSERT INTO ks.t (k, v) VALUES (7, 1) IF NOT EXISTS USING TTL 1; APPLY BATCH",
        "BEGIN TRANSACTION INSERT INTO ks.t (k, v) VALUES (7, 1) USING TTL 1; COMMIT TRANSACTION",
    ] {
        let found = rows_after_a_wait(NOTHING, statement);
        assert_eq!(found, 1, "{statement}: the lease has expired before it was granted");
    }
}

/// A row that expires while a statement waits for its turn does not exist for the statement.
#[test]
fn rows_expire_during_the_wait_for_the_turn() {
    for statement in [
        "INSERT INTO ks.t (k, v) VALUES (7, 2) IF NOT EXISTS",
        "BEGIN TRANSACTION LET a = (SELECT v FROM ks.t WHERE k = 7); \
         IF a IS NULL THEN INSERT INTO ks.t (k, v) VALUES (7, 2); END IF COMMIT TRANSACTION",
    ] {
        assert_eq!(rows_after_a_wait(EXPIRED, statement), 1, "{statement}");
    }
}

/// A read at SERIAL does not return a row that has expired while the read waited.
#[test]
fn a_serial_read_sees_no_row_that_has_expired_during_its_wait() {
    block_on(async {
        let (database, processor, rows) = open_table().await;
        let clock = ManualClock::new(time::now_micros());
        let _installed = clock.install();
        execute(&processor, EXPIRED).await.unwrap();
        let turn = database.store().turns().take(rows).await;
        let read = spawn_local(async move {
            let options = QueryOptions { consistency: SERIAL, ..QueryOptions::default() };
            let text = "SELECT v FROM ks.t WHERE k = 7";
            processor.query(text, &mut ClientState::default(), &options).await.unwrap()
        });
        for _ in 0..100 {
            yield_now().await;
        }
        clock.advance(Duration::from_millis(1_500));
        drop(turn);
        let QueryResult::Rows(rows) = read.await else { panic!("no rows") };
        assert_eq!(rows.row_count, 0);
    });
}

/// Each kind of statement that waits for a turn gives up in time, and is not executed later.
#[test]
fn a_statement_does_not_wait_for_its_turn_for_ever() {
    block_on(async {
        let (database, processor, rows) = open_table().await;
        let clock = ManualClock::new(time::now_micros());
        let _installed = clock.install();
        let turn = database.store().turns().take(rows).await;
        let insert = "INSERT INTO ks.t (k, v) VALUES (7, 1)";
        let conditional = format!("{insert} IF NOT EXISTS");
        let transaction = format!("BEGIN TRANSACTION {insert}; COMMIT TRANSACTION");
        let serial = QueryOptions { consistency: SERIAL, ..QueryOptions::default() };
        let batch = format!("BEGIN BATCH {conditional}; APPLY BATCH");
        let normal = QueryOptions::default();
        let timed_out = |kind| (ErrorCode::WriteTimeout, ErrorDetail::WriteTimeout { kind });
        let read_timed_out = (ErrorCode::ReadTimeout, ErrorDetail::None);
        let cas = "for 1.8s (cas_contention_timeout)";
        let counter = "for 5s (counter_write_request_timeout)";
        let select = "SELECT v FROM ks.t WHERE k = 7";
        for (text, options, (code, detail), wait) in [
            (&*conditional, normal, timed_out(TurnKind::Conditional), cas),
            (&batch, normal, timed_out(TurnKind::Conditional), cas),
            (&transaction, normal, timed_out(TurnKind::Conditional), cas),
            (select, serial, read_timed_out, cas),
            (
                "UPDATE ks.t SET l[0] = 1 WHERE k = 7",
                normal,
                timed_out(TurnKind::Write),
                "for 2s (write_request_timeout)",
            ),
            (
                "UPDATE ks.c SET n = n + 1 WHERE k = 7",
                normal,
                timed_out(TurnKind::Counter),
                counter,
            ),
        ] {
            let (processor, text) = (processor.clone(), text.to_owned());
            let waiting = spawn_local(async move {
                processor.query(&text, &mut ClientState::default(), &options).await
            });
            for _ in 0..100 {
                yield_now().await;
            }
            assert!(!waiting.is_finished());
            clock.advance(Duration::from_millis(5_001));
            let error = waiting.await.unwrap_err();
            assert_eq!((error.code, &error.detail), (code, &detail));
            assert!(error.message.contains(wait), "{error}");
        }
        drop(turn);
        for select in [select, "SELECT n FROM ks.c WHERE k = 7"] {
            assert_eq!(node::rows(&processor, select, None).await.0, 0, "{select}");
        }
        execute(&processor, &conditional).await.unwrap();
    });
}
