//! The clock is set back between two lives of a node. Records of builds of views in the second life
//! win over those of the first.

use espalier_cql::QueryProcessor;
use espalier_runtime::{block_on, file::FileSystem, time::ManualClock};

use super::{
    support::node::{execute, open},
    view_builds::{CREATE_VIEW, KEYSPACE, ROWS, count, insert, take_snapshot, wait_for_view},
};

pub const LATE_US: i64 = 1_700_000_007_200_000;
pub const EARLY_US: i64 = LATE_US - 7_200_000_000;

/// Runs one life of a node, on a thread of its own, because timestamps of one thread only grow.
#[allow(clippy::disallowed_methods)]
pub fn live(files: &FileSystem, start_us: i64, body: impl AsyncFnOnce(QueryProcessor) + Send) {
    let life = move || {
        let clock = ManualClock::new(start_us).moving_when_idle();
        let _installed = clock.install();
        block_on(async {
            let (database, processor) = open(files).await;
            body(processor).await;
            database.shutdown().await.unwrap();
        });
    };
    std::thread::scope(|scope| scope.spawn(life).join().unwrap())
}

/// Fills a table and builds its view in a life that begins at [`LATE_US`]. Takes a snapshot of the
/// whole table, and deletes half of its rows before the view exists.
fn live_with_view() -> FileSystem {
    let files = FileSystem::simulated(1);
    live(&files, LATE_US, async |processor| {
        let create = "CREATE TABLE k.t (k int, c text, v text, PRIMARY KEY (k, c))";
        for statement in [KEYSPACE, create] {
            execute(&processor, statement).await.unwrap();
        }
        insert(&processor, 0..ROWS).await;
        take_snapshot(&processor).await;
        for key in (0..ROWS).step_by(2) {
            let delete = format!("DELETE FROM k.t WHERE k = {key}");
            execute(&processor, &delete).await.unwrap();
        }
        execute(&processor, CREATE_VIEW).await.unwrap();
        wait_for_view(&processor).await;
        assert_eq!(count(&processor, "v").await, ROWS / 2);
    });
    files
}

#[test]
fn a_view_created_again_is_built_after_the_clock_was_set_back() {
    let files = live_with_view();
    live(&files, EARLY_US, async |processor| {
        execute(&processor, "DROP MATERIALIZED VIEW k.v").await.unwrap();
        execute(&processor, CREATE_VIEW).await.unwrap();
        wait_for_view(&processor).await;
        assert_eq!(count(&processor, "v").await, ROWS / 2);
    });
}

#[test]
fn a_stale_view_is_built_again_after_the_clock_was_set_back() {
    let files = live_with_view();
    live(&files, EARLY_US, async |processor| {
        processor.database().snapshots().restore("k", "t", "s").await.unwrap();
        wait_for_view(&processor).await;
        assert_eq!(count(&processor, "t").await, ROWS);
        assert_eq!(count(&processor, "v").await, ROWS);
    });
}
