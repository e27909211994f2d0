//! Random histories of a table with an index on vectors: each `ORDER BY v ANN OF` returns the rows
//! of a query without the index, ordered by comparing all their vectors.
//!
//! Writes have timestamps in any order, and TTLs. Deletions are of cells, rows, ranges and
//! partitions. Memtables are flushed, files compacted, the index dropped and created again, and the
//! node restarted, also without a shutdown. With the default limits of an index, segments are so
//! small that the answer is exact. Other runs have limits so low that segments have codes and
//! graphs. In these runs 95 % of the rows must be right. The limits of a statement are so low that
//! the statement also searches with conditions of other indexes, and finally reads all rows.

use std::{collections::BTreeMap, fmt::Write};

use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{block_on, file::FileSystem, random::Generator, time};
use espalier_storage::{
    NearestLimits, Node, StorageConfiguration, VectorLimits, VectorSearchLimits,
};
use espalier_types::{Similarity, similarity::floats};

use crate::support::node::{execute, open_with};

const DIMENSION: usize = 3;

/// Limits at which ten vectors have a graph.
const LOW: VectorLimits = VectorLimits { max_exact: 4, max_short: 0, min_graph: 10, graph_cost: 0 };

/// Limits of the statement that a table of 48 rows reaches: the statement searches for 17 to 34
/// rows, and then reads all rows.
const FEW: NearestLimits = NearestLimits { few_rows: 3, max_candidates: 40 };

struct History {
    random: Generator,
    similarity: Similarity,
    now_s: i32,
    log: String,
}

impl History {
    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    /// Returns a vector. It is not zero, because cosine refuses zero vectors.
    fn vector(&mut self) -> String {
        let components: Vec<String> =
            (0..DIMENSION).map(|_| format!("{}.5", self.below(9) as i32 - 4)).collect();
        format!("[{}]", components.join(", "))
    }

    fn key(&mut self) -> String {
        format!("a = {} AND c = {}", self.below(4), self.below(12))
    }

    fn write(&mut self) -> String {
        let timestamp = 1 + self.below(300);
        let ttl =
            if self.one_in(6) { format!(" AND TTL {}", 1 + self.below(20)) } else { String::new() };
        let using = format!("USING TIMESTAMP {timestamp}");
        let (key, vector, n) = (self.key(), self.vector(), self.below(3));
        match self.below(20) {
            0 => format!("DELETE v FROM {{T}} {using} WHERE {key}"),
            1 => format!("DELETE FROM {{T}} {using} WHERE {key}"),
            2 => {
                let (a, c) = (self.below(4), self.below(12));
                format!("DELETE FROM {{T}} {using} WHERE a = {a} AND c > {c}")
            }
            3 if self.one_in(3) => {
                format!("DELETE FROM {{T}} {using} WHERE a = {}", self.below(4))
            }
            4 => format!("UPDATE {{T}} {using} SET n = {n} WHERE {key}"),
            5 => format!("UPDATE {{T}} {using} SET v = null WHERE {key}"),
            6 => {
                let a = self.below(4);
                format!("UPDATE {{T}} {using}{ttl} SET s = {vector} WHERE a = {a}")
            }
            7 if self.one_in(3) => {
                format!("DELETE s FROM {{T}} {using} WHERE a = {}", self.below(4))
            }
            _ => format!("UPDATE {{T}} {using}{ttl} SET v = {vector}, n = {n} WHERE {key}"),
        }
    }

    fn condition(&mut self) -> String {
        match self.below(6) {
            0 => format!(" WHERE n = {}", self.below(3)),
            1 => format!(" WHERE n >= {}", self.below(3)),
            2 => format!(" WHERE a = {}", self.below(4)),
            3 => format!(" WHERE a = {} AND c > {}", self.below(4), self.below(12)),
            4 => format!(" WHERE token(a) > {}", (self.below(1 << 16) as i64 - (1 << 15)) << 48),
            _ => String::new(),
        }
    }
}

struct TestNode {
    file_system: FileSystem,
    limits: VectorLimits,
    database: Node,
    processor: QueryProcessor,
    by_index: u64,
}

