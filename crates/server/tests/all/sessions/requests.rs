//! Statements over a connection.

use std::time::Duration;

use cassandra_protocol::frame::message_error::ErrorType;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::message_result::ResResultBody;
use cassandra_protocol::types::value::Value;
use espalier_storage::CommitLogSync;

use super::client::{Client, MODES, V3};
use super::node::{storage, with_node, with_node_over};

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TABLE: &str = "CREATE TABLE ks.t (k int PRIMARY KEY, v text)";

#[test]
fn statements_of_every_mode() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut first = node.client(MODES[0]).await;
            first.must(KEYSPACE).await;
            first.must(TABLE).await;
            for (mode, key) in MODES.into_iter().chain([V3]).zip(0..) {
                let mut client = node.client(mode).await;
                client.must(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'text {key}')")).await;
                let query = format!("SELECT v FROM ks.t WHERE k = {key}");
                let rows = Client::rows(client.ask_query(&query).await);
                assert_eq!(rows, [[Some(format!("text {key}").into_bytes())]]);
                let error = client.ask_error(client.query(0, "SELEKT")).await;
                assert_eq!(error.ty, ErrorType::Syntax);
            }
        },
    );
}

#[test]
fn a_keyspace_belongs_to_its_connection() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            client.must(KEYSPACE).await;
            client.must(TABLE).await;
            match client.ask_query("USE ks").await {
                ResponseBody::Result(ResResultBody::SetKeyspace(it)) => assert_eq!(it.body, "ks"),
                other => panic!("{other:?}"),
            }
            client.must("INSERT INTO t (k, v) VALUES (1, 'x')").await;
            let mut other = node.client(MODES[0]).await;
            let error = other.ask_error(other.query(0, "SELECT v FROM t")).await;
            assert_eq!(error.ty, ErrorType::Invalid);
        },
    );
}

#[test]
fn a_pipeline_is_answered_whole() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut first = node.client(MODES[0]).await;
            first.must(KEYSPACE).await;
            first.must(TABLE).await;
            for mode in MODES {
                let mut client = node.client(mode).await;
                let insert = client.must_prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)").await;
                let select = client.must_prepare("SELECT v FROM ks.t WHERE k = ?").await;
                let value = |key: i16| Value::Some(format!("{key}").into_bytes());
                let key = |key: i16| Value::Some(i32::from(key).to_be_bytes().to_vec());
                let requests: Vec<_> = (0..2000)
                    .map(|stream| client.execute(stream, &insert, vec![key(stream), value(stream)]))
                    .collect();
                client.send(&requests).await;
                let mut answered: Vec<i16> = Vec::new();
                for _ in 0..requests.len() {
                    let answer = client.receive().await.unwrap();
                    assert_eq!(
                        answer.response_body().unwrap(),
                        ResponseBody::Result(ResResultBody::Void)
                    );
                    answered.push(answer.stream_id);
                }
                answered.sort_unstable();
                assert!(answered.into_iter().eq(0..2000));
                let requests: Vec<_> = (0..2000)
                    .map(|stream| client.execute(stream, &select, vec![key(stream)]))
                    .collect();
                client.send(&requests).await;
                for _ in 0..requests.len() {
                    let answer = client.receive().await.unwrap();
                    let rows = Client::rows(answer.response_body().unwrap());
                    assert_eq!(rows, [[Some(format!("{}", answer.stream_id).into_bytes())]]);
                }
            }
        },
    );
}

#[test]
fn a_statement_prepared_on_one_shard_executes_on_all() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut clients = [node.client(MODES[0]).await, node.client(MODES[0]).await];
            let [first, second] = &mut clients;
            first.must(KEYSPACE).await;
            first.must(TABLE).await;
            let select = first.must_prepare("SELECT v FROM ks.t WHERE k = ?").await;
            let key = vec![Value::Some(7i32.to_be_bytes().to_vec())];
            for client in [first, second] {
                assert!(
                    Client::rows(client.ask(client.execute(1, &select, key.clone())).await)
                        .is_empty()
                );
            }
        },
    );
}

