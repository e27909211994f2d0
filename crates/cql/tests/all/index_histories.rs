//! Random histories of a table with secondary indexes and of one without them: each query by an
//! index returns the rows, pages and counts of the same query with ALLOW FILTERING.
//!
//! At random, indexes are created and dropped, memtables are flushed, and files are compacted. The
//! node restarts, also after a loss of power, which can lose all that was not synced. A failure
//! names its seed.

use std::fmt::Write;

use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{block_on, file::FileSystem, random::Generator, time};
use espalier_storage::Node;

use crate::support::node::open;

/// A kind of table: its columns, and the parts of its primary key.
struct Kind {
    columns: &'static str,
    /// Columns of the partition key and of the clustering.
    partition: &'static [&'static str],
    clustering: &'static [&'static str],
    has_static: bool,
}

const KINDS: [Kind; 3] = [
    Kind {
        columns: "a int, b int, c {C}, d int, s int static, {V} PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)",
        partition: &["a", "b"],
        clustering: &["c", "d"],
        has_static: true,
    },
    Kind {
        columns: "a int, c {C}, s int static, {V} PRIMARY KEY (a, c))",
        partition: &["a"],
        clustering: &["c"],
        has_static: true,
    },
    Kind {
        columns: "a int, b int, {V} PRIMARY KEY ((a, b)))",
        partition: &["a", "b"],
        clustering: &[],
        has_static: false,
    },
];

/// Types with some values each, in ascending order.
const TYPES: [(&str, [&str; 4]); 8] = [
    ("int", ["-5", "0", "1", "7"]),
    ("text", ["''", "'a'", "'ab'", "'b'"]),
    ("double", ["-1.5", "-0.0", "0.0", "NaN"]),
    ("decimal", ["-1.0", "0", "1.0", "1.00"]),
    ("blob", ["0x", "0x00", "0x0001", "0xff"]),
    ("bigint", ["-300", "0", "5", "70000"]),
    ("timestamp", ["-5", "0", "1", "99999"]),
    ("varint", ["-400", "0", "1", "100000"]),
];

const INDEXES: [&str; 9] = ["v", "w", "s", "l", "st", "m", "keys(m)", "entries(m)", "full(f)"];

