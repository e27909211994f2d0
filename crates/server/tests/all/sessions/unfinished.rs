//! Tests that the node bounds the memory of requests that have arrived only in part.

use std::rc::Rc;
use std::time::Duration;

use cassandra_protocol::frame::message_error::ErrorType;
use cassandra_protocol::frame::message_response::ResponseBody;
use espalier_runtime::spawn_local;
use espalier_runtime::time::{Instant, sleep};

use super::admin_api::metric;
use super::bounds::{query_header, wait_for};
use super::client::{Client, MODES, Mode};
use super::node::{TestNode, with_node};

/// The limit of the requests of one address, in bytes.
const LIMIT: usize = 6_000_000;

/// Requests that have arrived only in part hold at most three quarters of the limit. The node
/// refuses a request that finds no memory, and continues to serve small requests.
#[test]
fn unfinished_requests_count_as_in_flight() {
    with_node(
        1,
        |config| config.max_request_data_in_flight_per_ip = LIMIT,
        |node| async move {
            // Each mode takes 10 to 20 s, because the node refuses one request after the other,
            // each after 5 s. So `make test` runs only the second mode.
            let left_out = usize::from(!espalier_testing::runs_all());
            for mode in [MODES[0], MODES[3]].into_iter().skip(left_out) {
                let mut rounds = 1;
                while !refuses_the_fifth_request(&node, mode).await {
                    rounds += 1;
                    assert!(rounds < 10, "the machine is too slow, {mode:?}");
                }
            }
        },
    );
}

/// Sends parts of five requests, and then the rest. Returns false if the machine was so slow that
/// the node may have closed a connection because its request did not continue.
async fn refuses_the_fifth_request(node: &TestNode, mode: Mode) -> bool {
    // Parts of four requests fit into three quarters of the limit. Then 150 KB are left, which is
    // more than a segment. A whole request fits beside two parts at most, so the node refuses at
    // least one of the four.
    const LENGTH: usize = LIMIT / 2;
    const PART: usize = 1_087_500;
    let in_flight = || metric(node.admin, "espalier_transport_in_flight_bytes{shard=\"0\"}");
    let shed = || metric(node.admin, "scylla_transport_requests_shed{shard=\"0\"}");
    assert!(wait_for(async || in_flight().await == 0).await, "bytes of the last round are held");
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(node.client(mode).await);
    }
    let mut part = mode.client_bytes(&[clients[0].query(1, &"x".repeat(LENGTH))]);
    let rest = part.split_off(PART);
    let write = |client: &Client, bytes: &[u8]| {
        let (stream, bytes) = (Rc::clone(&client.stream), bytes.to_vec());
        spawn_local(async move { _ = stream.write_all(bytes).await })
    };
    let shed_before = shed().await;
    // The node closes a connection 10 s after the last large part of its request.
    let began = Instant::now();
    let is_late = || began.elapsed() >= Duration::from_secs(9);
    let mut parts: Vec<_> = clients[..4].iter().map(|client| write(client, &part)).collect();
    // In version 5, the headers of segments do not count.
    let of_four = 4 * PART as u64 - 400;
    assert!(wait_for(async || in_flight().await >= of_four || is_late()).await, "{mode:?}");
    parts.push(write(&clients[4], &part));
    sleep(Duration::from_millis(500)).await;
    let held = in_flight().await;
    assert!(held <= 4_500_000 && (held >= of_four || is_late()), "{held}, {mode:?}");
    let mut small = node.client(mode).await;
    small.must("SELECT * FROM system.local").await;
    // The node refuses the fifth request after 5 s, and skips its bytes.
    assert!(wait_for(async || shed().await > shed_before || is_late()).await, "{mode:?}");
    if is_late() {
        return false;
    }
    for written in parts {
        written.await;
    }
    clients.iter().for_each(|client| write(client, &rest).detach());
    let (mut refused, mut parsed) = (Vec::new(), 0);
    for (number, client) in clients.iter_mut().enumerate() {
        let Some(answer) = client.receive().await else {
            assert!(is_late(), "connection {number} is closed, {mode:?}");
            return false;
        };
        match answer.response_body().unwrap() {
            ResponseBody::Error(error) if error.ty == ErrorType::Overloaded => refused.push(number),
            ResponseBody::Error(error) if error.ty == ErrorType::Syntax => parsed += 1,
            other => panic!("{other:?}"),
        }
        client.must("SELECT * FROM system.local").await;
    }
    let is_right = refused.len() >= 2 && refused.contains(&4) && parsed >= 1;
    assert!(is_right, "{refused:?} refused, {parsed} parsed, {mode:?}");
    assert_eq!(in_flight().await, 0);
    true
}

/// The node closes a connection whose request stops arriving, so that the request does not hold
/// memory for ever.
#[test]
fn an_unfinished_request_that_stops_is_closed() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            let mut bytes = query_header(1, 1_000_000);
            bytes.resize(200_000, b'x');
            client.send_bytes(bytes).await;
            assert!(client.receive().await.is_none());
        },
    );
}
