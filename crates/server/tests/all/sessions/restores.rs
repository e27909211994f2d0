//! Restores over the admin API create dropped tables and views.

use std::time::Duration;

use cassandra_protocol::frame::events::{
    SchemaChangeOptions, SchemaChangeType, ServerEvent, SimpleServerEvent,
};
use cassandra_protocol::frame::message_event::BodyResEvent;
use cassandra_protocol::frame::message_response::ResponseBody;
use espalier_runtime::time::sleep;
use futures_util::future::join;

use super::admin_api::ask;
use super::client::{Client, MODES};
use super::events::register;
use super::node::{TestNode, with_node};

const RESTORE: &str = "/storage_service/restore?keyspace=ks&snapshot=m&table=";

/// Takes a snapshot of a table with one row, and drops the table.
async fn dropped_with_snapshot(node: &TestNode) -> Client {
    let mut client = node.client(MODES[0]).await;
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "INSERT INTO ks.t (k, v) VALUES (1, 7)",
    ] {
        client.must(statement).await;
    }
    let taken = ask(node.admin, "POST", "/storage_service/snapshots?tag=m&kn=ks").await;
    assert_eq!(taken, (200, String::new()));
    client.must("DROP TABLE ks.t").await;
    client
}

/// Returns the next event of a client that registered for changes of the schema.
async fn next_change(client: &mut Client) -> (SchemaChangeType, SchemaChangeOptions) {
    match client.receive().await.expect("an event").response_body().unwrap() {
        ResponseBody::Event(BodyResEvent { event: ServerEvent::SchemaChange(change) }) => {
            (change.change_type, change.options)
        }
        other => panic!("{other:?}"),
    }
}

/// A restore creates the table, and then finds that its files do not fit. Clients may have written
/// to the table meanwhile, so the restore keeps it.
#[test]
fn a_failed_restore_keeps_the_table_that_it_created() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = dropped_with_snapshot(&node).await;
            let files = &node.file_system;
            let directories = files.read_dir("node/data/ks").await.unwrap();
            let snapshot = directories[0].path.join("snapshots/m/schema.cql");
            let schema = String::from_utf8(files.read(&snapshot).await.unwrap()).unwrap();
            assert!(schema.contains("k int PRIMARY KEY"), "{schema}");
            let changed = schema.replace("k int PRIMARY KEY", "k text PRIMARY KEY");
            files.write_atomically(&snapshot, changed).await.unwrap();
            let refused = ask(node.admin, "POST", &format!("{RESTORE}t")).await;
            assert_eq!(refused.0, 400, "{refused:?}");
            for part in ["is of another table", "The restore created ks.t and leaves it"] {
                assert!(refused.1.contains(part), "{refused:?}");
            }
            client.must("INSERT INTO ks.t (k, v) VALUES ('a', 1)").await;
        },
    );
}

/// A client creates the table while the restore is about to create it.
#[test]
fn a_failed_restore_keeps_the_table_of_a_client() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = dropped_with_snapshot(&node).await;
            for delay_us in (0..40).map(|step| step * 250) {
                let restoring = async { ask(node.admin, "POST", &format!("{RESTORE}t")).await };
                let creating = async {
                    sleep(Duration::from_micros(delay_us)).await;
                    client.ask_query("CREATE TABLE ks.t (other text PRIMARY KEY)").await
                };
                let (restored, created) = join(restoring, creating).await;
                let is_created = matches!(created, ResponseBody::Result(_));
                let kept = client.ask_query("SELECT * FROM ks.t").await;
                assert!(
                    matches!(kept, ResponseBody::Result(_)),
                    "{restored:?} {is_created} {kept:?}"
                );
                client.must("DROP TABLE ks.t").await;
            }
        },
    );
}

#[test]
fn a_restored_table_has_its_indexes_and_a_view_needs_its_base_table() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            for statement in [
                "CREATE KEYSPACE ks WITH replication = \
                 {'class': 'SimpleStrategy', 'replication_factor': 1}",
                "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
                "CREATE INDEX by_v ON ks.t (v)",
                "CREATE MATERIALIZED VIEW ks.a AS SELECT * FROM ks.t \
                 WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
                "INSERT INTO ks.t (k, v) VALUES (1, 7)",
            ] {
                client.must(statement).await;
            }
            let taken = ask(node.admin, "POST", "/storage_service/snapshots?tag=m&kn=ks").await;
            assert_eq!(taken, (200, String::new()));
            client.must("DROP MATERIALIZED VIEW ks.a").await;
            client.must("DROP TABLE ks.t").await;
            let restore =
                async |table: &str| ask(node.admin, "POST", &format!("{RESTORE}{table}")).await;
            // A driver that saw the drop must learn of the restored table.
            let mut driver = node.client(MODES[0]).await;
            register(&mut driver, vec![SimpleServerEvent::SchemaChange]).await;
            let refused = restore("a").await;
            assert_eq!(refused.0, 400, "{refused:?}");
            for part in ["Base table 't' doesn't exist", "restore the base table of the view"] {
                assert!(refused.1.contains(part), "{refused:?}");
            }
            for table in ["t", "a"] {
                let restored = restore(table).await;
                assert_eq!(restored.0, 200, "{table}: {restored:?}");
                let name = table.to_owned();
                let created = SchemaChangeOptions::TableType("ks".to_owned(), name);
                while next_change(&mut driver).await != (SchemaChangeType::Created, created.clone())
                {
                }
            }
            for query in ["SELECT k FROM ks.t WHERE v = 7", "SELECT k FROM ks.a WHERE v = 7"] {
                let rows = super::client::Client::rows(client.ask_query(query).await);
                assert_eq!(rows.len(), 1, "{query}");
            }
        },
    );
}
