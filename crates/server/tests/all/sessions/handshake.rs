//! The handshake from connecting to READY, and its failures.

use cassandra_protocol::frame::Opcode;
use cassandra_protocol::frame::message_error::ErrorType;
use cassandra_protocol::frame::message_response::ResponseBody;

use super::client::{Client, MODES};
use super::node::with_node;

#[test]
fn options_list_startup_values_and_the_shard_of_the_connection() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut shards = Vec::new();
            let mut clients = Vec::new();
            for mode in [MODES[0], MODES[3]] {
                let mut client = node.connect(mode).await;
                match client.ask(client.request(5, Opcode::Options, vec![])).await {
                    ResponseBody::Supported(supported) => {
                        let get = |name: &str| supported.data[name].join(",");
                        assert_eq!(get("CQL_VERSION"), "3.4.7");
                        assert_eq!(get("COMPRESSION"), "lz4,snappy");
                        assert_eq!(get("PROTOCOL_VERSIONS"), "3/v3,4/v4,5/v5");
                        assert_eq!(get("SCYLLA_NR_SHARDS"), "2");
                        assert_eq!(get("SCYLLA_SHARDING_IGNORE_MSB"), "0");
                        assert_eq!(get("SCYLLA_SHARDING_ALGORITHM"), "biased-token-round-robin");
                        let port = node.shard_aware.unwrap().port().to_string();
                        assert_eq!(get("SCYLLA_SHARD_AWARE_PORT"), port);
                        shards.push(get("SCYLLA_SHARD"));
                    }
                    other => panic!("{other:?}"),
                }
                clients.push(client);
            }
            shards.sort();
            assert_eq!(shards, ["0", "1"], "two connections go to two shards");
        },
    );
}

#[test]
fn the_port_of_the_client_chooses_the_shard_on_the_shard_aware_port() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut clients = Vec::new();
            for _ in 0..6 {
                let mut client = Client::connect(node.shard_aware.unwrap(), MODES[0]).await;
                let port = client.local_port();
                match client.ask(client.request(0, Opcode::Options, vec![])).await {
                    ResponseBody::Supported(supported) => {
                        assert_eq!(supported.data["SCYLLA_SHARD"], [(port % 2).to_string()]);
                    }
                    other => panic!("{other:?}"),
                }
                clients.push(client);
            }
        },
    );
}

#[test]
fn every_version_and_compression_gets_ready() {
    with_node(
        1,
        |_| {},
        |node| async move {
            for mode in MODES {
                let mut client = node.client(mode).await;
                match client.ask(client.request(9, Opcode::Options, vec![])).await {
                    ResponseBody::Supported(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        },
    );
}

#[test]
fn startup_refuses_unsupported_options_and_may_be_retried() {
    with_node(
        1,
        |_| {},
        |node| async move {
            for (mode, options, message) in [
                (MODES[0], &[][..], "Missing value CQL_VERSION in STARTUP message"),
                (
                    MODES[0],
                    &[("CQL_VERSION", "2.0.0")],
                    "CQL version 2.0.0 is not supported (the supported version is 3.4.7)",
                ),
                (
                    MODES[0],
                    &[("CQL_VERSION", "3.4.7"), ("COMPRESSION", "zip")],
                    "Unknown compression algorithm: zip",
                ),
                (
                    MODES[3],
                    &[("CQL_VERSION", "3.4.7"), ("COMPRESSION", "snappy")],
                    "Compression snappy is not part of version 5; it has lz4",
                ),
            ] {
                let mut client = node.connect(mode).await;
                let error = client.ask_error(client.startup_request(options)).await;
                assert_eq!((error.ty, error.message.as_str()), (ErrorType::Protocol, message));
                // The client may try again.
                let again = client.startup_request(&[("CQL_VERSION", "3.0.0")]);
                assert_eq!(client.ask(again).await, ResponseBody::Ready);
            }
        },
    );
}

#[test]
fn requests_in_the_wrong_order_are_refused() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.connect(MODES[0]).await;
            let error = client.ask_error(client.query(3, "SELECT key FROM system.local")).await;
            assert_eq!(error.message, "Unexpected message Query, expecting STARTUP or OPTIONS");
            client.startup().await;
            let again = client.startup_request(&[("CQL_VERSION", "3.0.0")]);
            let error = client.ask_error(again).await;
            assert_eq!(
                error.message,
                "Unexpected message STARTUP: the connection is already initialized"
            );
            let token = client.request(0, Opcode::AuthResponse, vec![0xff; 4]);
            assert_eq!(client.ask_error(token).await.ty, ErrorType::Protocol);
        },
    );
}

#[test]
fn an_unsupported_version_is_answered_and_the_connection_closed() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.connect(MODES[0]).await;
            client.send_bytes(vec![66, 0, 0, 4, 5, 0, 0, 0, 0]).await;
            let answer = client.receive().await.unwrap();
            assert_eq!(answer.stream_id, 4);
            match answer.response_body().unwrap() {
                ResponseBody::Error(error) => assert!(error.is_bad_protocol(), "{error:?}"),
                other => panic!("{other:?}"),
            }
            assert!(client.receive().await.is_none());
        },
    );
}

#[test]
fn a_broken_checksum_is_answered_and_the_connection_closed() {
    with_node(
        1,
        |_| {},
        |node| async move {
            for mode in [MODES[3], MODES[4]] {
                let mut client = node.client(mode).await;
                let good = client.request(1, Opcode::Options, vec![]);
                let mut bytes = mode.client_bytes(&[good]);
                *bytes.last_mut().unwrap() ^= 1;
                client.send_bytes(bytes).await;
                match client.receive().await.unwrap().response_body().unwrap() {
                    ResponseBody::Error(error) => assert!(error.message.contains("checksum")),
                    other => panic!("{other:?}"),
                }
                assert!(client.receive().await.is_none());
            }
        },
    );
}
