//! Compares the fast paths of single rows with the general path. The test creates random tables,
//! and executes random prepared statements on one node as a connection does (`execute_now` first),
//! and on a second node only by the general path. The outcomes must be equal, and so must all data
//! that either path can read from the two nodes.

use std::{fmt::Write, sync::Arc};

use bytes::Bytes;
use espalier_cql::{
    ClientState, Now, Prepared, PreparedCache, QueryOptions, QueryProcessor, QueryResult, Result,
    Rows, Value, Values,
};
use espalier_runtime::{
    ShardContext, block_on,
    file::FileSystem,
    random::Generator,
    trace::{Trace, traced},
};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};

/// Types of columns. Equal values of the types after the first four may have different bytes.
const TYPES: &[&str] = &["int", "text", "blob", "timestamp", "decimal", "boolean", "varint"];

/// The clock of the statements. It is so much later than the node's clock that compactions, which
/// purge by the node's clock, find no cell expired.
const NOW_S: i32 = 2_000_000_000;

/// The protocol's code of SERIAL.
const SERIAL: u16 = 0x08;

struct Column {
    name: String,
    column_type: &'static str,
}

struct Table {
    key: Vec<Column>,
    clustering: Vec<Column>,
    statics: Vec<Column>,
    regular: Vec<Column>,
    has_list: bool,
}

fn chance(random: &mut Generator, of: u64) -> bool {
    random.below(of) == 0
}

fn pick<'a, T>(random: &mut Generator, from: &'a [T]) -> &'a T {
    &from[random.below(from.len() as u64) as usize]
}

fn columns(random: &mut Generator, prefix: &str, least: u64, most: u64) -> Vec<Column> {
    let count = least + random.below(most - least + 1);
    let mut column = |number| Column {
        name: format!("{prefix}{number}"),
        column_type: pick::<&str>(random, TYPES),
    };
    (0..count).map(&mut column).collect()
}

impl Table {
    fn random(random: &mut Generator) -> Self {
        let clustering = columns(random, "c", 0, 2);
        let statics = if clustering.is_empty() { Vec::new() } else { columns(random, "s", 0, 1) };
        let (key, mut regular) = (columns(random, "k", 1, 2), columns(random, "v", 0, 4));
        // Ids are assigned in order of names, so declare the columns in another order.
        regular.reverse();
        Self { key, clustering, statics, regular, has_list: chance(random, 3) }
    }

    fn create(&self, random: &mut Generator) -> String {
        let mut text = String::from("CREATE TABLE t (");
        let name = |column: &Column| column.name.clone();
        for column in self.key.iter().chain(&self.clustering).chain(&self.regular) {
            let _ = write!(text, "{} {}, ", column.name, column.column_type);
        }
        for column in &self.statics {
            let _ = write!(text, "{} {} static, ", column.name, column.column_type);
        }
        if self.has_list {
            text.push_str("l list<int>, ");
        }
        let key: Vec<String> = self.key.iter().map(name).collect();
        let clustering: String = self.clustering.iter().map(|c| format!(", {}", c.name)).collect();
        let _ = write!(text, "PRIMARY KEY (({}){clustering}))", key.join(", "));
        let mut options = Vec::new();
        if !self.clustering.is_empty() && chance(random, 2) {
            let order: Vec<String> =
                self.clustering.iter().map(|c| format!("{} DESC", c.name)).collect();
            options.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
        }
        if chance(random, 4) {
            options.push("default_time_to_live = 5".into());
        }
        if !options.is_empty() {
            let _ = write!(text, " WITH {}", options.join(" AND "));
        }
        text
    }

    /// Returns `k0 = ? AND c0 = ?`, and the types of its markers.
    fn by_primary_key(&self) -> (String, Vec<&'static str>) {
        let columns: Vec<&Column> = self.key.iter().chain(&self.clustering).collect();
        let text: Vec<String> = columns.iter().map(|c| format!("{} = ?", c.name)).collect();
        (text.join(" AND "), columns.iter().map(|c| c.column_type).collect())
    }

