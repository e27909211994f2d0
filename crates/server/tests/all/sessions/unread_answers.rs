//! Tests that the node bounds the answers of a client that does not read them, also of requests
//! that arrived before the first answer.

use std::time::Duration;

use cassandra_protocol::frame::Opcode;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::types::value::Value;
use espalier_runtime::time::sleep;

use super::admin_api::metric;
use super::bounds::wait_for;
use super::client::{Client, MODES};
use super::node::{TestNode, with_node};

const KEYSPACE: &str = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}";

/// The limit of unsent bytes at which a connection serves no more requests.
const MAX_UNSENT: u64 = 1 << 20;

/// The number of requests that a client sends behind rows that it does not read.
const REQUESTS: i16 = 1500;

/// Connects a client to each shard of a node with two shards.
async fn clients_of_shards(node: &TestNode) -> [Client; 2] {
    let mut clients = [node.client(MODES[3]).await, node.client(MODES[3]).await];
    let options = clients[0].request(0, Opcode::Options, vec![]);
    let answer = clients[0].ask(options).await;
    match answer {
        ResponseBody::Supported(supported) => {
            if supported.data["SCYLLA_SHARD"] == ["1"] {
                clients.reverse();
            }
        }
        other => panic!("{other:?}"),
    }
    clients
}

/// Returns the bytes of the answers of shard 0 that are not sent.
async fn unsent(node: &TestNode) -> u64 {
    metric(node.admin, "espalier_transport_unsent_bytes{shard=\"0\"}").await
}

/// Sends a SELECT whose rows the client does not read, and [`REQUESTS`] PREPAREs behind it. Returns
/// the unsent bytes of the rows, once more than [`MAX_UNSENT`] other bytes wait behind them.
async fn send_behind_unread_rows(node: &TestNode, client: &mut Client) -> u64 {
    const ROWS: i32 = 60;
    const ROW_BYTES: usize = 400_000;
    client.must(KEYSPACE).await;
    let columns = (0..500).map(|number| format!("a_column_with_a_long_name_{number} int"));
    let columns = columns.collect::<Vec<_>>().join(", ");
    client.must(&format!("CREATE TABLE ks.wide (k int PRIMARY KEY, {columns})")).await;
    client.must("CREATE TABLE ks.t (k int PRIMARY KEY, v blob)").await;
    let insert = client.must_prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)").await;
    for key in 0..ROWS {
        let row = [key.to_be_bytes().to_vec(), vec![7; ROW_BYTES]].map(Value::Some);
        let inserted = client.ask(client.execute(0, &insert, row.into())).await;
        assert!(matches!(inserted, ResponseBody::Result(_)), "{inserted:?}");
    }
    let wide = "SELECT * FROM ks.wide";
    client.must_prepare(wide).await;
    // The rows are on both shards, so the request waits, and becomes a task.
    client.send(&[client.query(1, "SELECT v FROM ks.t")]).await;
    let rows = ROWS as u64 * ROW_BYTES as u64;
    assert!(wait_for(async || unsent(node).await >= rows).await, "no rows are unsent");
    let before = unsent(node).await;
    let requests: Vec<_> = (0..REQUESTS).map(|stream| client.prepare(stream, wide)).collect();
    client.send(&requests).await;
    let is_full = async || unsent(node).await - before > MAX_UNSENT;
    assert!(wait_for(is_full).await, "no request is served");
    before
}

/// A task writes an answer that the client does not read, so the reader does not write. It serves
/// requests only until their answers reach the limit, although all of them arrive in one segment.
#[test]
fn requests_wait_behind_an_answer_that_is_not_read() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let [mut client, _other] = clients_of_shards(&node).await;
            let before = send_behind_unread_rows(&node, &mut client).await;
            sleep(Duration::from_millis(500)).await;
            let bytes = unsent(&node).await - before;
            assert!(bytes < 2 * MAX_UNSENT, "{bytes} bytes wait behind the rows");
            for _ in 0..=REQUESTS {
                assert_eq!(client.receive().await.unwrap().opcode, Opcode::Result);
            }
        },
    );
}

#[test]
fn requests_behind_an_unread_answer_end_with_their_client() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let [mut client, _other] = clients_of_shards(&node).await;
            send_behind_unread_rows(&node, &mut client).await;
            drop(client);
            let open = || metric(node.admin, "scylla_transport_current_connections{shard=\"0\"}");
            assert!(wait_for(async || open().await == 0).await, "the connection is open");
            let name = "scylla_transport_cql_requests_count{shard=\"0\",kind=\"PREPARE\"}";
            let served = metric(node.admin, name).await;
            assert!(served < REQUESTS as u64, "{served} requests are served");
        },
    );
}

/// A client pipelines reads of a table of the other shard, which answers none of them until all
/// that may run at the same time have begun.
#[test]
fn few_reads_of_the_schema_run_at_the_same_time() {
    const COMMENT_BYTES: usize = 200_000;
    const REQUESTS: i16 = 400;
    with_node(
        2,
        |_| {},
        |node| async move {
            // Shard 0 has the tables of the schema.
            let [mut busy, mut client] = clients_of_shards(&node).await;
            client.must(KEYSPACE).await;
            let comment = "x".repeat(COMMENT_BYTES);
            let columns = "k int PRIMARY KEY, d decimal";
            client.must(&format!("CREATE TABLE ks.t ({columns}) WITH comment = '{comment}'")).await;
            let digits = "7".repeat(1000);
            client.must(&format!("INSERT INTO ks.t (k, d) VALUES (1, {digits})")).await;
            let select = "SELECT comment FROM system_schema.tables \
                          WHERE keyspace_name = 'ks' AND table_name = 't'";
            let select = client.must_prepare(select).await;
            // The logarithm of a number of 1000 digits takes about 24 ms, and the node does not
            // yield within a row.
            let selectors = ["max(log10(d))"; 20].join(", ");
            busy.send(&[busy.query(1, &format!("SELECT {selectors} FROM ks.t"))]).await;
            sleep(Duration::from_millis(100)).await;
            let requests: Vec<_> =
                (0..REQUESTS).map(|stream| client.execute(stream, &select, vec![])).collect();
            client.send(&requests).await;
            let unsent = || metric(node.admin, "espalier_transport_unsent_bytes{shard=\"1\"}");
            assert!(wait_for(async || unsent().await > MAX_UNSENT).await, "no answer is unsent");
            sleep(Duration::from_millis(500)).await;
            let bytes = unsent().await;
            assert!(bytes < 4 * MAX_UNSENT, "{bytes} bytes of answers");
            for _ in 0..REQUESTS {
                assert_eq!(client.receive().await.unwrap().opcode, Opcode::Result);
            }
        },
    );
}
