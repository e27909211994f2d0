//! Damaged files of an index on vectors: queries return the right rows, and the node makes the
//! files again.

use std::time::Duration;

use espalier_cql::QueryProcessor;
use espalier_runtime::{
    block_on,
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    time,
};
use espalier_storage::{Node, StorageConfiguration, VectorLimits, VectorSearchLimits};

use super::support::node::{execute, open_with, rows};

const STATEMENTS: [&str; 3] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE k.t (k int PRIMARY KEY, v vector<float, 2>)
        WITH compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': false}",
    "CREATE INDEX by_v ON k.t (v) USING 'sai' WITH OPTIONS = {'similarity_function': 'euclidean'}",
];
const QUERY: &str = "SELECT k FROM k.t ORDER BY v ANN OF [70, 0] LIMIT 5";
const ROWS: i32 = 150;

async fn wait_until_built(database: &Node) {
    for _ in 0..60_000 {
        let table = database.store().schema().table("k", "t").cloned().unwrap();
        if database.has_built_indexes(&table).await {
            return;
        }
        time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the index was not built");
}

/// Returns the keys of the query's rows, sorted.
async fn nearest(processor: &QueryProcessor) -> Vec<i32> {
    let (_, content) = rows(processor, QUERY, None).await;
    let keys = content.chunks_exact(8).map(|row| i32::from_be_bytes(*row.last_chunk().unwrap()));
    let mut keys: Vec<i32> = keys.collect();
    keys.sort_unstable();
    keys
}

#[test]
fn a_damaged_component_of_vectors_is_left_out_and_built_again() {
    let limits = [
        VectorLimits::default(),
        VectorLimits { max_exact: 10, max_short: 0, min_graph: 20, graph_cost: 1 },
    ];
    for limits in limits {
        let file_system = FileSystem::simulated(1);
        let disk = file_system.simulated_disk().unwrap().clone();
        block_on(async {
            let configuration = StorageConfiguration {
                vectors: VectorSearchLimits { index: limits, ..VectorSearchLimits::default() },
                ..StorageConfiguration::new("node")
            };
            let (database, processor) = open_with(&file_system, configuration).await;
            for statement in STATEMENTS {
                execute(&processor, statement).await.unwrap();
            }
            for key in 0..ROWS {
                let insert = format!("INSERT INTO k.t (k, v) VALUES ({key}, [{key}, 0])");
                execute(&processor, &insert).await.unwrap();
            }
            database.flush("k", None).await.unwrap();
            for _ in 0..2 {
                wait_until_built(&database).await;
                let before = database.store().metrics();
                let damage = Fault::always(Operation::Read, Effect::FlipBit);
                disk.inject(damage.on_path("SecondaryIndex_"));
                assert_eq!(nearest(&processor).await, [68, 69, 70, 71, 72]);
                disk.clear_faults();
                assert_eq!(database.store().metrics().reads.by_index, before.reads.by_index);
                wait_until_built(&database).await;
                assert_eq!(database.store().metrics().indexes.damaged, 0);
                assert_eq!(nearest(&processor).await, [68, 69, 70, 71, 72]);
                assert_eq!(database.store().metrics().reads.by_index, before.reads.by_index + 1);
                // The next query must meet pages that are not cached.
                database.compactions().compact("k", None, false).await.unwrap();
            }
        });
    }
}
