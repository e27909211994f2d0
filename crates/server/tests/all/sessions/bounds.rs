//! Tests that the server enforces its limits.

use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use cassandra_protocol::frame::events::SimpleServerEvent;
use cassandra_protocol::frame::message_error::ErrorType;
use cassandra_protocol::frame::message_register::BodyReqRegister;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::message_result::ResResultBody;
use cassandra_protocol::frame::{Envelope, Opcode, Serialize};
use cassandra_protocol::types::value::Value;
use espalier_runtime::spawn_local;
use espalier_runtime::time::sleep;
use espalier_server::ConnectionLimits;
use espalier_server::protocol::DecodeError;

use super::admin_api::metric;
use super::client::{Client, MODES};
use super::node::{TestNode, with_node};

#[test]
fn connections_past_the_limit_are_closed_and_places_come_back() {
    let limits = ConnectionLimits { total: Some(2), per_address: None };
    with_node(
        2,
        |config| config.connection_limits = limits,
        |node| async move {
            let first = node.client(MODES[0]).await;
            let _second = node.client(MODES[0]).await;
            let mut third = node.connect(MODES[0]).await;
            assert!(third.receive().await.is_none());
            drop(first);
            let mut patience = 6000;
            loop {
                let mut again = node.connect(MODES[0]).await;
                again.send(&[again.request(0, Opcode::Options, vec![])]).await;
                if again.receive().await.is_some() {
                    break;
                }
                patience -= 1;
                assert!(patience > 0, "a closed connection is still counted");
                sleep(Duration::from_millis(10)).await;
            }
        },
    );
}

#[test]
fn a_frame_past_the_limit_is_refused_alone() {
    with_node(
        1,
        |config| config.max_frame_size = 10_000,
        |node| async move {
            for mode in MODES {
                let mut client = node.client(mode).await;
                // Text that neither LZ4 nor Snappy shortens.
                let mut state = 1u32;
                let noise: String = std::iter::repeat_with(|| {
                    state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                    char::from(b'!' + (state >> 24) as u8 % 90)
                })
                .take(200_000)
                .collect();
                let error = client.ask_error(client.query(1, &noise)).await;
                assert_eq!(error.ty, ErrorType::Invalid);
                assert!(
                    error.message.contains("exceeds maximum allowed length 10000"),
                    "{error:?}"
                );
                let options = client.request(2, Opcode::Options, vec![]);
                assert!(matches!(client.ask(options).await, ResponseBody::Supported(_)));
            }
        },
    );
}

#[test]
fn requests_past_the_bytes_in_flight_are_refused_as_overloaded() {
    with_node(
        1,
        |config| config.max_request_data_in_flight = 10_000,
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            client
                .must(
                    "CREATE KEYSPACE ks WITH replication = \
                 {'class': 'SimpleStrategy', 'replication_factor': 1}",
                )
                .await;
            client.must("CREATE TABLE ks.t (k int PRIMARY KEY, v text)").await;
            let insert = client.must_prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)").await;
            let value = |key: i16| {
                vec![
                    Value::Some(i32::from(key).to_be_bytes().to_vec()),
                    Value::Some(vec![b'x'; 1000]),
                ]
            };
            // The requests arrive together. None finishes before the first sync of the commit log.
            let requests: Vec<_> =
                (0..100).map(|stream| client.execute(stream, &insert, value(stream))).collect();
            client.send(&requests).await;
            let (mut done, mut shed) = (0, 0);
            for _ in 0..100 {
                match client.receive().await.unwrap().response_body().unwrap() {
                    ResponseBody::Result(ResResultBody::Void) => done += 1,
                    ResponseBody::Error(error) => {
                        assert_eq!(error.ty, ErrorType::Overloaded);
                        assert_eq!(
                            error.message,
                            "Request breached native_transport_max_request_data_in_flight: \
                         try again later"
                        );
                        shed += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(done >= 9 && shed > 0, "{done} done, {shed} shed");
            assert_eq!(
                metric(node.admin, "scylla_transport_requests_shed{shard=\"0\"}").await,
                shed
            );
            let again = client.execute(0, &insert, value(0));
            assert_eq!(client.ask(again).await, ResponseBody::Result(ResResultBody::Void));
        },
    );
}

/// The server stops reading requests from a client that does not read its answers, and resumes once
/// the client reads them.
#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    const REQUESTS: usize = 200_000;
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            flood(&node, &client, REQUESTS).await;
            for _ in 0..REQUESTS {
                assert_eq!(client.receive().await.unwrap().opcode, Opcode::Supported);
            }
        },
    );
}

/// Sends requests and reads no answers. Returns when the server has stopped reading the requests.
async fn flood(node: &TestNode, client: &Client, requests: usize) {
    let options = client.request(1, Opcode::Options, vec![]);
    let one = client.mode.client_bytes(&[options]);
    let stream = Rc::clone(&client.stream);
    let flood = one.repeat(requests);
    let sent = flood.len() as u64;
    spawn_local(async move { stream.write_all(flood).await.0.unwrap() }).detach();
    let received = || metric(node.admin, "espalier_transport_received_bytes{shard=\"0\"}");
    let mut before = 0;
    loop {
        sleep(Duration::from_millis(200)).await;
        let now = received().await;
        if now == before {
            break;
        }
        before = now;
    }
    assert!(before < sent, "the server read all {sent} bytes, although the client read no answer");
}

