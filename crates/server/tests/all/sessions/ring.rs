//! The requests that a member of a Cassandra ring refuses and serves.

use cassandra_protocol::frame::message_error::ErrorType;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::message_result::BodyResResultPrepared;
use cassandra_protocol::frame::{Opcode, Version};
use cassandra_protocol::types::CBytesShort;

use super::client::{Client, MODES};
use super::node::with_node;

const NODE_LOCAL: u16 = 0x0B;

/// Returns the body of a QUERY without values.
fn query(text: &str, consistency: u16, version: Version) -> Vec<u8> {
    let flags: &[u8] = if version == Version::V5 { &[0; 4] } else { &[0] };
    let length = (text.len() as u32).to_be_bytes();
    [&length, text.as_bytes(), &consistency.to_be_bytes(), flags].concat()
}

#[test]
fn a_member_of_a_ring_serves_its_own_tables_and_local_rows_alone() {
    with_node(
        1,
        |config| config.is_ring_member = true,
        |node| async move {
            for mode in MODES {
                let mut client = node.client(mode).await;
                for text in [
                    "SELECT host_id FROM system.local",
                    "SELECT keyspace_name FROM system_schema.keyspaces",
                    "DESCRIBE KEYSPACES",
                    "USE system_auth",
                ] {
                    let answer = client.ask_query(text).await;
                    assert!(matches!(answer, ResponseBody::Result(_)), "{text}: {answer:?}");
                }
                for text in [
                    "CREATE KEYSPACE ks WITH replication = {'class': 'LocalStrategy'}",
                    "SELECT role FROM system_auth.roles",
                    "SELECT role FROM roles",
                    "INSERT INTO system_auth.roles (role) VALUES ('r')",
                    "TRUNCATE system_auth.roles",
                    "CREATE ROLE r",
                    "SELECT x FROM ks.unknown",
                    "SELEKT",
                ] {
                    let error = client.ask_error(client.query(0, text)).await;
                    assert_eq!(error.ty, ErrorType::IsBootstrapping, "{text}: {error:?}");
                    let error = client.ask_error(client.prepare(0, text)).await;
                    assert_eq!(error.ty, ErrorType::IsBootstrapping, "{text}: {error:?}");
                }
                // A query of a system table gets its own error, not IS_BOOTSTRAPPING.
                let unknown = client.query(0, "SELECT x FROM system.unknown");
                assert_eq!(client.ask_error(unknown).await.ty, ErrorType::Invalid);
                let own = client.must_prepare("SELECT host_id FROM system.local").await;
                Client::rows(client.ask(client.execute(0, &own, vec![])).await);
                let unprepared = BodyResResultPrepared { id: CBytesShort::new(vec![9; 16]), ..own };
                let error = client.ask_error(client.execute(0, &unprepared, vec![])).await;
                assert_eq!(error.ty, ErrorType::IsBootstrapping, "{error:?}");
                let version = mode.oracle_version();
                let local = query("SELECT role FROM system_auth.roles", NODE_LOCAL, version);
                let answer = client.ask(client.request(0, Opcode::Query, local)).await;
                assert_eq!(Client::rows(answer).len(), 0);
                let write = "INSERT INTO system_auth.roles (role) VALUES ('r')";
                let write = client.request(0, Opcode::Query, query(write, NODE_LOCAL, version));
                assert_eq!(client.ask_error(write).await.ty, ErrorType::IsBootstrapping);
                // BATCH: logged, without statements, at ONE.
                let batch = query("", 1, version)[4..].to_vec();
                let batch = client.request(0, Opcode::Batch, [&[0, 0, 0][..], &batch].concat());
                assert_eq!(client.ask_error(batch).await.ty, ErrorType::IsBootstrapping);
            }
        },
    );
}
