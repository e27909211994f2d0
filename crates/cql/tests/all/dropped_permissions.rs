//! No permission survives the drop of its table or role, even if the drop meets the statement that
//! creates the table.
//!
//! Each test starts its statements at the same time, and the drop at several moments. The first
//! statement holds the lock of the schema, so that the others wait.

use futures_util::future::join_all;

use espalier_cql::{ClientState, QueryOptions, QueryProcessor};
use espalier_runtime::{block_on, yield_now};

use super::auth_scripts::{SUPERUSER, log_in, open};
use super::scripts::show_answer;

/// Number of moments at which the drop begins.
const YIELDS: usize = 40;

const KEYSPACE: &str = "WITH replication = {'class': 'SimpleStrategy'}";

/// Executes a statement of a client.
async fn execute(processor: &QueryProcessor, client: &ClientState, statement: &str) -> String {
    let mut client = client.clone();
    show_answer(processor.query(statement, &mut client, &QueryOptions::default()).await)
}

/// Prepares roles and a keyspace. Executes `statements`, each of the role before it, at the same
/// time; the last one begins after `yields` yields. Returns the stored permissions if the last
/// statement succeeded.
async fn permissions_after(statements: &[(&str, &str)], yields: usize) -> Option<String> {
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
    let last = statements.len() - 1;
    let executions = statements.iter().enumerate().map(|(index, (role, statement))| {
        let client = if *role == "maker" { &maker } else { &root };
        let (processor, yields) = (&processor, if index == last { yields } else { 0 });
        async move {
            for _ in 0..yields {
                yield_now().await;
            }
            execute(processor, client, statement).await
        }
    });
    let answers = join_all(executions).await;
    let stored = "SELECT role, resource FROM system_auth.role_permissions";
    let is_done = answers.last().is_some_and(|answer| !answer.contains(": "));
    let stored = execute(&processor, &root, stored).await;
    is_done.then_some(stored)
}

#[test]
fn a_dropped_keyspace_leaves_no_permissions_on_a_table_that_it_just_got() {
    block_on(async {
        for yields in 0..YIELDS {
            let statements = [
                (SUPERUSER, &*format!("CREATE KEYSPACE other {KEYSPACE}")),
                ("maker", "CREATE TABLE k.t (k int PRIMARY KEY)"),
                (SUPERUSER, "DROP KEYSPACE k"),
            ];
            let Some(stored) = permissions_after(&statements, yields).await else { continue };
            assert!(!stored.contains("data/k/t"), "after {yields} yields: {stored}");
        }
    });
}

#[test]
fn a_dropped_role_gets_no_permissions_on_the_table_that_it_creates() {
    block_on(async {
        for yields in 0..YIELDS {
            let statements = [
                (SUPERUSER, &*format!("CREATE KEYSPACE other {KEYSPACE}")),
                ("maker", "CREATE TABLE k.t (k int PRIMARY KEY)"),
                (SUPERUSER, "DROP ROLE maker"),
            ];
            let Some(stored) = permissions_after(&statements, yields).await else { continue };
            assert!(!stored.contains("maker"), "after {yields} yields: {stored}");
        }
    });
}
