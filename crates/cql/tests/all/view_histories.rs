//! Random histories of a table with materialized views: after each step, each view that is built
//! has exactly the rows that its SELECT returns from the base table, now and in the future.
//!
//! Views are created and dropped, memtables flushed, and files compacted. The base table is
//! truncated, and restored from snapshots. The node restarts with another number of shards, also
//! after a loss of power, which can lose all that was not synced. Half of the histories have
//! deletions so old that compactions remove their tombstones; the others have times to live, and
//! timestamps in any order. A failure names its seed.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult};
use espalier_mutation::schema::TableMetadata;
use espalier_runtime::{file::FileSystem, random::Generator, time};
use espalier_storage::{Node, SnapshotTable};

use crate::support::shards::on_shards;

/// A kind of base table.
struct Kind {
    key: &'static [&'static str],
    /// The number of columns of the partition key.
    partition: usize,
    primary_key: &'static str,
    has_static: bool,
}

const KINDS: [Kind; 3] = [
    Kind {
        key: &["p", "c", "d"],
        partition: 1,
        primary_key: "s int static, PRIMARY KEY (p, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND",
        has_static: true,
    },
    Kind {
        key: &["p", "c"],
        partition: 2,
        primary_key: "PRIMARY KEY ((p, c))) WITH",
        has_static: false,
    },
    Kind {
        key: &["p", "c"],
        partition: 1,
        primary_key: "PRIMARY KEY (p, c)) WITH",
        has_static: false,
    },
];

/// Types of the column that may be in a view's key, with some values each.
const TYPES: [(&str, [&str; 3]); 6] = [
    ("int", ["-5", "0", "7"]),
    ("text", ["'a'", "'ab'", "'b'"]),
    ("double", ["-1.5", "0.0", "NaN"]),
    ("blob", ["0x00", "0x0001", "0xff"]),
    ("timestamp", ["-5", "0", "99999"]),
    ("frozen<list<int>>", ["[]", "[1]", "[1, 2]"]),
];

/// A view, with the conditions that a base row in it meets.
#[derive(Clone)]
struct View {
    name: String,
    columns: Vec<String>,
    /// The column of the view's key that is not in the base table's key.
    extra: Option<String>,
    /// A condition on a column of the base table's key: its name, `>` or `=`, and the number.
    condition: Option<(String, char, i32)>,
    is_built: bool,
    /// True if the view has to be built again.
    is_distrusted: bool,
}

type Values = Vec<Option<Vec<u8>>>;

impl View {
    /// Returns true if the view has a base row with these values.
    fn has(&self, values: &Values) -> bool {
        let value = |name: &String| {
            let index = self.columns.iter().position(|column| column == name);
            index.and_then(|index| values[index].as_deref())
        };
        // A row of a partition that has only static values lacks the clustering.
        let has_key = self.columns.iter().zip(values).all(|(column, value)| {
            let is_key = ["p", "c", "d"].contains(&column.as_str());
            !is_key || value.is_some()
        });
        let holds = self.condition.as_ref().is_none_or(|(column, operator, wanted)| {
            let number = value(column).and_then(|value| value.try_into().ok());
            number.map(i32::from_be_bytes).is_some_and(|number| match operator {
                '>' => number > *wanted,
                _ => number == *wanted,
            })
        });
        has_key && holds && self.extra.as_ref().is_none_or(|extra| value(extra).is_some())
    }
}

