//! Statements that have waited for their turn.

use std::time::Duration;

use bytes::Bytes;
use espalier_cql::{ClientState, ErrorCode, ErrorDetail, QueryOptions, QueryProcessor};
use espalier_mutation::{Clustering, DecoratedKey};
use espalier_runtime::{
    block_on,
    file::FileSystem,
    spawn_local,
    time::{self, ManualClock},
    yield_now,
};
use espalier_storage::{Node, TurnKind, TurnRows};

use crate::support::node::{self, execute, open};

/// The protocol's code of the consistency level.
const SERIAL: u16 = 8;

/// Opens a node with a table of one column, and returns the rows of a turn on key 7.
async fn open_table() -> (Node, QueryProcessor, TurnRows) {
    let (database, processor) = open(&FileSystem::simulated(1)).await;
    for statement in [
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k bigint PRIMARY KEY, v int)",
    ] {
        execute(&processor, statement).await.unwrap();
    }
    let table = database.store().schema().table("ks", "t").unwrap().clone();
    let key = DecoratedKey::new(Bytes::copy_from_slice(&7i64.to_be_bytes()));
    let mut rows = TurnRows::new(&table, key.borrowed());
    rows.add_row(&table, &Clustering::empty());
    (database, processor, rows)
}

/// A lease counts from the write, not from the arrival of its statement.
#[test]
fn a_time_to_live_begins_after_the_wait_for_the_turn() {
    block_on(async {
        let (database, processor, rows) = open_table().await;
        let clock = ManualClock::new(time::now_micros());
        let _installed = clock.install();
        let turn = database.store().turns().take(rows).await;
        let lease = spawn_local(async move {
            let text = "INSERT INTO ks.t (k, v) VALUES (7, 1) IF NOT EXISTS USING TTL 1";
            execute(&processor, text).await.unwrap();
            node::rows(&processor, "SELECT v FROM ks.t WHERE k = 7", None).await.0
        });
        for _ in 0..100 {
            yield_now().await;
        }
        clock.advance(Duration::from_millis(1_500));
        drop(turn);
        assert_eq!(lease.await, 1, "the lease has expired before it was granted");
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
        let timed_out = ErrorDetail::WriteTimeout { kind: TurnKind::Conditional };
        for (text, options, code, detail) in [
            (&*conditional, QueryOptions::default(), ErrorCode::WriteTimeout, &timed_out),
            (&transaction, QueryOptions::default(), ErrorCode::WriteTimeout, &timed_out),
            ("SELECT v FROM ks.t WHERE k = 7", serial, ErrorCode::ReadTimeout, &ErrorDetail::None),
        ] {
            let (processor, text) = (processor.clone(), text.to_owned());
            let waiting = spawn_local(async move {
                processor.query(&text, &mut ClientState::default(), &options).await
            });
            for _ in 0..100 {
                yield_now().await;
            }
            assert!(!waiting.is_finished());
            clock.advance(Duration::from_millis(1_801));
            let error = waiting.await.unwrap_err();
            assert_eq!((error.code, &error.detail), (code, detail));
            assert!(error.message.contains("for 1.8s (cas_contention_timeout)"), "{error}");
        }
        drop(turn);
        let found = node::rows(&processor, "SELECT v FROM ks.t WHERE k = 7", None).await.0;
        assert_eq!(found, 0);
        execute(&processor, &conditional).await.unwrap();
    });
}
