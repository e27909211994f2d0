//! Answers requests about snapshots, restores from snapshots, and orphaned directories.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use espalier_cql::{
    ChangeKind, ChangeTarget, ClientState, QueryOptions, QueryResult, describe_table,
    grammar::split_statements,
};
use espalier_mutation::schema::{Schema, TableMetadata};
use espalier_storage::{
    Imported, Node, Orphan, SnapshotDetails, SnapshotTable, StorageError, system::is_virtual,
};
use serde::Serialize;

use super::compaction::{flag, names, outcome};
use super::http::{Answer, HttpRequest, HttpResponse, status_of};
use super::json::Pair;
use super::node::known_keyspace;
use crate::events::broadcast_schema_change;
use crate::shard::ShardServer;

/// Answers a request with one of these paths.
pub(super) async fn answer(
    server: &Rc<ShardServer>,
    request: &HttpRequest,
    path: &[&str],
) -> Answer {
    let database = server.processor.database();
    match (request.method.as_str(), path) {
        ("POST", [_, "restore"]) => restore(server, request).await,
        ("POST", [_, "snapshots"]) => take_snapshot(database, request).await,
        ("DELETE", [_, "snapshots"]) => clear_snapshots(database, request).await,
        ("GET", [_, "snapshots"]) => {
            Ok(HttpResponse::json(&by_tag(database.snapshots().list().await?)))
        }
        ("GET", [_, "orphans"]) => {
            let orphans = database.orphans().list().await?;
            Ok(HttpResponse::json(&orphans.iter().map(OrphanEntry::from).collect::<Vec<_>>()))
        }
        ("DELETE", [_, "orphans"]) => {
            let path =
                given(request, "path").ok_or("This needs ?path=DIRECTORY; GET lists them")?;
            let removed = database.orphans().remove(path.into()).await?;
            Ok(HttpResponse::json(&OrphanEntry::from(&removed)))
        }
        _ => Err(HttpResponse::error(405, "This path needs another method")),
    }
}

fn given<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.parameter(name).filter(|value| !value.is_empty())
}

/// An orphaned directory.
#[derive(Serialize)]
struct OrphanEntry<'a> {
    path: String,
    ks: &'a str,
    cf: &'a str,
    files: u64,
    bytes: u64,
    has_copies: bool,
}

impl<'a> From<&'a Orphan> for OrphanEntry<'a> {
    fn from(orphan: &'a Orphan) -> Self {
        Self {
            path: orphan.path.display().to_string(),
            ks: &orphan.keyspace,
            cf: &orphan.table,
            files: orphan.files,
            bytes: orphan.bytes,
            has_copies: orphan.has_copies,
        }
    }
}

/// The SSTables, partitions and bytes that were added to a table.
#[derive(Serialize)]
struct ImportedCounts {
    sstables: u64,
    partitions: u64,
    bytes: u64,
}

/// A table's part of a snapshot, in ScyllaDB's form.
#[derive(Serialize)]
struct SnapshotEntry {
    ks: String,
    cf: String,
    total: u64,
    live: u64,
}

/// Restores a table from its snapshot; creates the table first if it was dropped. The parameters
/// have ScyllaDB's names, although ScyllaDB keeps its snapshots elsewhere.
async fn restore(server: &Rc<ShardServer>, request: &HttpRequest) -> Answer {
    let database = server.processor.database();
    let given = |name| given(request, name);
    let (Some(keyspace), Some(table), Some(tag)) =
        (given("keyspace"), given("table"), given("snapshot"))
    else {
        return Err("This needs ?keyspace=KEYSPACE&table=TABLE&snapshot=TAG; \
                    GET /storage_service/snapshots lists them"
            .into());
    };
    let schema = database.store().schema();
    let known =
        known_keyspace(&schema, keyspace).map_err(|error| format!("{error}: create it first"))?;
    let is_missing = !known.tables.contains_key(table);
    if is_missing && server.config.is_ring_member {
        let reason = format!(
            "Table {keyspace}.{table} does not exist: create it through a Cassandra node first"
        );
        return Err(reason.into());
    }
    let mut is_created = false;
    let restored = async {
        if is_missing {
            let script = database.snapshots().schema_of_verified(keyspace, table, tag).await?;
            create(server, &script, &mut is_created).await?;
        }
        Ok(database.snapshots().restore(keyspace, table, tag).await?)
    };
    let restored: Result<Imported, RestoreError> = restored.await;
    // The restored rows may be roles or permissions, so log-ins read theirs again.
    server.processor.auth().roles_changed();
    match restored {
        Err(error @ RestoreError::Script(_)) if is_created => {
            let message = format!(
                "{error}. The restore created {keyspace}.{table}, but the table lacks a part of \
                 its schema and has no rows of the snapshot: drop it before you restore again"
            );
            Err(HttpResponse::error(error.status(), &message))
        }
        Err(error) if is_created => {
            // A DROP could lose rows that clients have written since the table was created.
            let message = format!(
                "{error}. The restore created {keyspace}.{table} and leaves it without the rows \
                 of the snapshot: restore again, or drop it"
            );
            Err(HttpResponse::error(error.status(), &message))
        }
        Err(error) => Err(HttpResponse::error(error.status(), &error.to_string())),
        Ok(restored) => Ok(imported(restored)),
    }
}