struct History {
    random: Generator,
    kind: &'static Kind,
    value: (&'static str, [&'static str; 3]),
    now_s: i32,
    has_ttl: bool,
    views: Vec<View>,
    step: u64,
    snapshots: usize,
    writes: u64,
    log: String,
    checks: u64,
    rows: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Generator::from_seed(seed);
        let kind = &KINDS[random.below(KINDS.len() as u64) as usize];
        let value = TYPES[random.below(TYPES.len() as u64) as usize];
        let has_ttl = random.below(2) == 0;
        let clock = time::now_seconds() as i32;
        // With times to live, the statements' clock begins at the clock by which compactions expire
        // data. Otherwise it is so early that compactions may remove tombstones.
        let now_s = if has_ttl { clock } else { clock - 1_000_000 };
        let (views, log) = (Vec::new(), String::new());
        let (step, snapshots, writes, checks, rows) = (0, 0, 0, 0, 0);
        Self {
            random,
            kind,
            value,
            now_s,
            has_ttl,
            views,
            step,
            snapshots,
            writes,
            log,
            checks,
            rows,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn create_table(&self) -> String {
        let key: Vec<String> = self.kind.key.iter().map(|column| format!("{column} int")).collect();
        format!(
            "CREATE TABLE ks.base ({}, v {}, w int, x int, l list<int>, st set<text>, m map<text, int>, {} \
             gc_grace_seconds = {}",
            key.join(", "),
            self.value.0,
            self.kind.primary_key,
            if self.has_ttl { 864_000 } else { 1 },
        )
    }

    fn create_view(&mut self) -> (View, String) {
        let mut key: Vec<String> = self.kind.key.iter().map(ToString::to_string).collect();
        let extra = match self.below(4) {
            0 => None,
            1 => Some("w".to_string()),
            _ => Some("v".to_string()),
        };
        key.extend(extra.clone());
        for index in (1..key.len()).rev() {
            let other = self.below(index + 1);
            key.swap(index, other);
        }
        let partition = 1 + self.below(key.len());
        let mut columns = key.clone();
        for other in ["v", "w", "x", "l", "st", "m"] {
            if !columns.iter().any(|column| column == other) && !self.one_in(3) {
                columns.push(other.into());
            }
        }
        let condition = if self.one_in(4) {
            let column = self.kind.key[self.below(self.kind.key.len())].to_string();
            Some((column, ['>', '='][self.below(2)], self.below(2) as i32))
        } else {
            None
        };
        // There are only four names, so that most new views have the name of a dropped one.
        let mut name = String::new();
        while name.is_empty() || self.views.iter().any(|view| view.name == name) {
            name = format!("view{}", self.below(4));
        }
        let mut conditions: Vec<String> =
            key.iter().map(|column| format!("{column} IS NOT NULL")).collect();
        conditions.extend(
            condition
                .iter()
                .map(|(column, operator, number)| format!("{column} {operator} {number}")),
        );
        let grace = if self.has_ttl { "" } else { " WITH gc_grace_seconds = 1" };
        let statement = format!(
            "CREATE MATERIALIZED VIEW ks.{name} AS SELECT {} FROM ks.base WHERE {} PRIMARY KEY (({}){}{}){grace}",
            columns.join(", "),
            conditions.join(" AND "),
            key[..partition].join(", "),
            if partition < key.len() { ", " } else { "" },
            key[partition..].join(", "),
        );
        (View { name, columns, extra, condition, is_built: false, is_distrusted: false }, statement)
    }

    fn place(&mut self, columns: &[&str]) -> String {
        let parts: Vec<String> =
            columns.iter().map(|column| format!("{column} = {}", self.below(3))).collect();
        parts.join(" AND ")
    }

    fn assignment(&mut self) -> String {
        let (number, letter) = (self.below(4), ["'x'", "'y'", "'z'"][self.below(3)]);
        match self.below(16) {
            0..5 => format!("v = {}", self.value.1[self.below(3)]),
            5 => "v = null".into(),
            6 | 7 => format!("w = {number}"),
            8 => "w = null".into(),
            9 => format!("x = {number}"),
            10 => format!("l = [{number}, {}]", self.below(4)),
            11 => format!("l = l + [{number}]"),
            12 => format!("st = st + {{{letter}}}"),
            13 => format!("m[{letter}] = {number}"),
            14 => format!("m = {{{letter}: {number}}}"),
            _ => format!("st = st - {{{letter}}}"),
        }
    }

    /// Returns a timestamp. A write older than a tombstone that compactions may remove has no
    /// defined result, so timestamps ascend in histories in which compactions may remove
    /// tombstones.
    fn timestamp(&mut self) -> u64 {
        self.writes += 1;
        if self.has_ttl { 1 + self.random.below(200) } else { self.writes }
    }

    /// Returns an INSERT, UPDATE or DELETE.
    fn modification(&mut self, has_timestamp: bool) -> String {
        let mut using = Vec::new();
        if has_timestamp {
            using.push(format!("TIMESTAMP {}", self.timestamp()));
        }
        let timestamp = using.clone();
        if self.has_ttl && self.one_in(4) {
            using.push(format!("TTL {}", 1 + self.below(20)));
        }
        let text = |using: &[String]| {
            let keyword = if using.is_empty() { "" } else { " USING " };
            format!("{keyword}{}", using.join(" AND "))
        };
        let (using, timestamp) = (text(&using), text(&timestamp));
        let (key, partition) = (self.kind.key, &self.kind.key[..self.kind.partition]);
        match self.below(17) {
            0..5 => {
                let names = [key, &["v", "w"]].concat().join(", ");
                let values: Vec<String> = key.iter().map(|_| self.below(3).to_string()).collect();
                let (v, w) = (self.value.1[self.below(3)], self.below(4));
                let v = if self.one_in(6) { "null" } else { v };
                format!(
                    "INSERT INTO ks.base ({names}) VALUES ({}, {v}, {w}){using}",
                    values.join(", ")
                )
            }
            5 => {
                let values: Vec<String> = key.iter().map(|_| self.below(3).to_string()).collect();
                let (names, values) = (key.join(", "), values.join(", "));
                format!("INSERT INTO ks.base ({names}) VALUES ({values}){using}")
            }
            6..12 => {
                let (one, two) = (self.assignment(), self.assignment());
                let column = |text: &str| text.split([' ', '[']).next().map(str::to_owned);
                let both = if column(&one) == column(&two) { one } else { format!("{one}, {two}") };
                format!("UPDATE ks.base{using} SET {both} WHERE {}", self.place(key))
            }
            12 if self.kind.has_static => {
                let place = self.place(partition);
                format!("UPDATE ks.base{using} SET s = {} WHERE {place}", self.below(4))
            }
            13 => {
                let column = ["v", "w", "x", "l", "st", "m"][self.below(6)];
                format!("DELETE {column} FROM ks.base{timestamp} WHERE {}", self.place(key))
            }
            14 if self.kind.partition < key.len() => {
                let operator = [">", "<=", "=", "<"][self.below(4)];
                let (place, number) = (self.place(partition), self.below(3));
                format!("DELETE FROM ks.base{timestamp} WHERE {place} AND c {operator} {number}")
            }
            15 => format!("DELETE FROM ks.base{timestamp} WHERE {}", self.place(partition)),
            _ => format!("DELETE FROM ks.base{timestamp} WHERE {}", self.place(key)),
        }
    }

    fn write(&mut self) -> String {
        match self.below(24) {
            0 | 1 => {
                let kind = ["BEGIN BATCH", "BEGIN UNLOGGED BATCH"][self.below(2)];
                let count = 2 + self.below(3);
                let parts: Vec<String> = (0..count).map(|_| self.modification(true)).collect();
                format!("{kind} {}; APPLY BATCH", parts.join("; "))
            }
            2 if self.has_ttl => {
                let place = self.place(self.kind.key);
                let (assignment, number) = (self.assignment(), self.below(4));
                format!("UPDATE ks.base SET {assignment} WHERE {place} IF w = {number}")
            }
            3 if self.has_ttl && self.one_in(3) => {
                let updates: Vec<String> = (0..2).map(|_| self.modification(false)).collect();
                let updates = updates.join("; ");
                format!("BEGIN TRANSACTION {updates}; COMMIT TRANSACTION")
            }
            _ => self.modification(true),
        }
    }
}

