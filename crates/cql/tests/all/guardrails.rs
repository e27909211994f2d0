//! Guardrails, with the warnings and errors that Cassandra 5.0.9 gave, which
//! testdata/guardrail_scripts records. See interop/scripts/record_cql_script.py for the form of the
//! scripts.
//!
//! Each script runs on a node of its own, with the settings at the beginning of the script.

use std::{fmt::Write, path::PathBuf, sync::Arc};

use espalier_cql::{ClientState, Now, PreparedCache, QueryOptions, QueryProcessor, Warnings};
use espalier_runtime::{ShardContext, block_on, file::FileSystem};
use espalier_storage::{Node, SharedStorage, StorageConfiguration, guardrails::Setting};

use super::scripts::show_answer;

const CONSISTENCIES: [&str; 11] = [
    "ANY",
    "ONE",
    "TWO",
    "THREE",
    "QUORUM",
    "ALL",
    "LOCAL_QUORUM",
    "EACH_QUORUM",
    "SERIAL",
    "LOCAL_SERIAL",
    "LOCAL_ONE",
];

/// Warnings of Cassandra that this node does not give, because it has no repair.
const NOT_HERE: [&str; 1] = ["warning: When increasing replication factor"];

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/guardrail_scripts")
}

async fn open(script: &str) -> QueryProcessor {
    let mut configuration = StorageConfiguration::new("node");
    configuration.schema_features.allow_unknown_data_centers = false;
    let settings: Vec<(Setting, &str)> = script
        .lines()
        .filter_map(|line| line.strip_prefix(": ")?.split_once(" = "))
        .map(|(name, value)| (Setting::find(name).unwrap_or_else(|| panic!("{name}")), value))
        .collect();
    configuration.guardrails.set(&settings).unwrap();
    let context = ShardContext { index: 0, count: 1 };
    let (files, shared) = (FileSystem::simulated(1), SharedStorage::new());
    let database = Node::open(context, files, Arc::new(configuration), shared).await.unwrap();
    QueryProcessor::new(database, Arc::new(PreparedCache::default()))
}

/// Replaces the thresholds of timestamps, which depend on the time.
fn without_time(text: String) -> String {
    match text.split_once(" threshold ") {
        Some((start, end)) if start.contains(" allowable ") => {
            let end = end.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
            format!("{start} threshold TIME{end}")
        }
        _ => text,
    }
}

fn run_script(script: &str) -> String {
    let mut output = String::new();
    block_on(async {
        let processor = open(script).await;
        let mut client = ClientState::default();
        let (mut page_size, mut consistency) = (None, 1);
        for line in script.lines() {
            if let Some(statement) = line.strip_prefix("> ") {
                let _ = writeln!(output, "{line}");
                let warnings = Warnings::default();
                let options = QueryOptions {
                    page_size,
                    consistency,
                    warnings: Some(&warnings),
                    ..QueryOptions::default()
                };
                let answer = processor.query(statement, &mut client, &options).await;
                for warning in warnings.take() {
                    let _ = writeln!(output, "warning: {}", without_time(warning));
                }
                output.push_str(&without_time(show_answer(answer)));
            } else if let Some(size) = line.strip_prefix("@ page_size ") {
                let _ = writeln!(output, "{line}");
                page_size = Some(size.parse().unwrap()).filter(|size| *size > 0);
            } else if let Some(name) = line.strip_prefix("@ consistency ") {
                let _ = writeln!(output, "{line}");
                let code = CONSISTENCIES.iter().position(|known| *known == name).unwrap();
                consistency = u16::try_from(code).unwrap();
            } else if line.starts_with(['#', ':']) || line.is_empty() {
                let _ = writeln!(output, "{line}");
            }
        }
    });
    output
}

/// Returns true if a line of an answer equals Cassandra's. An error may continue after Cassandra's
/// text.
fn is_same(expected: &str, found: &str) -> bool {
    let is_error = ["Invalid: ", "ConfigurationError: ", "ReadFailure: ", "Unauthorized: "];
    let is_error = is_error.iter().any(|start| expected.starts_with(start));
    // The recorded Cassandra listened for other nodes on port 10342, and this node has another
    // port.
    let expected = expected.strip_suffix(":10342").unwrap_or(expected);
    expected == found || is_error && found.starts_with(expected)
}

