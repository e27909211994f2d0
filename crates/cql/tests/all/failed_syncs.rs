//! Conditional statements and transactions after a failed sync of the commit log. Readers see the
//! write whose sync has failed, but a crash may lose it.

use std::time::Duration;

use espalier_cql::{ClientState, ErrorCode, ErrorDetail, Now, QueryOptions};
use espalier_runtime::{
    block_on,
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    time,
};
use espalier_storage::{Node, TurnKind};

use crate::support::{
    bank::query,
    node::{self, execute, open},
};

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const INSERT: &str = "INSERT INTO ks.t (k, v) VALUES (1, 1)";
const CONDITIONAL: &str = "UPDATE ks.t SET v = 2 WHERE k = 1 IF v = 1";
const TRANSACTION: &str = "BEGIN TRANSACTION LET a = (SELECT v FROM ks.t WHERE k = 1); \
                           IF a.v = 1 THEN UPDATE ks.t SET v = 2 WHERE k = 1; END IF \
                           COMMIT TRANSACTION";

/// A write whose condition read a write that failed to sync is refused, until a flush has made the
/// earlier write durable. After that, a crash keeps both writes.
#[test]
fn a_write_that_follows_from_a_lost_one_is_refused() {
    for statement in [CONDITIONAL, TRANSACTION] {
        let file_system = FileSystem::simulated(1);
        let disk = file_system.simulated_disk().unwrap().clone();
        block_on(async {
            let (database, processor) = open(&file_system).await;
            execute(&processor, KEYSPACE).await.unwrap();
            execute(&processor, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)").await.unwrap();
            // No flush may succeed between the statements.
            disk.inject(Fault::always(Operation::Create, Effect::NoSpace).on_path("/t-"));
            disk.inject(Fault::nth(Operation::Sync, 0, Effect::InputOutput).on_path("commitlog-"));
            let error = query(&processor, INSERT).await.unwrap_err();
            assert_eq!((error.code, error.detail), (ErrorCode::WriteFailure, ErrorDetail::None));
            assert_eq!(node::rows(&processor, "SELECT v FROM ks.t", None).await.0, 1);
            let error = query(&processor, statement).await.unwrap_err();
            let detail = ErrorDetail::WriteFailure { kind: TurnKind::Conditional };
            assert_eq!((error.code, error.detail), (ErrorCode::WriteFailure, detail));
            // `execute_now` leaves the statement to the general path.
            let prepared = processor.prepare(CONDITIONAL, &ClientState::default()).unwrap();
            let (client, options) = (ClientState::default(), QueryOptions::default());
            let now = processor.execute_now(&prepared, &client, &options, &mut Vec::new());
            assert!(matches!(now, Now::MustWait));
            disk.clear_faults();
            let mut failures = 0;
            while query(&processor, statement).await.is_err() {
                failures += 1;
                assert!(failures < 6_000, "nothing has flushed the table");
                time::sleep(Duration::from_millis(10)).await;
            }
            drop(database);
            for seed in espalier_testing::seeds(20) {
                let (_database, processor) = open(&FileSystem::on(disk.crash(seed))).await;
                let (count, value) = node::rows(&processor, "SELECT v FROM ks.t", None).await;
                assert_eq!((count, &value[4..]), (1, &[0, 0, 0, 2][..]), "seed {seed}");
            }
        });
    }
}

async fn wait_for_view(database: &Node) {
    let deadline = time::Instant::now() + Duration::from_secs(60);
    let status = async || database.view_builds().status_of("ks", "w").await.unwrap();
    while status().await.as_deref() != Some("SUCCESS") {
        assert!(time::Instant::now() < deadline, "the view is not built");
        time::sleep(Duration::from_millis(1)).await;
    }
}

/// Only the flush of the base table succeeds after the failed sync, so a crash may lose the view
/// row.
#[test]
fn a_view_is_built_again_after_a_failed_sync_and_a_crash() {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    block_on(async {
        let (database, processor) = open(&file_system).await;
        for statement in [
            KEYSPACE,
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
            "CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM ks.t \
             WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
            "CREATE TABLE ks.other (k int PRIMARY KEY)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        wait_for_view(&database).await;
        // This write waits until the log is synced with the last state of the build. Otherwise the
        // sync of that state could be the one that fails.
        execute(&processor, "INSERT INTO ks.other (k) VALUES (1)").await.unwrap();
        disk.inject(Fault::always(Operation::Create, Effect::NoSpace).on_path("/w-"));
        disk.inject(Fault::nth(Operation::Sync, 0, Effect::InputOutput).on_path("commitlog-"));
        query(&processor, INSERT).await.unwrap_err();
        database.flush("ks", Some("t")).await.unwrap();
        for seed in espalier_testing::seeds(20) {
            let (crashed, processor) = open(&FileSystem::on(disk.crash(seed))).await;
            wait_for_view(&crashed).await;
            for table in ["t", "w"] {
                let select = format!("SELECT v FROM ks.{table}");
                let (count, _) = node::rows(&processor, &select, None).await;
                assert_eq!(count, 1, "{table}, seed {seed}");
            }
        }
        disk.clear_faults();
    });
}

/// The log has no writes to such a table, so a failed sync does not affect the table.
#[test]
fn tables_without_durable_writes_do_not_wait_for_the_log() {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    block_on(async {
        let (_database, processor) = open(&file_system).await;
        for statement in [
            KEYSPACE,
            "CREATE KEYSPACE fleeting WITH replication = {'class': 'SimpleStrategy', \
             'replication_factor': 1} AND durable_writes = false",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
            "CREATE TABLE fleeting.t (k int PRIMARY KEY, v int)",
            "INSERT INTO fleeting.t (k, v) VALUES (1, 1)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        disk.inject(Fault::always(Operation::Create, Effect::NoSpace).on_path("/t-"));
        disk.inject(Fault::nth(Operation::Sync, 0, Effect::InputOutput).on_path("commitlog-"));
        query(&processor, INSERT).await.unwrap_err();
        query(&processor, CONDITIONAL).await.unwrap_err();
        let fleeting = |statement: &str| statement.replace("ks.", "fleeting.");
        // Neither a statement that applies nor one that does not apply waits for the log.
        for statement in [CONDITIONAL, CONDITIONAL, TRANSACTION] {
            query(&processor, &fleeting(statement)).await.unwrap();
        }
        let found = node::rows(&processor, "SELECT v FROM fleeting.t", None).await;
        assert_eq!(found.1[4..], [0, 0, 0, 2]);
        disk.clear_faults();
    });
}
