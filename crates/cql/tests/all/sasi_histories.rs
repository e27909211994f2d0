//! Random histories of a table with SASI indexes. The test compares each LIKE with a full scan that
//! a model of the analyzers filters. Between writes, the test flushes, compacts, and crashes the
//! simulated disk. A failure names its seed.

use std::collections::BTreeSet;

use bytes::Bytes;
use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult, Value, Values};
use espalier_runtime::{block_on, file::FileSystem, random::Generator};
use espalier_storage::{Node, StorageConfiguration};

use crate::support::node::{self, open_with};

const CLASS: &str = "org.apache.cassandra.index.sasi.SASIIndex";
const ANALYZER: &str = "org.apache.cassandra.index.sasi.analyzer";

/// An indexed column with the options of its index, and the model of its analyzer.
struct Column {
    name: &'static str,
    is_contains: bool,
    analyzer: &'static str,
    terms: fn(&str) -> Vec<String>,
}

fn whole(text: &str) -> Vec<String> {
    vec![text.to_string()]
}

fn lower(text: &str) -> Vec<String> {
    vec![text.to_lowercase()]
}

fn parts(text: &str) -> Vec<String> {
    text.split(',').map(ToString::to_string).collect()
}

/// The model of words, for texts of letters, blanks and commas.
fn words(text: &str) -> Vec<String> {
    let words = text.to_lowercase();
    let words = words.split([' ', ',']).filter(|word| word.chars().count() <= 255);
    words.map(ToString::to_string).collect()
}

const COLUMNS: [Column; 7] = [
    Column { name: "p", is_contains: false, analyzer: "", terms: whole },
    Column { name: "q", is_contains: true, analyzer: "", terms: whole },
    Column {
        name: "l",
        is_contains: true,
        analyzer: "NonTokenizingAnalyzer', 'case_sensitive': 'false",
        terms: lower,
    },
    Column { name: "d", is_contains: false, analyzer: "DelimiterAnalyzer", terms: parts },
    Column {
        name: "w",
        is_contains: true,
        analyzer: "StandardAnalyzer', 'tokenization_normalize_lowercase': 'true",
        terms: words,
    },
    Column { name: "s", is_contains: true, analyzer: "", terms: whole },
    Column { name: "c", is_contains: true, analyzer: "", terms: whole },
];

impl Column {
    fn create(&self) -> String {
        let mode = if self.is_contains { "CONTAINS" } else { "PREFIX" };
        let analyzer = match self.analyzer {
            "" => String::new(),
            analyzer => format!(", 'analyzer_class': '{ANALYZER}.{analyzer}'"),
        };
        let name = self.name;
        format!(
            "CREATE CUSTOM INDEX i_{name} ON h.t ({name}) USING '{CLASS}' WITH OPTIONS = {{'mode': '{mode}'{analyzer}}}"
        )
    }

    fn matches(&self, pattern: &str, value: &str) -> bool {
        let starts = pattern.starts_with('%');
        let ends = pattern.ends_with('%');
        let text = pattern.trim_matches('%');
        let is_term = |term: &String| !term.is_empty() && term.len() < 1024;
        let wanted: Vec<String> = (self.terms)(text).into_iter().filter(is_term).collect();
        let found: Vec<String> = (self.terms)(value).into_iter().filter(is_term).collect();
        let meets = |term: &String, wanted: &String| match (starts, ends) {
            (true, true) => term.contains(wanted.as_str()),
            (true, false) => term.ends_with(wanted.as_str()),
            (false, true) => term.starts_with(wanted.as_str()),
            (false, false) => term == wanted,
        };
        !wanted.is_empty()
            && wanted.iter().all(|wanted| found.iter().any(|term| meets(term, wanted)))
    }
}

struct History {
    random: Generator,
}

impl History {
    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    fn text(&mut self, max: usize) -> String {
        let length = 1 + self.below(max);
        (0..length).map(|_| ['a', 'b', 'A', 'é', ',', ' '][self.below(6)]).collect()
    }

    /// Returns a value. Most are short, so that patterns match. Some are longer than the part of a
    /// text by which the index sorts, and some are too long to be a term of the index.
    fn value(&mut self) -> String {
        let text = self.text(6);
        match self.below(12) {
            0 => text.repeat(40),
            1 => text.repeat(400),
            _ => text,
        }
    }

    fn write(&mut self) -> String {
        let timestamp = 1 + self.below(100);
        let (k, c) = (self.below(4), ["a", "ab", "bab", "Aé"][self.below(4)]);
        let row = format!("k = {k} AND c = '{c}'");
        let name = ["p", "q", "l", "d", "w"][self.below(5)];
        let value = self.value();
        match self.below(12) {
            0 => format!("DELETE FROM h.t USING TIMESTAMP {timestamp} WHERE k = {k}"),
            1 => format!("DELETE FROM h.t USING TIMESTAMP {timestamp} WHERE {row}"),
            2 => format!("DELETE {name} FROM h.t USING TIMESTAMP {timestamp} WHERE {row}"),
            3 => format!("UPDATE h.t USING TIMESTAMP {timestamp} SET s = '{value}' WHERE k = {k}"),
            _ => format!(
                "INSERT INTO h.t (k, c, {name}) VALUES ({k}, '{c}', '{value}') USING TIMESTAMP {timestamp}"
            ),
        }
    }

    /// Returns a pattern of a kind that the column's index serves.
    fn pattern(&mut self, column: &Column) -> String {
        let long = if self.below(8) == 0 { 30 } else { 1 };
        let text = self.text(3).repeat(long);
        let is_tokenized = ["d", "w"].contains(&column.name);
        match (column.is_contains, self.below(4)) {
            (true, 0) => format!("%{text}"),
            (true, 1 | 2) => format!("%{text}%"),
            (true, _) if !is_tokenized => format!("{text}%"),
            (false, 0..3) => format!("{text}%"),
            _ => text,
        }
    }
}