async fn open(file_system: &FileSystem, limits: VectorLimits) -> (Node, QueryProcessor) {
    let configuration = StorageConfiguration {
        vectors: VectorSearchLimits { index: limits, statement: FEW },
        ..StorageConfiguration::new("node")
    };
    open_with(file_system, configuration).await
}

impl TestNode {
    async fn new(seed: u64, limits: VectorLimits) -> Self {
        let file_system = FileSystem::simulated(seed);
        let (database, processor) = open(&file_system, limits).await;
        Self { file_system, limits, database, processor, by_index: 0 }
    }

    /// Crashes the node, and starts it again on the disk as the crash has left it.
    async fn crash(&mut self, seed: u64) {
        self.by_index += self.database.store().metrics().reads.by_index;
        let disk = self.file_system.simulated_disk().unwrap().crash(seed);
        self.file_system = FileSystem::on(disk);
        (self.database, self.processor) = open(&self.file_system, self.limits).await;
    }

    /// Returns the keys and vectors of a query's rows, in its order.
    async fn rows(&self, query: &str, now_s: i32) -> Vec<([i32; 2], Vec<f32>)> {
        let mut client = ClientState::default();
        let options = QueryOptions { now_s: Some(now_s), ..QueryOptions::default() };
        let answer = self.processor.query(query, &mut client, &options).await;
        let Ok(QueryResult::Rows(rows)) = answer else { panic!("{query}: {answer:?}") };
        let mut rest = rows.content.as_slice();
        let mut value = || {
            let (length, tail) = rest.split_at(4);
            let length = i32::from_be_bytes(length.try_into().unwrap());
            let (value, tail) = tail.split_at(length.max(0) as usize);
            rest = tail;
            (length >= 0).then_some(value)
        };
        let mut found = Vec::new();
        for _ in 0..rows.row_count {
            // A row of a partition that has only a static row lacks the clustering.
            let key = |value: Option<&[u8]>| {
                value.map_or(-1, |value| i32::from_be_bytes(value.try_into().unwrap()))
            };
            let key = [value(), value()].map(key);
            found.push((key, floats(value().unwrap_or_default()).collect()));
        }
        found
    }
}

/// The number of rows that a query should return, and the number of returned rows that are as near
/// as these.
type Hits = (usize, usize);

/// Compares a query by the index with the rows of the other table.
async fn check(history: &mut History, node: &TestNode, is_exact: bool, place: &str) -> Hits {
    let (condition, limit) = (history.condition(), 1 + history.below(12));
    let vector = history.vector();
    let now_s = history.now_s;
    let column = if history.one_in(4) { "s" } else { "v" };
    let select = format!("SELECT a, c, {column} FROM");
    let plain = format!("{select} vh.plain{condition} ALLOW FILTERING");
    let indexed =
        format!("{select} vh.indexed{condition} ORDER BY {column} ANN OF {vector} LIMIT {limit}");
    let expected: BTreeMap<[i32; 2], Vec<f32>> =
        node.rows(&plain, now_s).await.into_iter().collect();
    let found = node.rows(&indexed, now_s).await;
    let wanted: Vec<f32> =
        vector.trim_matches(['[', ']']).split(", ").map(|x| x.parse().unwrap()).collect();
    let similarity = |vector: &[f32]| history.similarity.of(&wanted, vector).unwrap();
    let mut best: Vec<f32> = expected
        .values()
        .filter(|vector| !vector.is_empty())
        .map(|vector| similarity(vector))
        .collect();
    best.sort_by(|left, right| right.total_cmp(left));
    best.truncate(limit);
    let log = &history.log;
    let mut seen = Vec::new();
    for (key, vector) in &found {
        assert_eq!(Some(vector), expected.get(key), "{place}: {indexed}\n{log}");
        assert!(!seen.contains(key), "{place}: twice {key:?}: {indexed}\n{log}");
        seen.push(*key);
    }
    let of_found: Vec<f32> = found.iter().map(|(_, vector)| similarity(vector)).collect();
    assert!(of_found.is_sorted_by(|left, right| left >= right), "{place}: {indexed}\n{log}");
    assert_eq!(of_found.len(), best.len(), "{place}: {indexed}\n{log}");
    if is_exact {
        assert_eq!(of_found, best, "{place}: {indexed}\n{log}");
    }
    let worst = best.last().copied().unwrap_or_default();
    (best.len(), of_found.iter().filter(|similarity| **similarity >= worst).count())
}