#[test]
fn guardrails_answer_as_in_cassandra() {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(!names.is_empty());
    let mut differences = String::new();
    for path in names {
        let script = std::fs::read_to_string(&path).unwrap();
        let found = run_script(&script);
        let expected: Vec<&str> = script
            .lines()
            .filter(|line| !NOT_HERE.iter().any(|start| line.starts_with(start)))
            .collect();
        let blocks =
            |lines: &[&str]| lines.join("\n").split("\n> ").map(str::to_owned).collect::<Vec<_>>();
        let (expected, found) = (blocks(&expected), blocks(&found.lines().collect::<Vec<_>>()));
        assert_eq!(expected.len(), found.len());
        for (expected, found) in expected.iter().zip(&found) {
            let mut lines = expected.lines().zip(found.lines());
            let are_same = expected.lines().count() == found.lines().count()
                && lines.all(|(expected, found)| is_same(expected, found));
            if !are_same {
                let _ = writeln!(differences, "--- {}\n{expected}\n+++\n{found}", path.display());
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// Prepares a statement and executes it as a connection does.
async fn execute_prepared(processor: &QueryProcessor, statement: &str) -> Result<(), String> {
    let (client, options) = (ClientState::default(), QueryOptions::default());
    let prepared = processor.prepare(statement, &client).unwrap();
    let answer = match processor.execute_now(&prepared, &client, &options, &mut Vec::new()) {
        Now::MustWait => processor.execute(&prepared, &client, &options).await.map(drop),
        Now::Done(answer) => answer.map(drop),
        Now::AfterSync(..) | Now::Row { .. } => Ok(()),
    };
    answer.map_err(|error| error.message)
}

/// Each guardrail that concerns writes is the only one of its node.
#[test]
fn prepared_writes_are_refused_too() {
    for (setting, refused) in [
        (
            "in_select_cartesian_product_fail_threshold = 2",
            "UPDATE k.t SET v = 'a' WHERE k IN (1, 2, 3)",
        ),
        ("in_select_cartesian_product_fail_threshold = 2", "DELETE FROM k.t WHERE k IN (1, 2, 3)"),
        (
            "column_value_size_fail_threshold = 8B",
            "INSERT INTO k.t (k, v) VALUES (1, 'a longer text')",
        ),
        ("collection_size_fail_threshold = 8B", "INSERT INTO k.t (k, s) VALUES (1, {1, 2, 3})"),
        ("items_per_collection_fail_threshold = 2", "INSERT INTO k.t (k, s) VALUES (1, {1, 2, 3})"),
        ("minimum_timestamp_fail_threshold = 1d", "DELETE FROM k.t USING TIMESTAMP 1 WHERE k = 1"),
        (
            "maximum_timestamp_fail_threshold = 1d",
            "DELETE FROM k.t USING TIMESTAMP 9000000000000000 WHERE k = 1",
        ),
        ("user_timestamps_enabled = false", "DELETE FROM k.t USING TIMESTAMP 1 WHERE k = 1"),
        ("write_consistency_levels_disallowed = [ONE]", "INSERT INTO k.t (k) VALUES (1)"),
    ] {
        block_on(async {
            let processor = open(&format!(": {setting}")).await;
            let (mut client, options) = (ClientState::default(), QueryOptions::default());
            for statement in [
                "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
                "CREATE TABLE k.t (k int PRIMARY KEY, v text, s set<int>)",
            ] {
                processor.query(statement, &mut client, &options).await.unwrap();
            }
            let answer = execute_prepared(&processor, refused).await;
            assert!(answer.is_err(), "{setting}: {refused}");
        });
    }
}

#[test]
fn vectors_in_composites_have_the_limit_of_other_vectors() {
    block_on(async {
        let processor = open(": vector_dimensions_fail_threshold = 4").await;
        let (mut client, options) = (ClientState::default(), QueryOptions::default());
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}";
        processor.query(keyspace, &mut client, &options).await.unwrap();
        let vector = "VectorType(FloatType,5)";
        for parts in [
            vector.to_string(),
            format!("ListType({vector})"),
            format!("Int32Type,UserType(k,75,61:{vector})"),
            format!("CompositeType(UserType(k,75,61:UserType(k,76,61:{vector})))"),
        ] {
            let statement =
                format!("CREATE TABLE k.t (k int PRIMARY KEY, v 'CompositeType({parts})')");
            let error = processor.query(&statement, &mut client, &options).await.unwrap_err();
            assert!(error.message.contains("v has a vector of 5 dimensions"), "{parts}: {error:?}");
        }
        let accepted =
            "CREATE TABLE k.t (k int PRIMARY KEY, v 'CompositeType(VectorType(FloatType,4))')";
        processor.query(accepted, &mut client, &options).await.unwrap();
    });
}

#[test]
fn writes_are_refused_while_the_disk_is_full() {
    block_on(async {
        let files = FileSystem::simulated(1);
        let configuration = StorageConfiguration::new("node");
        let guardrails = configuration.guardrails.clone();
        let context = ShardContext { index: 0, count: 1 };
        let shared = SharedStorage::new();
        let database =
            Node::open(context, files.clone(), Arc::new(configuration), shared).await.unwrap();
        let processor = QueryProcessor::new(database, Arc::new(PreparedCache::default()));
        let mut client = ClientState::default();
        let warnings = Warnings::default();
        let options = QueryOptions { warnings: Some(&warnings), ..QueryOptions::default() };
        for statement in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.t (k int PRIMARY KEY)",
        ] {
            processor.query(statement, &mut client, &options).await.unwrap();
        }
        let disk = files.simulated_disk().unwrap();
        disk.set_capacity(disk.used_bytes() * 2);
        let write = "INSERT INTO k.t (k) VALUES (1)";
        for (warn, fail, is_refused, text) in [
            ("-1", "90", false, None),
            ("40", "90", false, Some("Replica disk usage exceeds warning threshold")),
            (
                "-1",
                "40",
                true,
                Some("Write request failed because disk usage exceeds failure threshold"),
            ),
        ] {
            let setting = |name| Setting::find(name).unwrap();
            let names = [
                ("data_disk_usage_percentage_warn_threshold", warn),
                ("data_disk_usage_percentage_fail_threshold", fail),
            ];
            guardrails.set(&names.map(|(name, value)| (setting(name), value))).unwrap();
            let answer = processor.query(write, &mut client, &options).await;
            assert_eq!(answer.is_err(), is_refused, "{answer:?}");
            let text = text.map(|text| format!("Guardrail replica_disk_usage violated: {text}"));
            assert_eq!(warnings.take(), Vec::from_iter(text));
            processor.query("SELECT * FROM k.t", &mut client, &options).await.unwrap();
        }
    });
}

#[test]
fn logged_batches_on_tables_without_grace_warn() {
    block_on(async {
        let processor = open("").await;
        let mut client = ClientState::default();
        let warnings = Warnings::default();
        let options = QueryOptions { warnings: Some(&warnings), ..QueryOptions::default() };
        for statement in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.a (k int PRIMARY KEY) WITH gc_grace_seconds = 0",
            "CREATE TABLE k.b (k int PRIMARY KEY) WITH gc_grace_seconds = 0",
            "CREATE TABLE k.c (k int PRIMARY KEY)",
        ] {
            processor.query(statement, &mut client, &options).await.unwrap();
        }
        warnings.take();
        for (kind, tables, named) in [
            ("", "a", Some("table [k.a]")),
            ("", "abc", Some("tables [k.a, k.b]")),
            ("", "c", None),
            ("UNLOGGED", "ab", None),
        ] {
            let insert = |table: char| format!("INSERT INTO k.{table} (k) VALUES (1); ");
            let inserts: String = tables.chars().map(insert).collect();
            let batch = format!("BEGIN {kind} BATCH {inserts}APPLY BATCH");
            processor.query(&batch, &mut client, &options).await.unwrap();
            let warning = named.map(|named| {
                format!(
                    "Executing a LOGGED BATCH on {named}, configured with a gc_grace_seconds of 0. \
                     The gc_grace_seconds is used to TTL batchlog entries, so setting \
                     gc_grace_seconds too low on tables involved in an atomic batch might cause \
                     batchlog entries to expire before being replayed."
                )
            });
            assert_eq!(warnings.take(), Vec::from_iter(warning), "{batch}");
        }
    });
}
