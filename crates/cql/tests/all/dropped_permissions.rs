//! No permission survives the drop of its table or role, even if the drop meets the statement that
//! creates the table. Nor does a drop without permission succeed if it meets the statement that
//! creates the object.
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

/// The outcome of statements that began at about the same time.
struct Outcome {
    /// The answer to the last statement.
    last: String,
    /// The stored permissions.
    permissions: String,
    /// The names of the views in `k`.
    views: String,
    /// The names of the indexes in `k`.
    indexes: String,
}

/// Prepares roles, a keyspace and a table. Executes `statements`, pairs of a role and its
/// statement, at the same time; the last statement begins after `yields` yields.
async fn execute_together(statements: &[(&str, &str)], yields: usize) -> Outcome {
    let processor = open().await;
    let root = log_in(&processor, SUPERUSER).await;
    for statement in [
        &format!("CREATE KEYSPACE k {KEYSPACE}"),
        "CREATE ROLE maker WITH PASSWORD = 'maker' AND LOGIN = true",
        "GRANT CREATE ON ALL KEYSPACES TO maker",
        "CREATE TABLE k.base (k int PRIMARY KEY, v int)",
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
    let stored = async |query: &str| execute(&processor, &root, query).await;
    let schema = async |column: &str, table: &str| {
        stored(&format!("SELECT {column} FROM system_schema.{table} WHERE keyspace_name = 'k'"))
            .await
    };
    Outcome {
        last: answers.last().cloned().unwrap_or_default(),
        permissions: stored("SELECT role, resource FROM system_auth.role_permissions").await,
        views: schema("view_name", "views").await,
        indexes: schema("index_name", "indexes").await,
    }
}

/// Returns the stored permissions if the last statement succeeded.
async fn permissions_after(statements: &[(&str, &str)], yields: usize) -> Option<String> {
    let outcome = execute_together(statements, yields).await;
    (!outcome.last.contains(": ")).then_some(outcome.permissions)
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

/// When the drop is planned, the object does not exist, so the drop seems to need no permission.
#[test]
fn an_object_that_was_just_created_is_not_dropped_without_permission() {
    let view = "CREATE MATERIALIZED VIEW k.made AS SELECT * FROM k.base \
                WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)";
    block_on(async {
        for (create, drop) in [
            ("CREATE INDEX made ON k.base (v)", "DROP INDEX k.made"),
            (view, "DROP MATERIALIZED VIEW k.made"),
        ] {
            let mut refused = 0;
            for yields in (0..YIELDS).step_by(3) {
                let other = format!("CREATE KEYSPACE other {KEYSPACE}");
                let statements = [(SUPERUSER, &*other), (SUPERUSER, create), ("maker", drop)];
                let outcome = execute_together(&statements, yields).await;
                let Outcome { last, indexes, views, .. } = outcome;
                let stored = indexes + &views;
                assert!(stored.contains("made"), "{drop} after {yields} yields: {last}");
                refused += usize::from(last.contains("has no ALTER permission"));
            }
            assert!(refused > 0, "{drop} never met the new object");
        }
    });
}
