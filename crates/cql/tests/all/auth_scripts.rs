//! Statements of several roles get the answers that Cassandra 5.0.9 gave, which
//! testdata/auth_scripts records. See interop/scripts/record_cql_script.py for the form of the
//! scripts.

use std::{fmt::Write, net::Ipv4Addr, path::PathBuf, rc::Rc, sync::Arc};

use espalier_cql::{
    Batch, BatchStatement, BatchedStatement, ClientState, PreparedCache, QueryOptions,
    QueryProcessor, Values,
    auth::{Auth, AuthSettings, Authenticator, Authorizer, Login, Superuser, make_superuser},
    grammar::ast::BatchKind,
};
use espalier_runtime::{ShardContext, block_on, file::FileSystem};
use espalier_storage::{Node, SharedStorage, StorageConfiguration, guardrails::Setting};

use super::scripts::show_answer;

pub const SUPERUSER: &str = "cassandra";

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/auth_scripts")
}

pub async fn open() -> QueryProcessor {
    let mut configuration = StorageConfiguration::new("node");
    configuration.schema_features.dynamic_data_masking_enabled = true;
    open_with(configuration).await
}

async fn open_with(configuration: StorageConfiguration) -> QueryProcessor {
    open_as(configuration, Authenticator::Password, Authorizer::Cassandra).await
}

pub async fn open_as(
    configuration: StorageConfiguration,
    authenticator: Authenticator,
    authorizer: Authorizer,
) -> QueryProcessor {
    open_on(&FileSystem::simulated(1), configuration, authenticator, authorizer).await
}

/// Opens the data in `files`, or creates a new node there with the superuser [`SUPERUSER`].
pub async fn open_on(
    files: &FileSystem,
    configuration: StorageConfiguration,
    authenticator: Authenticator,
    authorizer: Authorizer,
) -> QueryProcessor {
    let context = ShardContext { index: 0, count: 1 };
    let (files, shared) = (files.clone(), SharedStorage::new());
    let database = Node::open(context, files, Arc::new(configuration), shared).await.unwrap();
    let salted_password = Some(espalier_cql::auth::password::hash(SUPERUSER, 4));
    let settings = AuthSettings {
        authenticator,
        authorizer,
        superuser: Superuser { salted_password, ..Superuser::default() },
        ..AuthSettings::default()
    };
    let auth = Auth::new(settings);
    make_superuser(&database, &auth).await.unwrap();
    QueryProcessor::with_auth(database, Arc::new(PreparedCache::default()), auth)
}

pub async fn log_in(processor: &QueryProcessor, role: &str) -> ClientState {
    let address = Ipv4Addr::LOCALHOST.into();
    let login = Login::of(processor.auth(), processor.database(), role, address).await.unwrap();
    ClientState { keyspace: None, login: Some(Rc::new(login)) }
}

/// Executes statements, which must succeed.
async fn execute_all(processor: &QueryProcessor, client: &mut ClientState, statements: &[&str]) {
    for statement in statements {
        processor.query(statement, client, &QueryOptions::default()).await.unwrap();
    }
}

fn run_script(script: &str) -> String {
    let mut output = String::new();
    block_on(async {
        let processor = open().await;
        let mut client = log_in(&processor, SUPERUSER).await;
        for line in script.lines() {
            if let Some(statement) = line.strip_prefix("> ") {
                let _ = writeln!(output, "{line}");
                let options = QueryOptions::default();
                let answer = processor.query(statement, &mut client, &options).await;
                output.push_str(&show_answer(answer));
            } else if let Some(role) = line.strip_prefix("@ user") {
                let _ = writeln!(output, "{line}");
                let role = Some(role.trim()).filter(|role| !role.is_empty());
                client = log_in(&processor, role.unwrap_or(SUPERUSER)).await;
            } else if line.starts_with('#') || line.is_empty() {
                let _ = writeln!(output, "{line}");
            }
        }
    });
    output
}

