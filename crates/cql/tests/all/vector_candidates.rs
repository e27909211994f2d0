//! The work of `ORDER BY v ANN OF`: the number of searches and of rows that the statement reads.

use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{block_on, file::FileSystem, random::Generator};
use espalier_storage::{
    NearestLimits, Node, StorageConfiguration, StorageMetrics, VectorLimits, VectorSearchLimits,
    Warnings,
};
use espalier_types::Similarity;

use super::support::node::{execute, open_with, rows};

/// Limits at which a segment of eleven vectors has codes, and no segment has a graph.
const CODES: VectorLimits =
    VectorLimits { max_exact: 10, max_short: 0, min_graph: 1 << 20, graph_cost: 60 };

const DIMENSION: usize = 8;

/// Opens a node with a table `k.t` of vectors, indexed by Euclidean similarity.
async fn table(
    file_system: &FileSystem,
    (index, statement): (VectorLimits, NearestLimits),
    columns: &str,
) -> (Node, QueryProcessor) {
    let configuration = StorageConfiguration {
        vectors: VectorSearchLimits { index, statement },
        ..StorageConfiguration::new("node")
    };
    let (database, processor) = open_with(file_system, configuration).await;
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        &format!("CREATE TABLE k.t ({columns})"),
        "CREATE INDEX ON k.t (v) USING 'sai' WITH OPTIONS = {'similarity_function': 'euclidean'}",
    ] {
        execute(&processor, statement).await.unwrap();
    }
    (database, processor)
}

fn random_vector(random: &mut Generator, middle: f32) -> Vec<f32> {
    (0..DIMENSION).map(|_| middle + (random.next_u64() >> 40) as f32 / (1 << 26) as f32).collect()
}

async fn insert(processor: &QueryProcessor, key: usize, vector: &[f32]) {
    let statement = format!("INSERT INTO k.t (k, v) VALUES ({key}, {vector:?})");
    execute(processor, &statement).await.unwrap();
}

/// Returns the keys of the nearest rows.
async fn nearest(processor: &QueryProcessor, query: &[f32], limit: usize) -> Vec<usize> {
    let query = format!("SELECT k FROM k.t ORDER BY v ANN OF {query:?} LIMIT {limit}");
    let (_, content) = rows(processor, &query, None).await;
    let keys = content.chunks_exact(8).map(|row| i32::from_be_bytes(*row.last_chunk().unwrap()));
    keys.map(|key| key.try_into().unwrap()).collect()
}

/// Returns the similarities of the nearest rows, which the test computes itself.
fn expected(vectors: &[Vec<f32>], query: &[f32], limit: usize) -> Vec<f32> {
    let similarity = |vector: &Vec<f32>| Similarity::Euclidean.of(query, vector).unwrap();
    let mut all: Vec<f32> = vectors.iter().map(similarity).collect();
    all.sort_by(|left, right| right.total_cmp(left));
    all.truncate(limit);
    all
}

/// Returns the number of reads since `before`. Panics if a read was not by an index.
fn index_reads(database: &Node, before: &StorageMetrics) -> u64 {
    let now = database.store().metrics();
    let by_index = now.reads.by_index - before.reads.by_index;
    assert_eq!(now.reads.all - before.reads.all, by_index, "a read went past the index");
    by_index
}

#[test]
fn an_offset_of_all_vectors_costs_no_further_search() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let limits = (CODES, NearestLimits::default());
        let columns = "k int PRIMARY KEY, v vector<float, 8>";
        let (database, processor) = table(&file_system, limits, columns).await;
        let mut random = Generator::from_seed(1);
        let vectors: Vec<Vec<f32>> = (0..400).map(|_| random_vector(&mut random, 1e3)).collect();
        for (key, vector) in vectors.iter().enumerate() {
            insert(&processor, key, vector).await;
        }
        database.flush("k", None).await.unwrap();
        for _ in 0..5 {
            let query = random_vector(&mut random, 1e3);
            let before = database.store().metrics();
            let keys = nearest(&processor, &query, 10).await;
            assert_eq!(index_reads(&database, &before), 1);
            let found = keys.iter().map(|key| Similarity::Euclidean.of(&query, &vectors[*key]));
            let found: Vec<f32> = found.map(Option::unwrap).collect();
            assert_eq!(found, expected(&vectors, &query, 10));
        }
    });
}

