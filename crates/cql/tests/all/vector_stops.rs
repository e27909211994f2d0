//! A compaction that is stopped while it builds the graph of an index on vectors.

use espalier_runtime::{block_on, cpu::thread_time, file::FileSystem, spawn_local, yield_now};
use espalier_storage::{
    CompactionKind, StorageConfiguration, StorageError, VectorLimits, VectorSearchLimits,
};

use super::support::node::{execute, open_with, rows};

const STATEMENTS: [&str; 3] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE k.t (k int PRIMARY KEY, v vector<float, 2>)
        WITH compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': false}",
    "CREATE INDEX by_v ON k.t (v) USING 'sai' WITH OPTIONS = {'similarity_function': 'euclidean'}",
];

#[test]
fn a_compaction_stops_within_the_construction_of_a_graph() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let index = VectorLimits { max_exact: 10, max_short: 0, min_graph: 20, graph_cost: 1 };
        let configuration = StorageConfiguration {
            vectors: VectorSearchLimits { index, ..VectorSearchLimits::default() },
            ..StorageConfiguration::new("node")
        };
        let (database, processor) = open_with(&file_system, configuration).await;
        for statement in STATEMENTS {
            execute(&processor, statement).await.unwrap();
        }
        for key in 0..1500 {
            let insert =
                format!("INSERT INTO k.t (k, v) VALUES ({key}, [{}, {}])", key % 29, key / 29);
            execute(&processor, &insert).await.unwrap();
        }
        database.flush("k", None).await.unwrap();
        // Processor time, because other processes have the cores at times.
        let begin = thread_time();
        database.compactions().compact("k", None, false).await.unwrap();
        let whole = thread_time() - begin;

        let other = database.clone();
        let asked = spawn_local(async move { other.compactions().compact("k", None, false).await });
        // The construction of the graph takes nearly all of a compaction's time.
        let begin = thread_time();
        while thread_time() - begin < whole / 4 {
            yield_now().await;
        }
        assert_eq!(database.compactions().running().await.len(), 1);
        let stop = thread_time();
        database.compactions().stop(&[CompactionKind::Major]).await;
        let ended = asked.await;
        assert!(matches!(ended, Err(StorageError::CompactionStopped(_))), "{ended:?}");
        let waited = thread_time() - stop;
        assert!(waited < whole / 3, "{waited:?} of {whole:?}");
        let query = "SELECT k FROM k.t ORDER BY v ANN OF [5, 0] LIMIT 1";
        let (_, content) = rows(&processor, query, Some(1)).await;
        assert_eq!(content, [0, 0, 0, 4, 0, 0, 0, 5]);
    });
}
