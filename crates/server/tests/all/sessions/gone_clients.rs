//! The reads of a client that has closed its connection end.

use std::time::Duration;

use espalier_runtime::time::sleep;

use super::admin_api::metric;
use super::client::MODES;
use super::node::with_node;

#[test]
fn a_read_ends_when_its_client_goes() {
    const ROWS: usize = 400;
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            for statement in [
                "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
                "CREATE TABLE ks.t (k int PRIMARY KEY, d decimal)",
            ] {
                client.must(statement).await;
            }
            // The logarithm of a number of 1000 digits takes about 24 ms, so the read below takes
            // more than half a minute.
            let digits = "7".repeat(1000);
            for key in 0..ROWS {
                client.must(&format!("INSERT INTO ks.t (k, d) VALUES ({key}, {digits})")).await;
            }
            let serving = || metric(node.admin, "scylla_transport_requests_serving{shard=\"0\"}");
            let becomes = async |wanted: u64| {
                for _ in 0..40 {
                    if serving().await == wanted {
                        return true;
                    }
                    sleep(Duration::from_millis(20)).await;
                }
                false
            };
            let selectors = ["max(log10(d))"; 4].join(", ");
            client.send(&[client.query(1, &format!("SELECT {selectors} FROM ks.t"))]).await;
            assert!(becomes(1).await, "the read runs");
            drop(client);
            assert!(becomes(0).await, "the read continues without its client");
        },
    );
}