async fn query(processor: &QueryProcessor, text: &str, now_s: i32) -> Result<QueryResult, String> {
    let options = QueryOptions { now_s: Some(now_s), ..QueryOptions::default() };
    let answer = processor.query(text, &mut ClientState::default(), &options).await;
    answer.map_err(|error| error.message)
}

/// Returns the rows of a query in ascending order, read in pages.
async fn rows(
    processor: &QueryProcessor,
    text: &str,
    now_s: i32,
    page_size: Option<i32>,
) -> Result<Vec<Values>, String> {
    let mut found = Vec::new();
    let mut state = None::<bytes::Bytes>;
    loop {
        let options = QueryOptions {
            now_s: Some(now_s),
            page_size,
            paging_state: state.as_deref(),
            ..QueryOptions::default()
        };
        let answer = processor.query(text, &mut ClientState::default(), &options).await;
        let QueryResult::Rows(page) = answer.map_err(|error| error.message)? else {
            return Err("no rows".into());
        };
        let mut content = page.content.as_slice();
        for _ in 0..page.row_count {
            let value = |_| {
                let (length, rest) = content.split_first_chunk::<4>().unwrap();
                let length = i32::from_be_bytes(*length);
                let (value, rest) = rest.split_at(length.max(0) as usize);
                content = rest;
                (length >= 0).then(|| value.to_vec())
            };
            found.push(page.metadata.columns.iter().map(value).collect::<Values>());
        }
        state = page.paging_state;
        if state.is_none() {
            found.sort();
            return Ok(found);
        }
    }
}