/// An event comes while many answers are unsent. The client reads them later, and gets the event.
#[test]
fn unsent_answers_do_not_count_as_events() {
    const REQUESTS: usize = 200_000;
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            let schema_changes = vec![SimpleServerEvent::SchemaChange];
            let body = BodyReqRegister::new(schema_changes);
            let body = body.serialize_to_vec(client.mode.oracle_version());
            let register = client.request(0, Opcode::Register, body);
            assert_eq!(client.ask(register).await, ResponseBody::Ready);
            flood(&node, &client, REQUESTS).await;
            let mut author = node.client(MODES[0]).await;
            author.must("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").await;
            let mut events = 0;
            for _ in 0..=REQUESTS {
                let envelope = client.receive().await.expect("the connection is open");
                events += usize::from(envelope.opcode == Opcode::Event);
            }
            assert_eq!(events, 1);
        },
    );
}

/// Waits for a condition, for a minute or more. Returns false if the condition stays false.
pub async fn wait_for(condition: impl AsyncFn() -> bool) -> bool {
    for _ in 0..3000 {
        if condition().await {
            return true;
        }
        sleep(Duration::from_millis(20)).await;
    }
    false
}

/// The server stops reading rows from storage for a client until the client reads its answers.
#[test]
fn rows_wait_for_their_reader() {
    const REQUESTS: i16 = 1000;
    // `Value::new` encodes the bytes as a list, so that the value in the table has 400,004 bytes.
    const VALUE: usize = 80_000;
    with_node(
        1,
        |_| {},
        |node| async move {
            for mode in [MODES[0], MODES[3]] {
                let mut client = node.client(mode).await;
                client.must("CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").await;
                client.must("CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v blob)").await;
                let insert = client.must_prepare("INSERT INTO ks.t (k, v) VALUES (1, ?)").await;
                let value = vec![Value::new(vec![7u8; VALUE])];
                let inserted = client.ask(client.execute(0, &insert, value)).await;
                assert_eq!(inserted, ResponseBody::Result(ResResultBody::Void));
                let point = client.must_prepare("SELECT v FROM ks.t WHERE k = 1").await;
                let requests: Vec<_> = (0..REQUESTS)
                    .map(|stream| match stream % 2 {
                        0 => client.execute(stream, &point, vec![]),
                        _ => client.query(stream, "SELECT * FROM ks.t"),
                    })
                    .collect();
                client.send(&requests).await;
                let unsent = || metric(node.admin, "espalier_transport_unsent_bytes");
                assert!(wait_for(async || unsent().await >= 1 << 16).await, "no answer is unsent");
                sleep(Duration::from_millis(500)).await;
                let unsent_now = unsent().await;
                let all = VALUE as u64 * REQUESTS as u64;
                assert!((1 << 16..all / 5).contains(&unsent_now), "{unsent_now} of {all}");
                let mut streams = std::collections::BTreeSet::new();
                for _ in 0..REQUESTS {
                    let answer = client.receive().await.unwrap();
                    assert_eq!(answer.opcode, Opcode::Result);
                    assert!(answer.body.len() > VALUE);
                    streams.insert(answer.stream_id);
                }
                assert_eq!(streams.len(), REQUESTS as usize);
                drop(client);
                assert!(wait_for(async || unsent().await == 0).await);
            }
        },
    );
}

/// Returns the header of a QUERY whose body has `length` bytes.
pub fn query_header(stream: i16, length: u32) -> Vec<u8> {
    let mut header = vec![4, 0];
    header.extend_from_slice(&stream.to_be_bytes());
    header.push(7);
    header.extend_from_slice(&length.to_be_bytes());
    header
}

#[test]
fn a_large_frame_before_startup_is_a_protocol_error() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.connect(MODES[0]).await;
            client.send_bytes(query_header(3, 70_000)).await;
            let answer = client.receive().await.expect("an answer to the header alone");
            assert_eq!(answer.stream_id, 3);
            match answer.response_body().unwrap() {
                ResponseBody::Error(error) => {
                    assert_eq!(error.ty, ErrorType::Protocol);
                    assert!(error.message.contains("length 70000 exceeds 65536"), "{error:?}");
                }
                other => panic!("{other:?}"),
            }
            assert!(client.receive().await.is_none(), "the connection is closed");
        },
    );
}

