//! Result columns of a prepared statement that change after PREPARE.

use cassandra_protocol::frame::Opcode;

use super::client::{Client, MODES};
use super::node::with_node;

const SKIP_METADATA: u8 = 0x02;
const NO_METADATA: u32 = 0x04;

/// Sends an EXECUTE of version 4 that skips metadata. Returns the flag `NO_METADATA` and the number
/// of columns of the answer.
async fn execute_without_metadata(client: &mut Client, id: &[u8]) -> (u32, u32) {
    let mut body = (id.len() as u16).to_be_bytes().to_vec();
    body.extend_from_slice(id);
    body.extend_from_slice(&[0, 1, SKIP_METADATA]);
    client.send(&[client.request(0, Opcode::Execute, body)]).await;
    let answer = client.receive().await.unwrap();
    assert_eq!(answer.opcode, Opcode::Result);
    let int = |at: usize| u32::from_be_bytes(answer.body[at..at + 4].try_into().unwrap());
    assert_eq!(int(0), 2, "rows");
    (int(4) & NO_METADATA, int(8))
}

/// In version 4 a client learns the columns only from PREPARE, so without new metadata it would
/// read rows of three columns as rows of two.
#[test]
fn version_4_receives_metadata_of_changed_columns() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            let mut other = node.client(MODES[0]).await;
            for text in [
                "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                "CREATE TYPE ks.u (x int)",
                "CREATE TABLE ks.t (k int PRIMARY KEY, u frozen<u>)",
                "INSERT INTO ks.t (k, u) VALUES (1, {x: 1})",
            ] {
                client.must(text).await;
            }
            let all = client.must_prepare("SELECT * FROM ks.t").await.id.into_bytes().unwrap();
            let point =
                other.must_prepare("SELECT * FROM ks.t WHERE k = 1").await.id.into_bytes().unwrap();
            let key = client.must_prepare("SELECT k FROM ks.t").await.id.into_bytes().unwrap();
            assert_eq!(execute_without_metadata(&mut client, &all).await, (NO_METADATA, 2));
            assert_eq!(execute_without_metadata(&mut other, &point).await, (NO_METADATA, 2));
            client.must("ALTER TABLE ks.t ADD b int").await;
            for _ in 0..2 {
                assert_eq!(execute_without_metadata(&mut client, &all).await, (0, 3));
                assert_eq!(execute_without_metadata(&mut other, &point).await, (0, 3));
                assert_eq!(execute_without_metadata(&mut other, &all).await, (0, 3));
            }
            assert_eq!(execute_without_metadata(&mut client, &key).await, (NO_METADATA, 1));
            // A change of a user type changes the columns of that type.
            let by_type = client.must_prepare("SELECT u FROM ks.t").await.id.into_bytes().unwrap();
            assert_eq!(execute_without_metadata(&mut client, &by_type).await, (NO_METADATA, 1));
            client.must("ALTER TYPE ks.u ADD y int").await;
            assert_eq!(execute_without_metadata(&mut client, &by_type).await, (0, 1));
        },
    );
}