/// Compares a view with its base table. Returns the number of rows, or a text with the differences.
/// The outer error is the error of a query.
async fn check(
    processor: &QueryProcessor,
    view: &View,
    now_s: i32,
    page_size: Option<i32>,
) -> Result<Result<usize, String>, String> {
    let columns = view.columns.join(", ");
    let base = rows(processor, &format!("SELECT {columns} FROM ks.base"), now_s, None).await?;
    let expected: Vec<Values> = base.into_iter().filter(|values| view.has(values)).collect();
    let query = format!("SELECT {columns} FROM ks.{}", view.name);
    let found = rows(processor, &query, now_s, page_size).await?;
    if found == expected {
        return Ok(Ok(expected.len()));
    }
    let only = |left: &[Values], right: &[Values]| -> Vec<Values> {
        left.iter().filter(|row| !right.contains(row)).cloned().collect()
    };
    Ok(Err(format!(
        "{} ({columns}) at {now_s}: it lacks {:?}, it has too much {:?}",
        view.name,
        only(&expected, &found),
        only(&found, &expected)
    )))
}

/// Takes a snapshot of the base table, or restores an earlier one. Returns true: the step ended.
async fn snapshot_or_restore(database: &Node, history: &mut History, seed: u64) -> bool {
    if history.snapshots == 0 || history.one_in(2) {
        history.snapshots += 1;
        let _ = writeln!(history.log, "snapshot {}", history.snapshots);
        let id = database.store().schema().table("ks", "base").unwrap().id;
        let tables = vec![SnapshotTable { id, describe: |_, _| String::new() }];
        let tag = format!("s{}", history.snapshots);
        database.snapshots().take(tag, tables, true).await.unwrap();
    } else {
        let number = 1 + history.below(history.snapshots);
        let _ = writeln!(history.log, "restore {number}");
        let restored = database.snapshots().restore("ks", "base", &format!("s{number}")).await;
        restored.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", history.log));
        history.views.iter_mut().for_each(|view| view.is_distrusted = true);
    }
    true
}

async fn is_built(processor: &QueryProcessor, view: &View) -> bool {
    let status = processor.database().view_builds().status_of("ks", &view.name).await;
    status.is_ok_and(|status| status.as_deref() == Some("SUCCESS"))
}

/// Runs a history until its end, or until the node must restart. Returns true if it must restart.
async fn run_node(
    processor: QueryProcessor,
    history: &mut History,
    file_system: &FileSystem,
    seed: u64,
    steps: u64,
) -> bool {
    let mut is_doomed = false;
    let database = processor.database().clone();
    while history.step < steps {
        history.step += 1;
        history.now_s += history.below(3) as i32;
        let now_s = history.now_s;
        let timeout = Duration::from_secs(if is_doomed { 1 } else { 60 });
        let (mut is_sure, mut statement) = (true, String::new());
        match history.below(40) {
            0 | 1 => {
                let _ = writeln!(history.log, "flush");
                is_sure = time::timeout(timeout, database.flush("ks", None)).await.is_ok();
            }
            2 => {
                let _ = writeln!(history.log, "compact");
                let compact = database.compactions().compact("ks", None, true);
                is_sure = time::timeout(timeout, compact).await.is_ok();
            }
            3 | 4 if history.views.len() < 3 => {
                let (view, text) = history.create_view();
                history.views.push(view);
                statement = text;
            }
            5 if !history.views.is_empty() && history.one_in(3) => {
                let index = history.below(history.views.len());
                let view = history.views.remove(index);
                statement = format!("DROP MATERIALIZED VIEW IF EXISTS ks.{}", view.name);
            }
            6 if history.one_in(4) => {
                let _ = writeln!(history.log, "restart");
                return true;
            }
            7 if history.one_in(4) && !is_doomed => {
                statement = "TRUNCATE ks.base".into();
                history.views.iter_mut().for_each(|view| view.is_distrusted = true);
            }
            8 if history.one_in(2) && !is_doomed => {
                let operations = history.below(150) as u64;
                let _ = writeln!(history.log, "the power fails after {operations} operations");
                file_system.simulated_disk().unwrap().power_off_after(operations);
                is_doomed = true;
            }
            9 if !is_doomed => is_sure = snapshot_or_restore(&database, history, seed).await,
            10 | 11 => {
                for index in 0..history.views.len() {
                    for _ in 0..60_000 {
                        if is_doomed || is_built(&processor, &history.views[index]).await {
                            break;
                        }
                        time::sleep(Duration::from_millis(1)).await;
                    }
                    let view = &history.views[index];
                    let built = is_doomed || is_built(&processor, view).await;
                    assert!(built, "seed {seed}: {} was not built\n{}", view.name, history.log);
                }
            }
            _ => statement = history.write(),
        }
        if !statement.is_empty() {
            let _ = writeln!(history.log, "{statement} -- at {now_s}");
            let outcome = time::timeout(timeout, query(&processor, &statement, now_s)).await;
            match outcome {
                Ok(Ok(_)) => {}
                Ok(Err(error)) if !is_doomed => panic!("seed {seed}: {error}\n{}", history.log),
                _ => is_sure = false,
            }
        }
        if !is_sure {
            assert!(is_doomed, "seed {seed}: a step did not end\n{}", history.log);
            let _ = writeln!(history.log, "crash");
            return true;
        }
        for index in 0..history.views.len() {
            if std::mem::take(&mut history.views[index].is_distrusted) {
                history.views[index].is_built = false;
            }
            if !history.views[index].is_built {
                history.views[index].is_built = is_built(&processor, &history.views[index]).await;
            }
            if !history.views[index].is_built {
                continue;
            }
            let page_size = history.one_in(2).then(|| 1 + history.below(5) as i32);
            let later = now_s + if history.has_ttl { history.below(25) as i32 } else { 0 };
            for at in [now_s, later] {
                let view = history.views[index].clone();
                match check(&processor, &view, at, page_size).await {
                    Ok(Ok(rows)) => {
                        history.checks += 1;
                        history.rows += rows as u64;
                    }
                    Ok(Err(text)) => {
                        panic!("seed {seed}: {text}\n{}", history.log)
                    }
                    Err(error) if !is_doomed => panic!("seed {seed}: {error}\n{}", history.log),
                    Err(_) => return true,
                }
            }
        }
    }
    false
}