struct History {
    random: Generator,
    kind: &'static Kind,
    clustering: (&'static str, [&'static str; 4]),
    value: (&'static str, [&'static str; 4]),
    now_s: i32,
    indexes: u32,
    log: String,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Generator::from_seed(seed);
        let mut below = |bound: usize| (random.next_u64() % bound as u64) as usize;
        let kind = &KINDS[below(KINDS.len())];
        let (mut clustering, value) = (TYPES[below(TYPES.len())], TYPES[below(TYPES.len())]);
        // If equal clusterings had different bytes, a merge of files could keep the bytes of
        // either.
        if clustering.0 == "decimal" {
            clustering.1[3] = "2.50";
        }
        // Compactions expire data by the node's clock, so the clock of the statements begins there.
        let now_s = time::now_seconds() as i32;
        Self { random, kind, clustering, value, now_s, indexes: 0, log: String::new() }
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn create_table(&self, name: &str) -> String {
        let values = format!(
            "v {}, w int, l list<int>, st set<text>, m map<text, int>, f frozen<list<int>>,",
            self.value.0
        );
        let columns = self.kind.columns.replace("{C}", self.clustering.0);
        format!("CREATE TABLE ix.{name} ({}", columns.replace("{V}", &values))
    }

    /// Returns a value of a column of the primary key.
    fn key_value(&mut self, column: &str) -> String {
        match column {
            "c" => self.clustering.1[self.below(4)].to_string(),
            _ => self.below(3).to_string(),
        }
    }

    fn key(&mut self, columns: &[&str]) -> String {
        let parts: Vec<String> =
            columns.iter().map(|column| format!("{column} = {}", self.key_value(column))).collect();
        parts.join(" AND ")
    }

    fn whole_key(&mut self) -> String {
        let columns: Vec<&str> =
            self.kind.partition.iter().chain(self.kind.clustering).copied().collect();
        self.key(&columns)
    }

    fn number(&mut self) -> String {
        self.below(4).to_string()
    }

    fn letter(&mut self) -> &'static str {
        ["'x'", "'y'", "'z'"][self.below(3)]
    }

    /// Returns an assignment of an UPDATE.
    fn assignment(&mut self) -> String {
        let (number, letter) = (self.number(), self.letter());
        match self.below(14) {
            0..3 => format!("v = {}", self.value.1[self.below(4)]),
            3 => "v = null".into(),
            4 => format!("w = {number}"),
            5 => format!("l = [{number}, {}]", self.number()),
            6 => format!("l = l + [{number}]"),
            7 => format!("st = st + {{{letter}}}"),
            8 => format!("st = st - {{{letter}}}"),
            9 => format!("m[{letter}] = {number}"),
            10 => format!("m = m - {{{letter}}}"),
            11 => format!("m = {{{letter}: {number}}}"),
            12 => format!("f = [{number}]"),
            _ => format!("st = {{{letter}}}"),
        }
    }

    /// Returns a write to the table `{T}`.
    fn write(&mut self) -> String {
        let timestamp = 1 + self.below(200);
        let ttl =
            if self.one_in(6) { format!(" AND TTL {}", 1 + self.below(20)) } else { String::new() };
        let partition = self.key(self.kind.partition);
        let clustering = self.kind.clustering;
        match self.below(16) {
            0..5 => {
                let columns: Vec<&str> =
                    self.kind.partition.iter().chain(clustering).copied().collect();
                let values: Vec<String> =
                    columns.iter().map(|column| self.key_value(column)).collect();
                let (v, w) = (self.value.1[self.below(4)], self.number());
                format!(
                    "INSERT INTO {{T}} ({}, v, w) VALUES ({}, {v}, {w}) USING TIMESTAMP {timestamp}{ttl}",
                    columns.join(", "),
                    values.join(", ")
                )
            }
            5..11 => {
                let (one, two) = (self.assignment(), self.assignment());
                let both = if self.one_in(3) && column_of(&one) != column_of(&two) {
                    format!("{one}, {two}")
                } else {
                    one
                };
                let key = self.whole_key();
                format!("UPDATE {{T}} USING TIMESTAMP {timestamp}{ttl} SET {both} WHERE {key}")
            }
            11 if self.kind.has_static => {
                let s = if self.one_in(5) { "null".into() } else { self.number() };
                format!(
                    "UPDATE {{T}} USING TIMESTAMP {timestamp}{ttl} SET s = {s} WHERE {partition}"
                )
            }
            12 => {
                let key = self.whole_key();
                let column = ["v", "w", "m", "l"][self.below(4)];
                format!("DELETE {column} FROM {{T}} USING TIMESTAMP {timestamp} WHERE {key}")
            }
            13 if !clustering.is_empty() => {
                let c = self.key_value("c");
                let operator = [">", "<=", "=", "<"][self.below(4)];
                format!(
                    "DELETE FROM {{T}} USING TIMESTAMP {timestamp} WHERE {partition} AND c {operator} {c}"
                )
            }
            14 => format!("DELETE FROM {{T}} USING TIMESTAMP {timestamp} WHERE {partition}"),
            _ => {
                let key = self.whole_key();
                format!("DELETE FROM {{T}} USING TIMESTAMP {timestamp} WHERE {key}")
            }
        }
    }

    /// Returns a condition that an index may serve.
    fn condition(&mut self) -> String {
        let operator = ["=", "=", "=", ">", ">=", "<", "<="][self.below(7)];
        let (number, letter) = (self.number(), self.letter());
        match self.below(12) {
            0..3 => format!("v {operator} {}", self.value.1[self.below(4)]),
            3 => {
                let (one, two) = (self.below(4), self.below(4));
                format!("v IN ({}, {})", self.value.1[one], self.value.1[two])
            }
            4 => format!("w {operator} {number}"),
            5 => format!("l CONTAINS {number}"),
            6 => format!("st CONTAINS {letter}"),
            7 => format!("m CONTAINS {number}"),
            8 => format!("m CONTAINS KEY {letter}"),
            9 => format!("m[{letter}] = {number}"),
            10 => format!("f = [{number}]"),
            _ if self.kind.has_static => format!("s {operator} {number}"),
            _ => format!("w = {number}"),
        }
    }

    /// Returns a query of the table `{T}`.
    fn query(&mut self) -> String {
        let mut conditions = vec![self.condition()];
        if self.one_in(3) {
            let other = self.condition();
            if column_of(&other) != column_of(&conditions[0]) {
                conditions.push(other);
            }
        }
        match self.below(8) {
            0 => conditions.push(self.key(self.kind.partition)),
            1 => conditions.push(self.key(&self.kind.partition[..1])),
            2 => {
                let names = self.kind.partition.join(", ");
                let token = (self.below(1 << 16) as i64 - (1 << 15)) << 48;
                conditions.push(format!("token({names}) > {token}"));
            }
            3 if !self.kind.clustering.is_empty() => {
                let column = self.kind.clustering[self.below(self.kind.clustering.len())];
                let operator = ["=", ">", "<="][self.below(3)];
                conditions.push(format!("{column} {operator} {}", self.key_value(column)));
                if self.one_in(2) {
                    conditions.push(self.key(self.kind.partition));
                }
            }
            4 if !self.kind.clustering.is_empty() => {
                // The query has a condition only on the clustering.
                let column = self.kind.clustering[self.below(self.kind.clustering.len())];
                conditions = vec![format!("{column} = {}", self.key_value(column))];
            }
            _ => {}
        }
        let what = match self.below(8) {
            0 => "count(*), max(w)",
            1 if self.kind.partition.len() == 2 => "a, b, v, w",
            _ => "*",
        };
        let tail = match self.below(6) {
            0 => format!(" LIMIT {}", 1 + self.below(4)),
            1 if !what.starts_with("count") => {
                format!(" PER PARTITION LIMIT {}", 1 + self.below(2))
            }
            2 if what.starts_with("count") => {
                format!(" GROUP BY {}", self.kind.partition.join(", "))
            }
            _ => String::new(),
        };
        let conditions = conditions.join(" AND ");
        format!("SELECT {what} FROM {{T}} WHERE {conditions}{tail} ALLOW FILTERING")
    }

    /// Returns a CREATE INDEX; some fail because the index exists or the column does not.
    fn create_index(&mut self) -> String {
        let mut targets: Vec<&str> = INDEXES.to_vec();
        targets.extend(self.kind.clustering);
        if self.kind.partition.len() > 1 {
            targets.extend(self.kind.partition);
        }
        let target = targets[self.below(targets.len())];
        self.indexes += 1;
        let class = if self.one_in(2) { " USING 'sai'" } else { "" };
        format!("CREATE INDEX i{} ON ix.indexed ({target}){class}", self.indexes)
    }
}

