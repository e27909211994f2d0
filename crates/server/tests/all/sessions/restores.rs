//! Restores over the admin API create dropped tables and views.

use super::admin_api::ask;
use super::client::MODES;
use super::node::with_node;

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
            let restore = async |table: &str| {
                let path = "/storage_service/restore?keyspace=ks&snapshot=m&table=";
                ask(node.admin, "POST", &format!("{path}{table}")).await
            };
            let refused = restore("a").await;
            assert_eq!(refused.0, 400, "{refused:?}");
            for part in ["Base table 't' doesn't exist", "restore the base table of the view"] {
                assert!(refused.1.contains(part), "{refused:?}");
            }
            for table in ["t", "a"] {
                let restored = restore(table).await;
                assert_eq!(restored.0, 200, "{table}: {restored:?}");
            }
            for query in ["SELECT k FROM ks.t WHERE v = 7", "SELECT k FROM ks.a WHERE v = 7"] {
                let rows = super::client::Client::rows(client.ask_query(query).await);
                assert_eq!(rows.len(), 1, "{query}");
            }
        },
    );
}
