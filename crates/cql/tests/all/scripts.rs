//! Scripts of statements with their results as text (`testdata/cql_scripts/*.txt`), which a
//! reviewer reads as a diff.
//!
//! Each script runs in five modes, each on a fresh node: three have all data in memtables, of
//! different kinds, one has a flush after each statement, and one has pages of two rows. All runs
//! must agree with the recorded text. With `REWRITE=1`, the test runs only the first mode and
//! records its results. `ONLY=NAME` selects the scripts whose path contains NAME. The node of a
//! script `sasi_*` allows SASI indexes.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use espalier_cql::{ClientState, PreparedCache, QueryOptions, QueryProcessor, QueryResult, Rows};
use espalier_runtime::{ShardContext, block_on, file::FileSystem};
use espalier_storage::{
    MemtableKind, Node, SharedStorage, StorageConfiguration, StorageError, Structure,
};
use espalier_types::literal;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Memtable,
    SkipList,
    ShardedTrie,
    Flushed,
    Paged,
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cql_scripts")
}

fn show(rows: &Rows) -> String {
    let mut text = String::new();
    let names: Vec<&str> =
        rows.metadata.columns.iter().map(|column| column.name.as_str()).collect();
    let _ = writeln!(text, "{}", names.join(" | "));
    let mut rest = rows.content.as_slice();
    for _ in 0..rows.row_count {
        let mut cells = Vec::new();
        for column in &rows.metadata.columns {
            let (length, tail) = rest.split_at(4);
            let length = i32::from_be_bytes(length.try_into().unwrap());
            if length < 0 {
                cells.push("null".to_string());
                rest = tail;
            } else {
                let (value, tail) = tail.split_at(length as usize);
                let literal = literal::to_cql_literal(&column.column_type, value);
                // An empty line would separate statements of the script.
                cells.push(literal.replace("\n\n", "\n \n"));
                rest = tail;
            }
        }
        let _ = writeln!(text, "{}", cells.join(" | "));
    }
    assert!(rest.is_empty(), "a row holds more than its columns");
    text
}

/// Returns the lines of an answer.
pub fn show_answer(answer: espalier_cql::Result<QueryResult>) -> String {
    match answer {
        Ok(QueryResult::Rows(rows)) => show(&rows),
        Ok(QueryResult::Void) => "ok\n".into(),
        Ok(QueryResult::SetKeyspace(keyspace)) => format!("use {keyspace}\n"),
        Ok(QueryResult::SchemaChange(change)) => {
            // One line for each event that drivers receive.
            let mut text = String::new();
            for event in change.into_events() {
                let kind = format!("{:?} {:?}", event.change, event.target).to_lowercase();
                let _ = writeln!(text, "{kind} {} {}", event.keyspace, event.name);
            }
            text
        }
        Err(error) => format!("{:?}: {}\n", error.code, error.message),
    }
}

async fn run_statement(
    processor: &QueryProcessor,
    client: &mut ClientState,
    text: &str,
    mode: Mode,
) -> String {
    let mut page_size = (mode == Mode::Paged).then_some(2);
    let mut state: Option<bytes::Bytes> = None;
    let mut all: Option<Rows> = None;
    loop {
        let options = QueryOptions {
            page_size,
            paging_state: state.as_deref(),
            timestamp_us: None,
            now_s: Some(1_750_000_000),
            ..QueryOptions::default()
        };
        match processor.query(text, client, &options).await {
            Ok(QueryResult::Rows(rows)) => {
                state = rows.paging_state.clone();
                assert!(page_size.is_none_or(|size| rows.row_count <= size || state.is_none()));
                match &mut all {
                    None => all = Some(rows),
                    Some(all) => {
                        all.row_count += rows.row_count;
                        all.content.extend_from_slice(&rows.content);
                    }
                }
                if state.is_none() {
                    return show(&all.unwrap());
                }
            }
            // A statement that cannot be paged is executed again without paging.
            Err(error) if page_size.is_some() && error.message.starts_with("Cannot page") => {
                page_size = None;
            }
            answer => return show_answer(answer),
        }
    }
}

fn run_script(path: &Path, script: &str, mode: Mode) -> String {
    let mut output = String::new();
    block_on(async {
        let file_system = FileSystem::simulated(1);
        let mut configuration = StorageConfiguration::new("node");
        let kind = match mode {
            Mode::SkipList => MemtableKind { structure: Structure::SkipList, shards: 1 },
            Mode::ShardedTrie => MemtableKind { structure: Structure::Trie, shards: 3 },
            _ => MemtableKind::default(),
        };
        configuration.memtables.configurations.set("default", kind);
        configuration.schema_features.drop_compact_storage_enabled = true;
        configuration.schema_features.sasi_indexes_enabled =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sasi_"));
        let context = ShardContext { index: 0, count: 1 };
        let shared = SharedStorage::new();
        let database =
            Node::open(context, file_system, Arc::new(configuration), shared).await.unwrap();
        let processor = QueryProcessor::new(database.clone(), Arc::new(PreparedCache::default()));
        let mut client = ClientState::default();
        for line in script.lines() {
            if let Some(statement) = line.strip_prefix("> ") {
                let _ = writeln!(output, "{line}");
                output.push_str(&run_statement(&processor, &mut client, statement, mode).await);
                if mode == Mode::Flushed
                    && let Some(keyspace) = client.keyspace.clone()
                {
                    match database.flush(&keyspace, None).await {
                        // The statement dropped the keyspace.
                        Ok(()) | Err(StorageError::UnknownKeyspace(_)) => {}
                        Err(error) => panic!("{statement}: {error}"),
                    }
                }
            } else if line.starts_with('#') || line.is_empty() {
                let _ = writeln!(output, "{line}");
            }
        }
    });
    output
}

#[test]
fn scripts_give_their_recorded_answers() {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(!names.is_empty());
    let only = std::env::var("ONLY").unwrap_or_default();
    for path in names.into_iter().filter(|path| path.to_string_lossy().contains(&only)) {
        let expected = std::fs::read_to_string(&path).unwrap();
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(&path, run_script(&path, &expected, Mode::Memtable)).unwrap();
            continue;
        }
        for mode in [Mode::Memtable, Mode::SkipList, Mode::ShardedTrie, Mode::Flushed, Mode::Paged]
        {
            let found = run_script(&path, &expected, mode);
            if found != expected {
                let difference = expected
                    .lines()
                    .zip(found.lines())
                    .enumerate()
                    .find(|(_, (expected, found))| expected != found);
                panic!("{} ({mode:?}): first difference: {difference:#?}", path.display());
            }
        }
    }
}