async fn run(seed: u64, steps: u64, limits: VectorLimits) -> (Hits, u64, u64) {
    let is_exact = limits == VectorLimits::default();
    let mut random = Generator::from_seed(seed);
    let similarity = Similarity::ALL[(random.next_u64() % 3) as usize];
    // Compactions expire data by the node's clock, so the clock of the statements begins there.
    let now_s = time::now_seconds() as i32;
    let mut history = History { random, similarity, now_s, log: String::new() };
    let mut node = TestNode::new(seed, limits).await;
    let create_index = ["v", "s"].map(|column| {
        format!(
            "CREATE INDEX by_{column} ON vh.indexed ({column}) USING 'sai'
                WITH OPTIONS = {{'similarity_function': '{}'}}",
            similarity.name()
        )
    });
    let columns = "(a int, c int, v vector<float, 3>, s vector<float, 3> static, n int,
        PRIMARY KEY (a, c))";
    for statement in [
        "CREATE KEYSPACE vh WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        &format!("CREATE TABLE vh.indexed {columns}"),
        &format!("CREATE TABLE vh.plain {columns}"),
        "CREATE INDEX by_n ON vh.indexed (n) USING 'sai'",
        &create_index[0],
        &create_index[1],
    ] {
        execute(&node.processor, statement).await.unwrap();
    }
    let (mut hits, mut queries) = ((0, 0), 0);
    for step in 0..steps {
        history.now_s += history.below(3) as i32;
        let place = format!("seed {seed}, step {step}");
        match history.below(60) {
            0..2 => {
                let _ = writeln!(history.log, "flush");
                node.database.flush("vh", None).await.unwrap();
            }
            2 => {
                let _ = writeln!(history.log, "compact");
                node.database.compactions().compact("vh", None, true).await.unwrap();
            }
            3 if history.one_in(3) => {
                let _ = writeln!(history.log, "the index is made again");
                execute(&node.processor, "DROP INDEX vh.by_v").await.unwrap();
                execute(&node.processor, &create_index[0]).await.unwrap();
            }
            4 if history.one_in(3) => {
                let _ = writeln!(history.log, "restart");
                if history.one_in(2) {
                    node.database.shutdown().await.unwrap();
                }
                node.crash(seed.wrapping_mul(1000) + step).await;
            }
            5..20 => {
                let (wanted, right) = check(&mut history, &node, is_exact, &place).await;
                hits = (hits.0 + wanted, hits.1 + right);
                queries += 1;
            }
            _ => {
                let statement = history.write();
                let _ = writeln!(history.log, "{statement} -- at {}", history.now_s);
                for table in ["vh.indexed", "vh.plain"] {
                    let statement = statement.replace("{T}", table);
                    let mut client = ClientState::default();
                    let now_s = Some(history.now_s);
                    let options = QueryOptions { now_s, ..QueryOptions::default() };
                    node.processor.query(&statement, &mut client, &options).await.unwrap();
                }
            }
        }
    }
    let by_index = node.by_index + node.database.store().metrics().reads.by_index;
    node.database.shutdown().await.unwrap();
    (hits, queries, by_index)
}

fn histories(limits: VectorLimits, least_recall: f64) {
    let ((mut wanted, mut right), mut queries, mut by_index) = ((0, 0), 0, 0);
    for seed in espalier_testing::seeds(30) {
        let (hits, of_seed, of_index) = block_on(run(seed, 300, limits));
        wanted += hits.0;
        right += hits.1;
        queries += of_seed;
        by_index += of_index;
    }
    // The test would say nothing if the indexes were not used.
    assert!(by_index > queries / 3, "{by_index} reads by index of {queries} queries");
    let recall = right as f64 / wanted as f64;
    // Few histories may be below the average.
    let is_exact = least_recall >= 1.0;
    let margin = if espalier_testing::runs_all() || is_exact { 0.0 } else { 0.05 };
    assert!(recall >= least_recall - margin, "{right} of {wanted} rows");
}

#[test]
fn nearest_rows_of_few_are_exact() {
    histories(VectorLimits::default(), 1.0);
}

#[test]
fn nearest_rows_by_graphs_are_nearly_exact() {
    histories(LOW, 0.95);
}