#[test]
fn equal_vectors_end_the_searches() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let nearest_limits = NearestLimits { max_candidates: 130, ..NearestLimits::default() };
        let columns = "k int PRIMARY KEY, v vector<float, 8>";
        let (database, processor) = table(&file_system, (CODES, nearest_limits), columns).await;
        let mut random = Generator::from_seed(2);
        // Two groups of 200 equal vectors. A code's component may be more or less than the
        // vector's.
        let groups = [random_vector(&mut random, 0.0), random_vector(&mut random, 0.5)];
        for key in 0..420 {
            let vector = groups.get(key / 200).cloned();
            let vector = vector.unwrap_or_else(|| random_vector(&mut random, -0.5));
            insert(&processor, key, &vector).await;
        }
        database.flush("k", None).await.unwrap();
        for (number, group) in groups.iter().enumerate() {
            for _ in 0..4 {
                let noise = random_vector(&mut random, 0.0);
                let query: Vec<f32> = group.iter().zip(noise).map(|(x, n)| x + n / 4.0).collect();
                let before = database.store().metrics();
                let keys = nearest(&processor, &query, 10).await;
                assert!(index_reads(&database, &before) <= 2);
                assert_eq!(keys.len(), 10);
                assert!(keys.iter().all(|key| key / 200 == number), "{keys:?}");
            }
        }
    });
}

#[test]
fn a_row_that_is_written_often_hides_no_others() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let limits = (VectorLimits::default(), NearestLimits::default());
        let columns = "k int PRIMARY KEY, v vector<float, 2>";
        let (database, processor) = table(&file_system, limits, columns).await;
        for key in 1..40_usize {
            insert(&processor, key, &[key as f32, 0.0]).await;
        }
        for turn in 0..400_u16 {
            insert(&processor, 0, &[0.0, 0.5 - f32::from(turn) / 1000.0]).await;
        }
        for is_flushed in [false, true] {
            if is_flushed {
                database.flush("k", None).await.unwrap();
            }
            let before = database.store().metrics();
            assert_eq!(nearest(&processor, &[0.0, 0.0], 5).await, [0, 1, 2, 3, 4]);
            assert_eq!(index_reads(&database, &before), 1);
        }
    });
}

#[test]
fn a_pass_of_several_chunks_searches_once() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let limits = (VectorLimits::default(), NearestLimits::default());
        let columns = "k int PRIMARY KEY, v vector<float, 2>, t text";
        let (database, processor) = table(&file_system, limits, columns).await;
        // A chunk has 4 MiB.
        let text = "x".repeat(64 << 10);
        for key in 0..90 {
            let statement =
                format!("INSERT INTO k.t (k, v, t) VALUES ({key}, [{key}, 0], '{text}')");
            execute(&processor, &statement).await.unwrap();
        }
        let before = database.store().metrics();
        let query = "SELECT k, t FROM k.t ORDER BY v ANN OF [0, 0] LIMIT 60";
        let (count, content) = rows(&processor, query, None).await;
        let keys = content.chunks_exact(8 + 4 + text.len());
        let keys = keys.map(|row| i32::from_be_bytes(row[4..8].try_into().unwrap()));
        assert_eq!(keys.collect::<Vec<_>>(), (0..60).collect::<Vec<_>>());
        assert_eq!(count, 60);
        assert!(index_reads(&database, &before) >= 2);
        let compared = database.store().metrics().reads.passed_entries;
        assert_eq!(compared - before.reads.passed_entries, 90);
    });
}

#[test]
fn tombstones_count_once_for_each_pass() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let limits = (VectorLimits::default(), NearestLimits::default());
        let columns = "k int PRIMARY KEY, v vector<float, 2>";
        let (_database, processor) = table(&file_system, limits, columns).await;
        for key in 0..1000_u16 {
            insert(&processor, key.into(), &[key.into(), 0.0]).await;
            if key < 900 {
                let delete = format!("DELETE FROM k.t WHERE k = {key}");
                execute(&processor, &delete).await.unwrap();
            }
        }
        let warnings = Warnings::default();
        let options = QueryOptions { warnings: Some(&warnings), ..QueryOptions::default() };
        let query = "SELECT k FROM k.t ORDER BY v ANN OF [0, 0] LIMIT 10";
        let answer = processor.query(query, &mut ClientState::default(), &options).await;
        let Ok(QueryResult::Rows(rows)) = answer else { panic!("{answer:?}") };
        assert_eq!(rows.row_count, 10);
        // The passes read 31, 124, 496 and 1000 rows, of which up to 900 are deleted.
        let warnings = warnings.take();
        assert!(!warnings.iter().any(|text| text.contains("tombstone")), "{warnings:?}");
    });
}
