//! The clock is set back between two lives of a node. Records of builds of indexes in the second
//! life win over those of the first.

use std::time::Duration;

use espalier_cql::QueryProcessor;
use espalier_runtime::{file::FileSystem, time};

use super::{
    support::node::{execute, rows},
    view_builds::KEYSPACE,
    views_and_clock::{EARLY_US, LATE_US, live},
};

const TABLE: &str = "CREATE TABLE k.t (k int PRIMARY KEY, v int)";
const INDEX: &str = "CREATE INDEX i ON k.t (v)";

/// Returns the number of indexes that the node lists as built.
async fn listed(processor: &QueryProcessor) -> i32 {
    rows(processor, "SELECT * FROM system.\"IndexInfo\"", None).await.0
}

async fn wait_until_listed(processor: &QueryProcessor) {
    let deadline = time::Instant::now() + Duration::from_secs(60);
    while listed(processor).await == 0 {
        assert!(time::Instant::now() < deadline, "the index is not listed");
        time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn the_list_of_built_indexes_is_right_after_the_clock_was_set_back() {
    let files = FileSystem::simulated(1);
    live(&files, LATE_US, async |processor| {
        for statement in [KEYSPACE, TABLE, INDEX] {
            execute(&processor, statement).await.unwrap();
        }
        wait_until_listed(&processor).await;
    });
    live(&files, EARLY_US, async |processor| {
        execute(&processor, "DROP INDEX k.i").await.unwrap();
        assert_eq!(listed(&processor).await, 0);
        execute(&processor, INDEX).await.unwrap();
        wait_until_listed(&processor).await;
    });
}