/// Replaces write times, which differ between runs.
fn comparable(line: &str) -> String {
    let line = line.split(" | ").map(|cell| {
        let is_write_time = cell.len() == 16 && cell.starts_with('1');
        if is_write_time && cell.parse::<i64>().is_ok() { "WRITETIME" } else { cell }
    });
    line.collect::<Vec<_>>().join(" | ")
}

/// Returns true if an answer equals Cassandra's. An error may continue after Cassandra's text.
fn is_same(expected: &[String], found: &[String]) -> bool {
    let is_error = |line: &str| {
        ["Invalid: ", "Unauthorized: ", "ConfigurationError: ", "SyntaxError: "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    // This node reports an event for each object of a dropped keyspace, so the test compares only
    // the last lines.
    let drops_keyspace = expected.first().is_some_and(|line| line.contains("DROP KEYSPACE"));
    if drops_keyspace {
        return expected.last() == found.last();
    }
    expected.len() == found.len()
        && expected.iter().zip(found).all(|(expected, found)| {
            expected == found || is_error(expected) && found.starts_with(expected)
        })
}

#[test]
fn roles_get_the_answers_of_cassandra() {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(!names.is_empty());
    let mut differences = String::new();
    for path in names {
        let script = std::fs::read_to_string(&path).unwrap();
        let found = run_script(&script);
        let blocks = |text: &str| -> Vec<Vec<String>> {
            let blocks = text.trim_end().split("\n> ");
            blocks.map(|block| block.lines().map(comparable).collect()).collect()
        };
        let (expected, found) = (blocks(&script), blocks(&found));
        assert_eq!(expected.len(), found.len());
        for (expected, found) in expected.iter().zip(&found) {
            if !is_same(expected, found) {
                let (expected, found) = (expected.join("\n"), found.join("\n"));
                let _ = writeln!(differences, "--- {}\n{expected}\n+++\n{found}", path.display());
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// Cassandra 5.0.9 shows the values of masked columns in the answer of a statement that was not
/// applied. This node masks the values, and only roles with UNMASK or SELECT_MASKED may use masked
/// columns in conditions.
#[test]
fn conditional_statements_do_not_show_masked_values() {
    block_on(async {
        let processor = open().await;
        let options = QueryOptions::default();
        let mut root = log_in(&processor, SUPERUSER).await;
        let statements = [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.t (k int PRIMARY KEY, v int MASKED WITH mask_replace(9), w text \
             MASKED WITH DEFAULT, x int)",
            "INSERT INTO k.t (k, v, w, x) VALUES (1, 5, 'secret', 7)",
            "CREATE ROLE plain WITH PASSWORD = 'plain' AND LOGIN = true",
            "GRANT SELECT ON k.t TO plain",
            "GRANT MODIFY ON k.t TO plain",
        ];
        execute_all(&processor, &mut root, &statements).await;
        let refused = "Unauthorized: User plain has no UNMASK nor SELECT_MASKED permission on \
                       table k.t, cannot query masked columns [v]\n";
        let shown = "[applied] | k | v | w | x\nfalse | 1 | 9 | '****' | 7\n";
        let tested = "[applied] | v\nfalse | 9\n";
        let mut plain = log_in(&processor, "plain").await;
        let insert = "INSERT INTO k.t (k, v) VALUES (1, 2) IF NOT EXISTS";
        let update = "UPDATE k.t SET x = 1 WHERE k = 1 IF v = 6";
        let batch = "BEGIN BATCH UPDATE k.t SET x = 1 WHERE k = 1 IF v = 6 APPLY BATCH";
        let transaction = "BEGIN TRANSACTION LET r = (SELECT v FROM k.t WHERE k = 1); \
                           SELECT r.v; COMMIT TRANSACTION";
        let needs_unmask = "Unauthorized: User plain has no UNMASK permission on <table k.t> or \
                            any of its parents\n";
        for (grant, statement, expected) in [
            ("", insert, shown),
            ("", update, refused),
            ("", batch, refused),
            ("", "UPDATE k.t SET x = 1 WHERE k = 1 IF x = 8", "[applied] | x\nfalse | 7\n"),
            ("", transaction, needs_unmask),
            ("GRANT SELECT_MASKED ON k.t TO plain", update, tested),
            ("", batch, "[applied] | k | v\nfalse | 1 | 9\n"),
            ("GRANT UNMASK ON k.t TO plain", update, "[applied] | v\nfalse | 5\n"),
        ] {
            if !grant.is_empty() {
                processor.query(grant, &mut root, &options).await.unwrap();
            }
            let answer = processor.query(statement, &mut plain, &options).await;
            assert_eq!(show_answer(answer), expected, "{statement}");
        }
    });
}

#[test]
fn views_have_the_masks_of_their_base_table() {
    block_on(async {
        let processor = open().await;
        let options = QueryOptions::default();
        let mut root = log_in(&processor, SUPERUSER).await;
        let statements = [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.t (k int PRIMARY KEY, v int MASKED WITH mask_replace(9), w int)",
            "INSERT INTO k.t (k, v, w) VALUES (1, 5, 6)",
            "CREATE MATERIALIZED VIEW k.m AS SELECT * FROM k.t WHERE k IS NOT NULL AND w IS NOT \
             NULL PRIMARY KEY (w, k)",
            "CREATE ROLE plain WITH PASSWORD = 'plain' AND LOGIN = true",
            "GRANT SELECT ON k.t TO plain",
        ];
        execute_all(&processor, &mut root, &statements).await;
        let mut plain = log_in(&processor, "plain").await;
        let select = "SELECT v FROM k.m WHERE w = 6";
        for (change, expected) in [
            ("", "v\n9\n"),
            ("ALTER TABLE k.t ALTER v DROP MASKED", "v\n5\n"),
            ("ALTER TABLE k.t ALTER v MASKED WITH DEFAULT", "v\n0\n"),
        ] {
            if !change.is_empty() {
                processor.query(change, &mut root, &options).await.unwrap();
            }
            let answer = processor.query(select, &mut plain, &options).await;
            assert_eq!(show_answer(answer), expected, "{change}");
        }
    });
}

/// A write to a table with views reads rows of the table and changes rows of the views.
#[test]
fn a_write_to_a_table_with_views_needs_permissions_on_them() {
    block_on(async {
        let processor = open().await;
        let options = QueryOptions::default();
        let mut root = log_in(&processor, SUPERUSER).await;
        let statements = [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.t (k int PRIMARY KEY, v int)",
            "CREATE ROLE plain WITH PASSWORD = 'plain' AND LOGIN = true",
            "GRANT MODIFY ON k.t TO plain",
        ];
        execute_all(&processor, &mut root, &statements).await;
        let mut plain = log_in(&processor, "plain").await;
        let insert = "INSERT INTO k.t (k, v) VALUES (1, 2)";
        let prepared = processor.prepare(insert, &plain).unwrap();
        let view = "CREATE MATERIALIZED VIEW k.m AS SELECT * FROM k.t WHERE k IS NOT NULL AND v \
                    IS NOT NULL PRIMARY KEY (v, k)";
        let lacks = |permission: &str, table: &str| {
            format!(
                "Unauthorized: User plain has no {permission} permission on <table k.{table}> or \
                 any of its parents\n"
            )
        };
        for (change, expected) in [
            ("", "ok\n".to_owned()),
            (view, lacks("SELECT", "t")),
            ("GRANT SELECT ON k.t TO plain", lacks("MODIFY", "m")),
            ("GRANT MODIFY ON k.m TO plain", "ok\n".to_owned()),
        ] {
            if !change.is_empty() {
                processor.query(change, &mut root, &options).await.unwrap();
            }
            let batch = format!("BEGIN BATCH {insert}; APPLY BATCH");
            for statement in [insert, &batch] {
                let answer = processor.query(statement, &mut plain, &options).await;
                assert_eq!(show_answer(answer), expected, "{change}: {statement}");
            }
            let prepared = processor.prepared(&prepared.id).await.unwrap();
            let answer = processor.execute(&prepared, &plain, &options).await;
            assert_eq!(show_answer(answer), expected, "{change}");
        }
    });
}

/// As in Cassandra, a client without permissions also learns that a statement may not be in a
/// batch.
#[test]
fn a_batch_checks_kinds_of_statements_before_permissions() {
    block_on(async {
        let processor = open().await;
        let options = QueryOptions::default();
        let mut root = log_in(&processor, SUPERUSER).await;
        let statements = [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.t (k int PRIMARY KEY)",
            "CREATE ROLE plain WITH PASSWORD = 'plain' AND LOGIN = true",
        ];
        execute_all(&processor, &mut root, &statements).await;
        let plain = log_in(&processor, "plain").await;
        let (insert, select) = ("INSERT INTO k.t (k) VALUES (1)", "SELECT k FROM k.t");
        for (texts, expected) in [
            (
                [insert, select],
                "Invalid: Invalid statement in batch: only UPDATE, INSERT and DELETE statements \
                 are allowed.\n",
            ),
            (
                [insert, insert],
                "Unauthorized: User plain has no MODIFY permission on <table k.t> or any of its \
                 parents\n",
            ),
        ] {
            let statements = texts.map(|text| BatchStatement {
                statement: BatchedStatement::Text(text),
                values: Values::NONE,
            });
            let batch = Batch { kind: BatchKind::Unlogged, statements: statements.into() };
            let answer = processor.batch(batch, &plain, &options).await;
            assert_eq!(show_answer(answer), expected);
        }
    });
}

#[test]
fn without_the_setting_masks_hide_nothing_and_none_is_made() {
    block_on(async {
        let processor = open_with(StorageConfiguration::new("node")).await;
        let options = QueryOptions::default();
        let mut root = log_in(&processor, SUPERUSER).await;
        for (statement, expected) in [
            ("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}", ""),
            ("CREATE TABLE k.t (k int PRIMARY KEY, v int MASKED WITH DEFAULT)", "not enabled"),
            ("CREATE TABLE k.t (k int PRIMARY KEY, v int)", ""),
            ("ALTER TABLE k.t ALTER v MASKED WITH DEFAULT", "not enabled"),
            ("ALTER TABLE k.t ALTER v DROP MASKED", ""),
        ] {
            let answer = processor.query(statement, &mut root, &options).await;
            let text = answer.err().map(|error| error.message).unwrap_or_default();
            assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{text}");
        }
    });
}

#[test]
fn guardrails_do_not_hold_for_superusers() {
    block_on(async {
        let configuration = StorageConfiguration::new("node");
        let settings = [("in_select_cartesian_product_fail_threshold", "2")]
            .map(|(name, value)| (Setting::find(name).unwrap(), value));
        configuration.guardrails.set(&settings).unwrap();
        let processor = open_with(configuration).await;
        let options = QueryOptions::default();
        let mut root = log_in(&processor, SUPERUSER).await;
        let statements = [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.t (k int PRIMARY KEY)",
            "CREATE ROLE plain WITH PASSWORD = 'plain' AND LOGIN = true",
            "CREATE ROLE heir WITH PASSWORD = 'heir' AND LOGIN = true",
            "GRANT SELECT ON k.t TO plain",
            "GRANT cassandra TO heir",
        ];
        execute_all(&processor, &mut root, &statements).await;
        let mut anonymous = ClientState::default();
        let select = "SELECT k FROM k.t WHERE k IN (1, 2, 3)";
        for (name, is_refused) in [("plain", true), (SUPERUSER, false), ("heir", false)] {
            let mut client = log_in(&processor, name).await;
            let answer = processor.query(select, &mut client, &options).await;
            assert_eq!(answer.is_err(), is_refused, "{name}");
        }
        assert!(processor.query(select, &mut anonymous, &options).await.is_err());
    });
}