    /// Returns a random statement and the types of its markers.
    fn write(&self, random: &mut Generator) -> (String, Vec<&'static str>) {
        let mut types = Vec::new();
        let mut values: Vec<&Column> = self.regular.iter().filter(|_| !chance(random, 3)).collect();
        if chance(random, 6) {
            values.extend(&self.statics);
        }
        if chance(random, 2) {
            values.reverse();
        }
        let mut using = Vec::new();
        let mut using_types = Vec::new();
        if chance(random, 3) {
            using.push("TIMESTAMP ?");
            using_types.push("[timestamp]");
        }
        let kind = random.below(5);
        if chance(random, 3) && kind < 3 {
            using.push("TTL ?");
            using_types.push("[ttl]");
        }
        let using = if using.is_empty() {
            String::new()
        } else {
            format!(" USING {}", using.join(" AND "))
        };
        let (place, place_types) = self.by_primary_key();
        let text = match kind {
            0 | 1 => {
                let all = self.key.iter().chain(&self.clustering).chain(values);
                let (mut names, mut markers) = (Vec::new(), Vec::new());
                for column in all {
                    names.push(column.name.clone());
                    if column.column_type == "int" && chance(random, 6) {
                        markers.push("1");
                    } else {
                        markers.push(if chance(random, 20) { "null" } else { "?" });
                        if markers.last() == Some(&"?") {
                            types.push(column.column_type);
                        }
                    }
                }
                if self.has_list && chance(random, 4) {
                    names.push("l".into());
                    markers.push("[1, 2]");
                }
                types.extend(using_types);
                format!(
                    "INSERT INTO t ({}) VALUES ({}){using}",
                    names.join(", "),
                    markers.join(", ")
                )
            }
            2 if !values.is_empty() => {
                types.extend(using_types);
                types.extend(values.iter().map(|column| column.column_type));
                types.extend(place_types);
                let set: Vec<String> = values.iter().map(|c| format!("{} = ?", c.name)).collect();
                format!("UPDATE t{using} SET {} WHERE {place}", set.join(", "))
            }
            3 if !values.is_empty() => {
                types.extend(using_types);
                types.extend(place_types);
                let names: Vec<String> = values.iter().map(|c| c.name.clone()).collect();
                format!("DELETE {} FROM t{using} WHERE {place}", names.join(", "))
            }
            _ => {
                let using = if using.contains("TTL") { String::new() } else { using };
                if !using.is_empty() {
                    types.extend(using_types);
                }
                // Some deletions are of a range of rows, or of the partition.
                let given =
                    self.key.len() + random.below(self.clustering.len() as u64 + 1) as usize;
                let place: Vec<&str> = place.split(" AND ").take(given).collect();
                types.extend(place_types.iter().take(given));
                format!("DELETE FROM t{using} WHERE {}", place.join(" AND "))
            }
        };
        (text, types)
    }

    fn read(&self, random: &mut Generator) -> (String, Vec<&'static str>) {
        let (place, types) = self.by_primary_key();
        let all = self.key.iter().chain(&self.clustering).chain(&self.regular).chain(&self.statics);
        let names: Vec<String> =
            all.filter(|_| !chance(random, 3)).map(|c| c.name.clone()).collect();
        let what =
            if names.is_empty() || chance(random, 2) { "*".into() } else { names.join(", ") };
        (format!("SELECT {what} FROM t WHERE {place}"), types)
    }

    /// Reads the whole table, with the times of every cell.
    fn read_all(&self) -> String {
        let mut what: Vec<String> = self.key.iter().map(|c| c.name.clone()).collect();
        what.extend(self.clustering.iter().map(|c| c.name.clone()));
        for Column { name, .. } in self.regular.iter().chain(&self.statics) {
            what.push(format!("{name}, writetime({name}), ttl({name})"));
        }
        if self.has_list {
            what.push("l".into());
        }
        format!("SELECT {} FROM t", what.join(", "))
    }
}

fn value(random: &mut Generator, column_type: &str) -> Value {
    match random.below(60) {
        0 => return Value::Null,
        1 | 2 => return Value::Unset,
        3 => return Value::Bytes(Bytes::new()),
        4 => return Value::Bytes(vec![0xff; 3].into()),
        5 => return Value::Bytes(vec![b'x'; 40_000].into()),
        6 => return Value::Bytes(vec![b'x'; 70_000].into()),
        _ => {}
    }
    let number = random.below(3);
    let bytes = match column_type {
        "int" => (number as i32).to_be_bytes().to_vec(),
        "text" => vec![b'a' + number as u8; number as usize],
        "blob" => vec![0; number as usize],
        "timestamp" => (number as i64).to_be_bytes().to_vec(),
        // The decimals 1, 1.0 and 2.
        "decimal" => {
            [&[0, 0, 0, 0, 1][..], &[0, 0, 0, 1, 10], &[0, 0, 0, 0, 2]][number as usize].into()
        }
        "boolean" => vec![number as u8],
        "varint" => [&[1][..], &[0, 1], &[2]][number as usize].into(),
        "[timestamp]" => (random.below(20) as i64 - 1).to_be_bytes().to_vec(),
        "[ttl]" => {
            let least = if chance(random, 4) { 700_000_000 } else { -1 };
            (least + random.below(9) as i32).to_be_bytes().to_vec()
        }
        other => panic!("{other}"),
    };
    Value::Bytes(bytes.into())
}

