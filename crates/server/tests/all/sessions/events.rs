//! REGISTER, and the events that follow.

use cassandra_protocol::frame::events::{SchemaChangeType, ServerEvent, SimpleServerEvent};
use cassandra_protocol::frame::message_register::BodyReqRegister;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::{Opcode, Serialize};

use super::client::{Client, MODES};
use super::node::with_node;

pub async fn register(client: &mut Client, events: Vec<SimpleServerEvent>) {
    let body = BodyReqRegister::new(events).serialize_to_vec(client.mode.oracle_version());
    let request = client.request(0, Opcode::Register, body);
    assert_eq!(client.ask(request).await, ResponseBody::Ready);
}

#[test]
fn a_schema_change_reaches_the_connections_of_all_shards_that_want_it() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut clients = Vec::new();
            for mode in MODES {
                let mut client = node.client(mode).await;
                // A client may register for nothing, and several times; it gets each event once.
                register(&mut client, vec![]).await;
                register(&mut client, vec![SimpleServerEvent::SchemaChange]).await;
                register(&mut client, vec![SimpleServerEvent::SchemaChange]).await;
                clients.push(client);
            }
            let mut indifferent = node.client(MODES[0]).await;
            register(&mut indifferent, vec![SimpleServerEvent::StatusChange]).await;
            let mut author = node.client(MODES[0]).await;
            author
                .must(
                    "CREATE KEYSPACE seen WITH replication = \
                 {'class': 'SimpleStrategy', 'replication_factor': 1}",
                )
                .await;
            for client in &mut clients {
                let envelope = client.receive().await.unwrap();
                assert_eq!(envelope.stream_id, -1);
                match envelope.response_body().unwrap() {
                    ResponseBody::Event(it) => match it.event {
                        ServerEvent::SchemaChange(change) => {
                            assert_eq!(change.change_type, SchemaChangeType::Created);
                        }
                        other => panic!("{other:?}"),
                    },
                    other => panic!("{other:?}"),
                }
                let options = client.request(5, Opcode::Options, vec![]);
                assert!(matches!(client.ask(options).await, ResponseBody::Supported(_)));
            }
            // A connection that did not register for schema changes gets no event, so its next
            // envelope is the answer to its next request.
            let options = indifferent.request(6, Opcode::Options, vec![]);
            assert!(matches!(indifferent.ask(options).await, ResponseBody::Supported(_)));
        },
    );
}