#[test]
fn an_unknown_statement_is_to_be_prepared() {
    with_node(
        1,
        |_| {},
        |node| async move {
            for mode in MODES {
                let mut client = node.client(mode).await;
                let mut prepared = client.must_prepare("SELECT key FROM system.local").await;
                let id = vec![7; 16];
                prepared.id = cassandra_protocol::types::CBytesShort::new(id.clone());
                match client.ask_error(client.execute(1, &prepared, vec![])).await.ty {
                    ErrorType::Unprepared(unprepared) => {
                        assert_eq!(unprepared.id.into_bytes(), Some(id));
                    }
                    other => panic!("{other:?}"),
                }
            }
        },
    );
}

/// In version 5 a client receives new columns when it executes a statement that it prepared
/// earlier.
#[test]
fn version_5_receives_metadata_of_changed_columns() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[3]).await;
            client.must(KEYSPACE).await;
            client.must(TABLE).await;
            let mut select = client.must_prepare("SELECT * FROM ks.t").await;
            let known = select
                .result_metadata_id
                .replace(cassandra_protocol::types::CBytesShort::new(vec![9; 16]));
            match client.ask(client.execute(1, &select, vec![])).await {
                ResponseBody::Result(ResResultBody::Rows(rows)) => {
                    assert_eq!(rows.metadata.new_metadata_id, known);
                    assert_eq!(rows.metadata.col_specs.len(), 2);
                }
                other => panic!("{other:?}"),
            }
            select.result_metadata_id = known;
            match client.ask(client.execute(1, &select, vec![])).await {
                ResponseBody::Result(ResResultBody::Rows(rows)) => {
                    assert_eq!(rows.metadata.new_metadata_id, None);
                }
                other => panic!("{other:?}"),
            }
        },
    );
}

/// Large answers are sent apart from the send buffer, between small ones.
#[test]
fn large_answers_arrive_whole() {
    const ROWS: u8 = 20;
    let text = |key: u8| [b'a' + key, b'-', b'z'].repeat(130_000);
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            client.must(KEYSPACE).await;
            client.must(TABLE).await;
            let insert = client.must_prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)").await;
            for key in 0..ROWS {
                let values = vec![Value::Some(vec![0, 0, 0, key]), Value::Some(text(key))];
                client.ask(client.execute(0, &insert, values)).await;
            }
            for mode in MODES.into_iter().chain([V3]) {
                let mut client = node.client(mode).await;
                let point = client.must_prepare("SELECT v FROM ks.t WHERE k = 3").await;
                let requests = [
                    client.query(0, "SELECT v FROM ks.t"),
                    client.execute(1, &point, vec![]),
                    client.query(2, "SELECT k FROM ks.t WHERE k = 4"),
                    client.query(3, "SELECT v FROM ks.t WHERE k = 5"),
                ];
                client.send(&requests).await;
                let mut answers = std::collections::BTreeMap::new();
                for _ in &requests {
                    let answer = client.receive().await.unwrap();
                    let mut rows = Client::rows(answer.response_body().unwrap());
                    rows.sort();
                    answers.insert(answer.stream_id, rows);
                }
                let all: Vec<_> = (0..ROWS).map(|key| vec![Some(text(key))]).collect();
                assert!(answers[&0] == all, "{mode:?}");
                assert!(answers[&1] == all[3..4], "{mode:?}");
                assert_eq!(answers[&2], [[Some(vec![0, 0, 0, 4])]]);
                assert!(answers[&3] == all[5..6], "{mode:?}");
            }
        },
    );
}

/// A write waits for the window of the commit log. A later request that need not wait is answered
/// first.
#[test]
fn answers_come_as_they_are_ready() {
    let mut storage = storage();
    storage.commit_log.sync = CommitLogSync::Group { window: Duration::from_millis(200) };
    with_node_over(
        storage,
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            client.must(KEYSPACE).await;
            client.must(TABLE).await;
            let insert = client.must_prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)").await;
            let values = vec![Value::Some(vec![0, 0, 0, 1]), Value::Some(b"x".to_vec())];
            let write = client.execute(1, &insert, values);
            let options = client.request(2, cassandra_protocol::frame::Opcode::Options, vec![]);
            client.send(&[write, options]).await;
            let order = [client.receive().await.unwrap(), client.receive().await.unwrap()];
            assert_eq!(order.map(|envelope| envelope.stream_id), [2, 1]);
        },
    );
}
