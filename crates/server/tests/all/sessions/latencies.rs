//! The latencies of requests in `/metrics`.

use std::time::Duration;

use cassandra_protocol::frame::Opcode;
use cassandra_protocol::types::value::Value;
use espalier_storage::CommitLogSync;

use super::admin_api::ask;
use super::client::{Client, MODES};
use super::node::{TestNode, storage, with_node, with_node_over};

/// Number of consecutive requests that guarantees that at least one of them is timed.
const ENOUGH: i32 = 40;

/// Returns the value of the latency metric of `kind` whose name ends in `suffix` (with labels).
async fn number(node: &TestNode, kind: &str, suffix: &str) -> f64 {
    let (_, text) = ask(node.admin, "GET", "/metrics").await;
    let name = format!("scylla_storage_proxy_coordinator_{kind}_latency_{suffix} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name)).expect(&name);
    value.parse().unwrap()
}

/// Returns the numbers of reads and writes that were timed.
async fn counts(node: &TestNode) -> (f64, f64) {
    let count = "count{shard=\"0\"}";
    (number(node, "read", count).await, number(node, "write", count).await)
}

async fn with_table(node: &TestNode) -> Client {
    let mut client = node.client(MODES[0]).await;
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    client.must(&format!("CREATE KEYSPACE ks WITH replication = {replication}")).await;
    client.must("CREATE TABLE ks.t (k int PRIMARY KEY, v int)").await;
    client
}

fn key(key: i32) -> Vec<Value> {
    vec![Value::Some(key.to_be_bytes().to_vec())]
}

#[test]
fn latencies_count_reads_and_writes_separately_on_every_path() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let node = &node;
            let mut client = with_table(node).await;
            let insert = client.must_prepare("INSERT INTO ks.t (k, v) VALUES (?, 0)").await;
            let select = client.must_prepare("SELECT v FROM ks.t WHERE k = ?").await;
            let scan = client.must_prepare("SELECT v FROM ks.t WHERE k > ? ALLOW FILTERING").await;
            assert_eq!(counts(node).await, (0.0, 0.0), "nothing was read or written");

            let mut before = 0.0;
            for text in ["", "INSERT INTO ks.t (k, v) VALUES (1, 1)"] {
                for number in 0..ENOUGH {
                    match text {
                        "" => drop(client.ask(client.execute(0, &insert, key(number))).await),
                        text => client.must(text).await,
                    }
                }
                let (reads, writes) = counts(node).await;
                assert_eq!(reads, 0.0);
                assert!(writes > before && writes < before + f64::from(ENOUGH), "{text}: {writes}");
                before = writes;
            }
            let writes = before;

            let mut before = 0.0;
            for (prepared, text) in
                [(Some(&select), ""), (Some(&scan), ""), (None, "SELECT v FROM ks.t")]
            {
                for number in 0..ENOUGH {
                    let request = match prepared {
                        Some(prepared) => client.execute(0, prepared, key(number)),
                        None => client.query(0, text),
                    };
                    Client::rows(client.ask(request).await);
                }
                let (reads, writes_now) = counts(node).await;
                assert_eq!(writes_now, writes);
                assert!(reads > before && reads < before + f64::from(ENOUGH), "{text}: {reads}");
                before = reads;
            }
            for _ in 0..ENOUGH {
                client.ask(client.request(0, Opcode::Options, vec![])).await;
                client.must("USE ks").await;
            }
            assert_eq!(counts(node).await, (before, writes), "neither reads nor writes");

            let last = number(node, "read", "bucket{le=\"+Inf\",shard=\"0\"}").await;
            assert_eq!(last, before);
            assert!(number(node, "read", "sum{shard=\"0\"}").await > 0.0);
            let (_, text) = ask(node.admin, "GET", "/metrics").await;
            for kind in ["read", "write"] {
                let name = format!("scylla_storage_proxy_coordinator_{kind}_latency");
                assert_eq!(text.matches(&format!("# TYPE {name} histogram\n")).count(), 1);
            }
        },
    );
}

#[test]
fn a_write_takes_until_it_is_acknowledged() {
    const WINDOW: Duration = Duration::from_millis(10);
    let mut storage = storage();
    storage.commit_log.sync = CommitLogSync::Group { window: WINDOW };
    with_node_over(
        storage,
        1,
        |_| {},
        |node| async move {
            let mut client = with_table(&node).await;
            let insert = client.must_prepare("INSERT INTO ks.t (k, v) VALUES (?, 0)").await;
            for number in 0..ENOUGH {
                client.ask(client.execute(0, &insert, key(number))).await;
            }
            let sum_us = number(&node, "write", "sum{shard=\"0\"}").await;
            let average_us = sum_us / counts(&node).await.1;
            assert!(average_us > WINDOW.as_micros() as f64 / 2.0, "{average_us} µs");
        },
    );
}