/// Returns the column with which a condition or an assignment begins.
fn column_of(text: &str) -> &str {
    text.split([' ', '[']).next().unwrap_or_default()
}

/// Executes a statement and returns its answer, with all pages, as comparable bytes.
async fn answer(
    processor: &QueryProcessor,
    statement: &str,
    page_size: Option<i32>,
    now_s: i32,
) -> Result<(i32, Vec<u8>), String> {
    let mut client = ClientState::default();
    let (mut state, mut count, mut content) = (None::<bytes::Bytes>, 0, Vec::new());
    loop {
        let options = QueryOptions {
            page_size,
            paging_state: state.as_deref(),
            now_s: Some(now_s),
            ..QueryOptions::default()
        };
        match processor.query(statement, &mut client, &options).await {
            Ok(QueryResult::Rows(rows)) => {
                count += rows.row_count;
                content.extend_from_slice(&rows.content);
                state = rows.paging_state;
                if state.is_none() {
                    return Ok((count, content));
                }
            }
            Ok(_) => return Ok((count, content)),
            Err(error) => return Err(error.message),
        }
    }
}

/// Waits until the background task has indexed all files.
async fn wait_for_indexes(database: &Node) {
    for _ in 0..60_000 {
        let table = database.store().schema().table("ix", "indexed").cloned().unwrap();
        if database.has_built_indexes(&table).await {
            return;
        }
        time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("the indexes were not built");
}

/// A node with the tables, on a disk whose power may fail.
struct TestNode {
    file_system: FileSystem,
    database: Node,
    processor: QueryProcessor,
    /// True from the call of `doom` to the next restart: the power fails soon, or has failed.
    is_doomed: bool,
    by_index: u64,
}

impl TestNode {
    async fn new(seed: u64) -> Self {
        let file_system = FileSystem::simulated(seed);
        let (database, processor) = open(&file_system).await;
        Self { file_system, database, processor, is_doomed: false, by_index: 0 }
    }

    async fn answer(
        &self,
        statement: &str,
        page_size: Option<i32>,
        now_s: i32,
    ) -> Result<(i32, Vec<u8>), String> {
        answer(&self.processor, statement, page_size, now_s).await
    }

    /// Makes the power fail after some more operations of the disk.
    fn doom(&mut self, operations: u64) {
        self.file_system.simulated_disk().unwrap().power_off_after(operations);
        self.is_doomed = true;
    }

    /// Crashes the node, and starts it again on the disk as the crash has left it.
    async fn crash(&mut self, seed: u64) {
        self.by_index += self.database.store().metrics().reads.by_index;
        let disk = self.file_system.simulated_disk().unwrap().crash(seed);
        self.file_system = FileSystem::on(disk);
        (self.database, self.processor) = open(&self.file_system).await;
        self.is_doomed = false;
    }
}

async fn run(seed: u64, steps: u64) -> (u64, u64) {
    let mut history = History::new(seed);
    let mut node = TestNode::new(seed).await;
    let keyspace = "CREATE KEYSPACE ix WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    for statement in
        [keyspace.to_string(), history.create_table("indexed"), history.create_table("plain")]
    {
        node.answer(&statement, None, history.now_s).await.unwrap();
    }
    let mut queries = 0;
    for step in 0..steps {
        history.now_s += history.below(3) as i32;
        let now_s = history.now_s;
        let crash_seed = seed.wrapping_mul(1000) + step;
        let is_doomed = node.is_doomed;
        // A step may fail while the power may be off.
        let may_fail = |outcome: Result<(), String>| match outcome {
            Err(error) if !is_doomed => panic!("seed {seed}, step {step}: {error}"),
            outcome => outcome.is_err(),
        };
        let mut has_failed = false;
        match history.below(44) {
            0..2 => {
                let flushed = node.database.flush("ix", None).await;
                has_failed = may_fail(flushed.map_err(|error| error.to_string()));
            }
            2 => {
                let compacted = node.database.compactions().compact("ix", None, true).await;
                has_failed = may_fail(compacted.map_err(|error| error.to_string()));
            }
            3..6 => {
                let statement = history.create_index();
                let _ = writeln!(history.log, "{statement}");
                let outcome = node.answer(&statement, None, now_s).await;
                has_failed = is_doomed && outcome.is_err();
            }
            6 if history.one_in(2) => {
                let number = 1 + history.below(history.indexes.max(1) as usize);
                let statement = format!("DROP INDEX IF EXISTS ix.i{number}");
                let _ = writeln!(history.log, "{statement}");
                let outcome = node.answer(&statement, None, now_s).await;
                has_failed = may_fail(outcome.map(|_| ()));
            }
            7 if history.one_in(3) => {
                let _ = writeln!(history.log, "restart");
                if history.one_in(2) && !is_doomed {
                    node.database.shutdown().await.unwrap();
                }
                node.crash(crash_seed).await;
            }
            8 if !is_doomed => wait_for_indexes(&node.database).await,
            9 if history.one_in(8) && !is_doomed => {
                let _ = writeln!(history.log, "TRUNCATE");
                for table in ["ix.indexed", "ix.plain"] {
                    node.answer(&format!("TRUNCATE {table}"), None, now_s).await.unwrap();
                }
            }
            10 if !is_doomed => {
                let operations = history.below(150) as u64;
                let _ = writeln!(history.log, "the power fails after {operations} operations");
                node.doom(operations);
            }
            11..26 => {
                let query = history.query();
                let page_size = history.one_in(2).then(|| 1 + history.below(5) as i32);
                let indexed = query.replace("{T}", "ix.indexed");
                let plain = query.replace("{T}", "ix.plain");
                let expected = node.answer(&plain, None, now_s).await;
                let found = node.answer(&indexed, page_size, now_s).await;
                queries += u64::from(expected.is_ok());
                // As in Cassandra, an index does not serve all queries that filtering serves.
                let is_refused = |error: &String| error.contains("IN clause for the PRIMARY KEY");
                if found.as_ref().is_err_and(is_refused) {
                    continue;
                }
                if is_doomed && (found.is_err() || expected.is_err()) {
                    node.crash(crash_seed).await;
                    continue;
                }
                assert_eq!(
                    found, expected,
                    "seed {seed}, step {step}, page size {page_size:?}: {query}\n{}",
                    history.log
                );
            }
            _ => {
                let statement = history.write();
                // A repeated write to a list would add further elements.
                if is_doomed && statement.contains("l = ") {
                    continue;
                }
                let _ = writeln!(history.log, "{statement} -- at {now_s}");
                for attempt in 0..2 {
                    let mut outcomes = Vec::new();
                    for table in ["ix.indexed", "ix.plain"] {
                        let statement = statement.replace("{T}", table);
                        outcomes.push(node.answer(&statement, None, now_s).await.is_ok());
                    }
                    if is_doomed && attempt == 0 && outcomes.contains(&false) {
                        // One of the tables may have the write, so the test repeats the write to
                        // both tables.
                        let _ = writeln!(history.log, "crash, and the same write again");
                        node.crash(crash_seed).await;
                        continue;
                    }
                    assert_eq!(outcomes[0], outcomes[1], "seed {seed}: {statement}");
                    break;
                }
            }
        }
        if has_failed {
            let _ = writeln!(history.log, "crash");
            node.crash(crash_seed).await;
        }
    }
    if !node.is_doomed {
        node.database.shutdown().await.unwrap();
    }
    (queries, node.by_index + node.database.store().metrics().reads.by_index)
}

#[test]
fn a_query_by_index_equals_the_filtered_one() {
    let (mut queries, mut by_index) = (0, 0);
    for seed in espalier_testing::seeds(30) {
        let (of_seed, of_index) = block_on(run(seed, 250));
        queries += of_seed;
        by_index += of_index;
    }
    // The test would say nothing if the indexes were not used.
    assert!(by_index > queries / 8, "{by_index} reads by index of {queries} queries");
}