/// Returns all rows of an answer, as texts.
async fn rows(
    processor: &QueryProcessor,
    query: &str,
    value: Option<&str>,
    page_size: Option<i32>,
) -> Vec<Vec<Option<String>>> {
    let client = ClientState::default();
    let prepared = processor.prepare(query, &client).unwrap();
    let values: Vec<Value> = value
        .map(|value| Value::Bytes(Bytes::copy_from_slice(value.as_bytes())))
        .into_iter()
        .collect();
    let (mut state, mut found) = (None::<Bytes>, Vec::new());
    loop {
        let options = QueryOptions {
            page_size,
            paging_state: state.as_deref(),
            values: Values::Positional(&values),
            ..QueryOptions::default()
        };
        let answer = processor.execute(&prepared, &client, &options).await;
        let QueryResult::Rows(rows) = answer.unwrap() else { panic!("{query}: no rows") };
        let columns = rows.metadata.columns.len();
        let mut rest = &rows.content[..];
        for _ in 0..rows.row_count {
            let mut row = Vec::new();
            for _ in 0..columns {
                let (length, tail) = rest.split_at(4);
                let length = i32::from_be_bytes(length.try_into().unwrap());
                let (cell, tail) = tail.split_at(length.max(0) as usize);
                row.push((length >= 0).then(|| String::from_utf8(cell.to_vec()).unwrap()));
                rest = tail;
            }
            found.push(row);
        }
        state = rows.paging_state;
        if state.is_none() {
            return found;
        }
    }
}

async fn open(file_system: &FileSystem) -> (Node, QueryProcessor) {
    let mut configuration = StorageConfiguration::new("node");
    configuration.schema_features.sasi_indexes_enabled = true;
    open_with(file_system, configuration).await
}

async fn execute(processor: &QueryProcessor, statement: &str) {
    node::execute(processor, statement).await.unwrap();
}

async fn run(seed: u64, steps: u64) -> (u64, u64) {
    let mut history = History { random: Generator::from_seed(seed) };
    let mut file_system = FileSystem::simulated(seed);
    let (mut database, mut processor) = open(&file_system).await;
    execute(
        &processor,
        "CREATE KEYSPACE h WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )
    .await;
    let table = "CREATE TABLE h.t (k int, c text, s text static, p text, q text, l text, d text, \
                 w text, PRIMARY KEY (k, c))";
    execute(&processor, table).await;
    // Some indexes come later, so that files without entries are indexed.
    let late = history.below(COLUMNS.len());
    for column in &COLUMNS[late..] {
        execute(&processor, &column.create()).await;
    }
    let (mut queries, mut by_index) = (0, 0);
    for step in 0..steps {
        if step == steps / 3 {
            for column in &COLUMNS[..late] {
                execute(&processor, &column.create()).await;
            }
        }
        match history.below(20) {
            0 => database.flush("h", None).await.unwrap(),
            1 => database.compactions().compact("h", None, true).await.unwrap(),
            2 if history.below(4) == 0 => {
                by_index += database.store().metrics().reads.by_index;
                let disk = file_system.simulated_disk().unwrap().crash(seed + step);
                file_system = FileSystem::on(disk);
                (database, processor) = open(&file_system).await;
            }
            3..10 if step > steps / 3 => {
                let number = history.below(COLUMNS.len());
                let column = &COLUMNS[number];
                let pattern = history.pattern(column);
                let filter = [" AND k >= 0 ALLOW FILTERING", "", ""][history.below(3)];
                let query = format!("SELECT c, {0} FROM h.t WHERE {0} LIKE ?{filter}", column.name);
                let page_size = (history.below(2) == 0).then(|| 1 + history.below(3) as i32);
                let found = rows(&processor, &query, Some(&pattern), page_size).await;
                let every = format!("SELECT c, {} FROM h.t", column.name);
                let all = rows(&processor, &every, None, None).await;
                let is_expected = |row: &Vec<Option<String>>| {
                    row[1].as_ref().is_some_and(|value| column.matches(&pattern, value))
                };
                let expected: Vec<_> = all.iter().filter(|row| is_expected(row)).collect();
                let found: Vec<_> = found.iter().collect();
                assert_eq!(found, expected, "seed {seed}, step {step}: {query} with {pattern:?}");
                queries += 1;
            }
            _ => execute(&processor, &history.write()).await,
        }
    }
    by_index += database.store().metrics().reads.by_index;
    database.shutdown().await.unwrap();
    (queries, by_index)
}

#[test]
fn like_returns_the_rows_that_match() {
    let (mut queries, mut by_index) = (0, 0);
    for seed in espalier_testing::seeds(40) {
        let (of_seed, of_index) = block_on(run(seed, 200));
        queries += of_seed;
        by_index += of_index;
    }
    // The test would say nothing if the indexes were not used.
    assert!(by_index > queries / 8, "{by_index} reads by index of {queries} queries");
}

#[test]
fn the_model_matches_patterns_as_each_column_does() {
    let all: BTreeSet<&str> = ["a", "ab", "b,a", "A"].into();
    let matches = |column: &Column, pattern: &str| {
        all.iter().filter(|text| column.matches(pattern, text)).count()
    };
    assert_eq!(matches(&COLUMNS[0], "a%"), 2);
    assert_eq!(matches(&COLUMNS[1], "%a"), 2);
    assert_eq!(matches(&COLUMNS[2], "%a%"), 4);
    assert_eq!(matches(&COLUMNS[3], "a"), 2);
}