/// The reason why a restore failed.
#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("schema.cql of the snapshot: {0}")]
    Script(String),
}

impl RestoreError {
    /// Returns the status code of the answer.
    fn status(&self) -> u16 {
        match self {
            Self::Storage(error) => status_of(error),
            Self::Script(_) => 400,
        }
    }
}

/// Executes the statements of a snapshot's `schema.cql`, up to the first that fails, and sends the
/// events of the changes to clients. Sets `is_created` once a statement has created a table or
/// view.
async fn create(
    server: &ShardServer,
    script: &str,
    is_created: &mut bool,
) -> Result<(), RestoreError> {
    for statement in split_statements(script) {
        match execute(server, statement).await {
            Ok(QueryResult::SchemaChange(change)) => {
                *is_created |=
                    change.change == ChangeKind::Created && change.target == ChangeTarget::Table;
                broadcast_schema_change(change);
            }
            Ok(_) => {}
            Err(error) => {
                let is_view = statement.trim_start().starts_with("CREATE MATERIALIZED VIEW");
                let hint = if is_view {
                    "; restore the base table of the view first. The node can also build the view \
                     from the base table, without a restore: execute the schema.cql"
                } else {
                    ""
                };
                return Err(RestoreError::Script(format!("{error}{hint}")));
            }
        }
    }
    Ok(())
}

/// Executes a statement on behalf of the node.
async fn execute(
    server: &ShardServer,
    statement: &str,
) -> Result<QueryResult, espalier_cql::Error> {
    let mut client = ClientState::default();
    server.processor.query(statement, &mut client, &QueryOptions::default()).await
}

/// Answers with the SSTables, partitions and bytes that were added to a table.
pub(super) fn imported(imported: Imported) -> HttpResponse {
    let Imported { sstables, partitions, bytes } = imported;
    HttpResponse::json(&ImportedCounts { sstables, partitions, bytes })
}

async fn take_snapshot(database: &Node, request: &HttpRequest) -> Answer {
    let tag = given(request, "tag").ok_or("You must supply a snapshot name: ?tag=NAME")?;
    let schema = database.store().schema();
    let tables = tables_wanted(&schema, &names(request, "kn"), &names(request, "cf"))?;
    let with_memtables = !flag(request, "sf", false);
    outcome(database.snapshots().take(tag.to_owned(), tables, with_memtables).await)
}

pub(super) fn tables_wanted(
    schema: &Schema,
    keyspaces: &[&str],
    tables: &[&str],
) -> Result<Vec<SnapshotTable>, String> {
    // A keyspace without tables counts. A virtual one does not, because it has no files.
    let is_there = |name: &str| schema.keyspace(name).is_some() && !is_virtual(name);
    if let Some(unknown) = keyspaces.iter().find(|name| !is_there(name)) {
        return Err(format!("Keyspace {unknown} does not exist"));
    }
    if !tables.is_empty() && keyspaces.len() != 1 {
        return Err(
            "When specifying the table for a snapshot, you must specify one and only one keyspace"
                .into(),
        );
    }
    if let (Some(keyspace), Some(unknown)) = (
        keyspaces.first(),
        tables.iter().find(|table| keyspaces.iter().any(|ks| schema.table(ks, table).is_none())),
    ) {
        return Err(format!("Column family '{keyspace}:{unknown}' not found"));
    }
    let all = schema.tables().filter(|table| {
        !is_virtual(&table.keyspace)
            && (keyspaces.is_empty() || keyspaces.contains(&table.keyspace.as_str()))
            && (tables.is_empty() || tables.contains(&table.name.as_str()))
    });
    let kept =
        |table: &Arc<TableMetadata>| SnapshotTable { id: table.id, describe: describe_table };
    Ok(all.map(kept).collect())
}

async fn clear_snapshots(database: &Node, request: &HttpRequest) -> Answer {
    let tag = request.parameter("tag");
    outcome(database.snapshots().clear(tag, &names(request, "kn"), &names(request, "cf")).await)
}

/// Returns the snapshots by tag, in ScyllaDB's form.
fn by_tag(found: Vec<SnapshotDetails>) -> Vec<Pair<String, Vec<SnapshotEntry>>> {
    let mut by_tag = BTreeMap::<String, Vec<SnapshotEntry>>::new();
    for details in found {
        by_tag.entry(details.tag).or_default().push(SnapshotEntry {
            ks: details.keyspace,
            cf: details.table,
            total: details.total_bytes,
            live: details.true_bytes,
        });
    }
    by_tag.into_iter().map(|(key, value)| Pair { key, value }).collect()
}