/// The node keeps few waiting requests of clients that pipeline many small reads and do not read
/// the answers. It serves other clients meanwhile.
#[test]
fn pipelined_reads_wait_in_the_socket() {
    const CLIENTS: usize = 10;
    const REQUESTS: usize = 5_000;
    with_node(
        1,
        |config| config.max_request_data_in_flight = 2_000_000,
        |node| async move {
            let mut other = node.client(MODES[0]).await;
            let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
            other.must(&format!("CREATE KEYSPACE ks WITH replication = {replication}")).await;
            other.must("CREATE TABLE ks.t (k int PRIMARY KEY, v blob)").await;
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                let client = node.client(MODES[0]).await;
                let read = client.query(1, "SELECT * FROM ks.t WHERE k = 1");
                let flood = client.mode.client_bytes(&[read]).repeat(REQUESTS);
                let stream = Rc::clone(&client.stream);
                spawn_local(async move { _ = stream.write_all(flood).await }).detach();
                clients.push(client);
            }
            let serving = || metric(node.admin, "scylla_transport_requests_serving{shard=\"0\"}");
            let mut most = 0;
            for _ in 0..50 {
                most = most.max(serving().await);
                other.must("SELECT * FROM ks.t WHERE k = 2").await;
                sleep(Duration::from_millis(20)).await;
            }
            // The limit allows 205 waiting tasks. Above it, each connection may have `MIN_TASKS`
            // (16).
            assert!(most <= 206 + 16 * CLIENTS as u64, "{most}");
            // A client that starts to read gets all its answers.
            let mut client = clients.swap_remove(0);
            for _ in 0..REQUESTS {
                assert_eq!(client.receive().await.unwrap().opcode, Opcode::Result);
            }
        },
    );
}

/// A small compressed frame can decompress to a large envelope. The decoder pauses at least once in
/// each 256 KiB, so that the node can count the bytes.
#[test]
fn a_compressed_envelope_grows_in_counted_pieces() {
    const PIECE: usize = 256 * 1024;
    let mode = MODES[4];
    let request = mode.request(1, Opcode::Query, vec![b'x'; 8_000_000]);
    let mut buffer = BytesMut::from(&mode.client_bytes(&[request])[..]);
    let (mut decoder, mut counted) = (mode.decoder(), 0);
    let envelope = loop {
        match decoder.next(&mut buffer).unwrap() {
            Some(envelope) => break envelope,
            None => assert!(decoder.is_paused()),
        }
        let held = decoder.unfinished_bytes(&buffer);
        assert!(held < counted + PIECE, "{held} bytes after {counted}");
        counted = held;
    };
    assert_eq!(envelope.body.len(), 8_000_000);
}

/// The bytes of a refused envelope do not count. The decoder can refuse an envelope only once its
/// header has arrived.
#[test]
fn a_refused_envelope_holds_no_bytes() {
    let error = || DecodeError::Overloaded { limit: "limit" };
    let mode = MODES[3];
    let wire = mode.client_bytes(&[mode.request(1, Opcode::Query, vec![b'x'; 1_000_000])]);
    let mut decoder = mode.decoder();
    let mut buffer = BytesMut::from(&wire[..100_000]);
    assert_eq!(decoder.next(&mut buffer), Ok(None));
    assert!(!decoder.refuse_unfinished(&mut buffer, error()), "no segment has arrived");
    assert!(decoder.unfinished_bytes(&buffer) > 99_000, "an incomplete segment must count");
    buffer.extend_from_slice(&wire[100_000..240_000]);
    while decoder.next(&mut buffer) == Ok(None) && decoder.is_paused() {}
    assert!(decoder.unfinished_bytes(&buffer) > 230_000);
    assert!(decoder.refuse_unfinished(&mut buffer, error()));
    assert!(buffer.len() > 100_000, "most of a segment");
    assert_eq!(decoder.unfinished_bytes(&buffer), 0);
    buffer.extend_from_slice(&wire[240_000..]);
    assert_eq!(decoder.next(&mut buffer).unwrap_err().error, error());
}

/// Returns a BATCH with `count` statements whose texts have about `length` bytes.
fn long_batch(client: &Client, stream: i16, count: u16, length: usize) -> Envelope {
    let mut body = vec![1];
    body.extend_from_slice(&count.to_be_bytes());
    let text = format!("INSERT INTO ks.t (k, v) VALUES (1, 0x{})", "00".repeat(length / 2));
    for _ in 0..count {
        body.push(0);
        body.extend_from_slice(&(text.len() as u32).to_be_bytes());
        body.extend_from_slice(text.as_bytes());
        body.extend_from_slice(&0u16.to_be_bytes());
    }
    body.extend_from_slice(&[0, 1, 0]);
    client.request(stream, Opcode::Batch, body)
}

/// The plans of batches take much more memory than their texts, so the plans of a long batch wait
/// until those of another long batch are dropped. A short batch does not wait.
#[test]
fn long_batches_are_planned_one_after_the_other() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            client.must("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}").await;
            client.must("CREATE TABLE ks.t (k int PRIMARY KEY, v blob)").await;
            let requests = [
                long_batch(&client, 1, 1000, 4000),
                long_batch(&client, 2, 1, 5000),
                long_batch(&client, 3, 1, 500),
            ];
            client.send(&requests).await;
            let mut streams = Vec::new();
            for _ in requests {
                streams.push(client.receive().await.expect("an answer").stream_id);
            }
            assert_eq!(streams, [3, 1, 2]);
        },
    );
}