struct TestNode {
    database: Node,
    processor: QueryProcessor,
    client: ClientState,
}

/// The path that executes a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Path {
    /// `execute_now` first, and `execute` if it must wait. A look-up of one row then resumes after
    /// each page that it has read.
    Fast,
    /// The fast path, traced.
    Traced,
    /// The general path, which merges streams. Reads take it at SERIAL.
    General,
}

impl TestNode {
    async fn new(create: &str, seed: u64) -> Self {
        let context = ShardContext { index: 0, count: 1 };
        let configuration = Arc::new(StorageConfiguration::new("node"));
        let shared = SharedStorage::new();
        let files = FileSystem::simulated(seed);
        let database = Node::open(context, files, configuration, shared).await.unwrap();
        let processor = QueryProcessor::new(database.clone(), Arc::new(PreparedCache::default()));
        let mut node = Self { database, processor, client: ClientState::default() };
        let keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        for text in [keyspace, "USE ks", create] {
            let options = QueryOptions::default();
            node.processor.query(text, &mut node.client, &options).await.unwrap();
        }
        node
    }

    fn prepare(&self, text: &str) -> Result<Arc<Prepared>> {
        self.processor.prepare(text, &self.client)
    }

    /// Returns the outcome, and true if `execute_now` returned it.
    async fn execute(
        &self,
        path: Path,
        prepared: &Arc<Prepared>,
        options: &QueryOptions<'_>,
    ) -> (Result<QueryResult>, bool) {
        let trace = (path == Path::Traced).then(|| Trace::new(None));
        traced(trace, self.execute_by(path, prepared, options)).await
    }

    async fn execute_by(
        &self,
        path: Path,
        prepared: &Arc<Prepared>,
        options: &QueryOptions<'_>,
    ) -> (Result<QueryResult>, bool) {
        if path != Path::General {
            let mut content = Vec::new();
            match self.processor.execute_now(prepared, &self.client, options, &mut content) {
                Now::Row { found } => {
                    assert!(found || content.is_empty());
                    let metadata = prepared.result.clone();
                    let (row_count, paging_state) = (i32::from(found), None);
                    let rows = Rows { metadata, row_count, content, paging_state };
                    return (Ok(QueryResult::Rows(rows)), true);
                }
                Now::Done(result) => return (result, true),
                Now::AfterSync(ticket, None) => {
                    ticket.await.unwrap();
                    return (Ok(QueryResult::Void), true);
                }
                Now::AfterSync(..) => panic!("the statement has no condition"),
                Now::MustWait => {}
            }
        }
        let is_serial = path == Path::General && prepared.returns_rows();
        let consistency = if is_serial { SERIAL } else { options.consistency };
        let options = QueryOptions { consistency, ..*options };
        (self.processor.execute(prepared, &self.client, &options).await, false)
    }
}

