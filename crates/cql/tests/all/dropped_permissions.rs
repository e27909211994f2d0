//! No permission survives the drop of its table or role, even if the drop meets the statement that
//! creates the table.
//!
//! Each test starts its statements at the same time. The first one holds the lock of the schema, so
//! that the others wait in their order.

use futures_util::future::join_all;

use espalier_cql::{ClientState, QueryOptions, QueryProcessor};
use espalier_runtime::block_on;

use super::auth_scripts::{SUPERUSER, log_in, open};
use super::scripts::show_answer;

const KEYSPACE: &str = "WITH replication = {'class': 'SimpleStrategy'}";

/// Executes a statement of a client.
async fn execute(processor: &QueryProcessor, client: &ClientState, statement: &str) -> String {
    let mut client = client.clone();
    show_answer(processor.query(statement, &mut client, &QueryOptions::default()).await)
}

/// Prepares roles and a keyspace. Executes `statements`, each of the role before it, at the same
/// time. Returns the stored permissions.
async fn permissions_after(statements: &[(&str, &str)]) -> String {
    let processor = open().await;
    let root = log_in(&processor, SUPERUSER).await;
    for statement in [
        &format!("CREATE KEYSPACE k {KEYSPACE}"),
        "CREATE ROLE maker WITH PASSWORD = 'maker' AND LOGIN = true",
        "GRANT CREATE ON ALL KEYSPACES TO maker",
    ] {
        execute(&processor, &root, statement).await;
    }
    let maker = log_in(&processor, "maker").await;
    let executions = statements.iter().map(|(role, statement)| {
        let client = if *role == "maker" { &maker } else { &root };
        execute(&processor, client, statement)
    });
    let answers = join_all(executions).await;
    assert!(answers.iter().all(|answer| !answer.contains(": ")), "{answers:?}");
    let stored = "SELECT role, resource FROM system_auth.role_permissions";
    execute(&processor, &root, stored).await
}

#[test]
fn a_dropped_keyspace_leaves_no_permissions_on_a_table_that_it_just_got() {
    block_on(async {
        let stored = permissions_after(&[
            (SUPERUSER, &format!("CREATE KEYSPACE other {KEYSPACE}")),
            ("maker", "CREATE TABLE k.t (k int PRIMARY KEY)"),
            (SUPERUSER, "DROP KEYSPACE k"),
        ])
        .await;
        assert!(stored.contains("maker"), "{stored}");
        assert!(!stored.contains("data/k/t"), "{stored}");
    });
}

#[test]
fn a_dropped_role_gets_no_permissions_on_the_table_that_it_creates() {
    block_on(async {
        let stored = permissions_after(&[
            (SUPERUSER, &format!("CREATE KEYSPACE other {KEYSPACE}")),
            (SUPERUSER, &format!("CREATE KEYSPACE another {KEYSPACE}")),
            ("maker", "CREATE TABLE k.t (k int PRIMARY KEY)"),
            (SUPERUSER, "DROP ROLE maker"),
        ])
        .await;
        assert!(!stored.contains("maker"), "{stored}");
    });
}