fn run(seed: u64, steps: u64) -> (u64, u64) {
    let mut file_system = FileSystem::simulated(seed);
    let history = Arc::new(Mutex::new(History::new(seed)));
    let mut crashes = 0;
    loop {
        let shards = 1 + history.lock().unwrap().below(3);
        let (inside, disk) = (history.clone(), file_system.clone());
        let goes_on = on_shards(shards, &file_system, move |processor| {
            let (history, disk) = (inside.clone(), disk.clone());
            async move {
                // Only one task has the history at any time.
                let mut taken = std::mem::replace(&mut *history.lock().unwrap(), History::new(0));
                if taken.step == 0 {
                    for statement in [
                        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                        &taken.create_table(),
                    ] {
                        query(&processor, statement, taken.now_s).await.unwrap();
                    }
                }
                let _ = writeln!(
                    taken.log,
                    "a node of {} shards",
                    processor.database().store().shard().count
                );
                // A statement before the crash may or may not have taken effect.
                let schema = processor.database().store().schema();
                taken.views.retain(|view| schema.table("ks", &view.name).is_some());
                taken.views.iter_mut().for_each(|view| view.is_built = false);
                let is_lost = |table: &&Arc<TableMetadata>| {
                    table.is_view() && !taken.views.iter().any(|view| view.name == table.name)
                };
                let lost = schema.tables().filter(is_lost).map(|view| view.name.clone());
                for name in lost.collect::<Vec<_>>() {
                    let drop = format!("DROP MATERIALIZED VIEW ks.{name}");
                    query(&processor, &drop, taken.now_s).await.unwrap();
                }
                let goes_on = run_node(processor, &mut taken, &disk, seed, steps).await;
                *history.lock().unwrap() = taken;
                let crash = crash_of(&disk, seed);
                (goes_on, crash)
            }
        });
        let (goes_on, crashed) = goes_on;
        if !goes_on {
            let history = history.lock().unwrap();
            return (history.checks, history.rows);
        }
        crashes += 1;
        file_system = FileSystem::on(crashed);
        assert!(crashes < 1000);
    }
}

fn crash_of(
    file_system: &FileSystem,
    seed: u64,
) -> espalier_runtime::file::simulated::SimulatedDisk {
    file_system.simulated_disk().unwrap().crash(seed)
}

#[test]
fn a_view_equals_its_select_on_the_base_table() {
    let (mut checks, mut rows) = (0u64, 0u64);
    // The test would say nothing if the views were not built, or were empty. The views of few
    // histories may have few rows.
    let is_enough = espalier_testing::run_seeds(20, |seed| {
        let (of_seed, rows_of_seed) = run(seed, 150);
        checks += of_seed;
        rows += rows_of_seed;
        let least_rows = if espalier_testing::runs_all() { checks } else { checks / 10 };
        checks > espalier_testing::at_least(2000) && rows >= least_rows.max(1)
    });
    assert!(is_enough, "{checks} checks of {rows} rows");
}