async fn compare(seed: u64, statements: u64) -> u64 {
    let mut random = Generator::from_seed(seed);
    let table = Table::random(&mut random);
    let create = table.create(&mut random);
    let fast = TestNode::new(&create, seed).await;
    let general = TestNode::new(&create, seed).await;
    let mut answered_at_once = 0;
    for _ in 0..statements {
        let (text, types) = match random.below(2) {
            0 => table.write(&mut random),
            _ => table.read(&mut random),
        };
        let is_read = text.starts_with("SELECT");
        let prepared = [&fast, &general].map(|node| node.prepare(&text));
        let prepared = match prepared {
            [Ok(left), Ok(right)] => [left, right],
            [left, right] => {
                assert_eq!(left.err(), right.err(), "{seed}: {create}; {text}");
                continue;
            }
        };
        for _ in 0..3 {
            let mut values: Vec<Value> =
                types.iter().map(|column_type| value(&mut random, column_type)).collect();
            if chance(&mut random, 40) {
                values.pop();
            }
            let markers = &prepared[0].bind.columns;
            let named: Vec<(&str, Value)> =
                markers.iter().map(|m| m.name.as_str()).zip(values.iter().cloned()).collect();
            let values = if chance(&mut random, 20) {
                Values::Named(&named)
            } else {
                Values::Positional(&values)
            };
            let options = QueryOptions {
                values,
                page_size: *pick(&mut random, &[None, None, None, Some(1), Some(100)]),
                timestamp_us: Some(random.below(20) as i64),
                now_s: Some(NOW_S + random.below(9) as i32),
                ..QueryOptions::default()
            };
            let (expected, _) = general.execute(Path::General, &prepared[1], &options).await;
            let (found, at_once) = fast.execute(Path::Fast, &prepared[0], &options).await;
            let context = || format!("seed {seed}: {create}; {text} {options:?}");
            assert_eq!(found, expected, "{}", context());
            if is_read {
                answered_at_once += u64::from(at_once);
                let others = [
                    (Path::Traced, &fast, 0),
                    (Path::General, &fast, 0),
                    (Path::Fast, &general, 1),
                ];
                for (path, node, index) in others {
                    let (found, too) = node.execute(path, &prepared[index], &options).await;
                    assert_eq!(found, expected, "{path:?} {}", context());
                    // If memory suffices for an untraced read, it suffices for the traced one.
                    assert!(path != Path::Traced || !at_once || too, "{}", context());
                }
            }
        }
        if chance(&mut random, 6) {
            for node in [&fast, &general] {
                node.database.drop_caches().await;
            }
        }
        if chance(&mut random, 60) {
            fast.database.flush("ks", None).await.unwrap();
            general.database.flush("ks", None).await.unwrap();
        }
    }
    let text = table.read_all();
    let options = QueryOptions { now_s: Some(NOW_S), ..QueryOptions::default() };
    let mut all = Vec::new();
    for node in [&fast, &general] {
        let prepared = node.prepare(&text).unwrap();
        all.push(node.execute(Path::General, &prepared, &options).await.0.unwrap());
    }
    assert_eq!(all[0], all[1], "seed {seed}: {create}");
    answered_at_once
}

#[test]
fn fast_paths_agree_with_the_general_path() {
    let mut answered_at_once = 0;
    for seed in espalier_testing::seeds(40) {
        answered_at_once += block_on(compare(seed, 50));
    }
    assert!(
        answered_at_once > espalier_testing::at_least(500),
        "only {answered_at_once} reads went the fast path"
    );
}

/// Cells of a dropped column stay in memory until the flush, and in the row cache. They must not
/// keep a row alive.
#[test]
fn cells_of_dropped_columns_keep_no_row_alive() {
    for (columns, place) in [
        ("k int, c int, v int, w int, l list<int>, PRIMARY KEY (k, c)", "k = 1 AND c = "),
        ("k int PRIMARY KEY, v int, w int, l list<int>", "k = "),
    ] {
        block_on(no_row_exists(columns, place));
    }
}

async fn no_row_exists(columns: &str, place: &str) {
    let mut node = TestNode::new(&format!("CREATE TABLE t ({columns})"), 1).await;
    let options = QueryOptions::default();
    let row = |number: usize| format!("WHERE {place}{number}");
    let other = if columns.contains("c int") { "k = 9 AND c = 9" } else { "k = 9" };
    let texts = [
        // Rows enter the cache only if there are SSTables.
        format!("UPDATE t SET w = 1 WHERE {other}"),
        format!("UPDATE t SET w = 1 {}", row(0)),
        format!("UPDATE t SET v = 1 {}", row(1)),
        format!("UPDATE t SET v = 1, w = 1 {}", row(2)),
        format!("UPDATE t SET l = [1] {}", row(3)),
        "ALTER TABLE t DROP v".into(),
        "ALTER TABLE t DROP l".into(),
    ];
    for (number, text) in texts.iter().enumerate() {
        node.processor.query(text, &mut node.client, &options).await.unwrap();
        if number == 0 {
            node.database.flush("ks", None).await.unwrap();
        }
    }
    for is_flushed in [false, true] {
        if is_flushed {
            // The flush adds the rows to the row cache, because the first round has read them.
            node.database.flush("ks", None).await.unwrap();
        }
        for (number, exists) in [true, false, true, false].into_iter().enumerate() {
            let prepared = node.prepare(&format!("SELECT * FROM t {}", row(number))).unwrap();
            let (expected, _) = node.execute(Path::General, &prepared, &options).await;
            let (found, at_once) = node.execute(Path::Fast, &prepared, &options).await;
            let context = format!("{place}{number}, flushed: {is_flushed}");
            let Ok(QueryResult::Rows(rows)) = &expected else { panic!("{expected:?}") };
            assert_eq!(rows.row_count, i32::from(exists), "{context}");
            assert_eq!(found, expected, "{context}");
            assert!(at_once, "{context}");
        }
    }
}
