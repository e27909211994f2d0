//! The metadata of prepared statements equals that of Cassandra 5.0.9: names and types of bind
//! markers and result columns, and the markers of the partition key.
//! `interop/scripts/prepared_metadata.py` recorded `testdata/cql/prepared_metadata.txt` and
//! describes the form of the file.

use std::{fmt::Write, sync::Arc};

use espalier_cql::{
    ClientState, ColumnSpec, Prepared, PreparedCache, QueryOptions, QueryProcessor,
};
use espalier_runtime::{ShardContext, block_on, file::FileSystem};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};
use espalier_types::CqlType;

const RECORDED: &str = include_str!("../../../../testdata/cql/prepared_metadata.txt");

/// Returns the name of a type in the protocol: without `frozen`, and with only the name of a user
/// type.
fn wire_name(column_type: &CqlType) -> String {
    match column_type {
        CqlType::List { element, .. } => format!("list<{}>", wire_name(element)),
        CqlType::Set { element, .. } => format!("set<{}>", wire_name(element)),
        CqlType::Map { key, value, .. } => format!("map<{}, {}>", wire_name(key), wire_name(value)),
        CqlType::Tuple(parts) => {
            let parts: Vec<String> = parts.iter().map(wire_name).collect();
            format!("tuple<{}>", parts.join(", "))
        }
        CqlType::UserDefined { definition, .. } => definition.name.clone(),
        CqlType::Vector { .. } => format!("'{}'", column_type.marshal_name().replace(' ', "")),
        other => other.cql_name(),
    }
}

fn show_column(kind: &str, column: &ColumnSpec, text: &mut String) {
    let name = wire_name(&column.column_type);
    let _ =
        writeln!(text, "  {kind} [{}.{}] {} {name}", column.keyspace, column.table, column.name);
}

fn show(prepared: &Prepared) -> String {
    let mut text = String::new();
    prepared.bind.columns.iter().for_each(|column| show_column("bind", column, &mut text));
    let key = &prepared.bind.partition_key_indices;
    if !key.is_empty() {
        let key: Vec<String> = key.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "  key {}", key.join(" "));
    }
    prepared.result.columns.iter().for_each(|column| show_column("result", column, &mut text));
    text
}

#[test]
fn metadata_of_prepared_statements_is_that_of_cassandra() {
    block_on(async {
        let context = ShardContext { index: 0, count: 1 };
        let configuration = Arc::new(StorageConfiguration::new("node"));
        let shared = SharedStorage::new();
        let database =
            Node::open(context, FileSystem::simulated(1), configuration, shared).await.unwrap();
        let processor = QueryProcessor::new(database, Arc::new(PreparedCache::default()));
        let mut client = ClientState::default();
        let mut compared = 0;
        let mut differences = Vec::new();
        let mut lines = RECORDED.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(statement) = line.strip_prefix("SETUP ") {
                let options = QueryOptions::default();
                processor.query(statement, &mut client, &options).await.unwrap();
                continue;
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut expected = String::new();
            while let Some(answer) = lines.next_if(|next| next.starts_with("  ")) {
                let _ = writeln!(expected, "{answer}");
            }
            let found = match processor.prepare(line, &client) {
                Ok(prepared) => show(&prepared),
                Err(error) => format!("  error {:04x}\n", error.code as i32),
            };
            compared += 1;
            if found != expected {
                differences.push(format!("{line}\n{expected}found:\n{found}"));
            }
        }
        assert!(compared > 400, "{compared}");
        assert!(
            differences.is_empty(),
            "{} differ:\n{}",
            differences.len(),
            differences.join("\n")
        );
    });
}
