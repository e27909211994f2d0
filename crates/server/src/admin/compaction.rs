//! Compactions and snapshots by ScyllaDB's paths.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use espalier_cql::describe_table;
use espalier_mutation::schema::{Schema, TableMetadata};
use espalier_storage::{Database, SnapshotDetails, SnapshotTable, StorageError};

use super::http::{HttpRequest, HttpResponse, json_list, json_string};
use crate::shard::ShardServer;

/// Answers a request whose path is one of these.
pub(super) async fn answer(
    server: &Rc<ShardServer>,
    request: &HttpRequest,
    path: &[&str],
) -> HttpResponse {
    let database = server.processor.database();
    match (request.method.as_str(), path) {
        ("POST", ["storage_service", "keyspace_compaction", keyspace]) => {
            compact(database, keyspace, request).await
        }
        ("GET" | "POST", ["storage_service", "keyspace_upgrade_sstables", keyspace]) => {
            upgrade(database, keyspace, request).await
        }
        ("POST", ["storage_service", "snapshots"]) => take_snapshot(database, request).await,
        ("DELETE", ["storage_service", "snapshots"]) => clear_snapshots(database, request).await,
        ("GET", ["storage_service", "snapshots"]) => match database.snapshots().await {
            Ok(found) => HttpResponse::json(snapshots(found)),
            Err(error) => failure(&error),
        },
        ("POST", ["compaction_manager", "stop_compaction"])
        | ("POST", ["compaction_manager", "stop_keyspace_compaction", _]) => {
            database.stop_compactions().await;
            HttpResponse::json("")
        }
        ("GET", ["compaction_manager", "compactions" | "compaction_info"]) => {
            HttpResponse::json(compactions(database).await)
        }
        ("GET", ["compaction_manager", "metrics", "pending_tasks"]) => {
            let pending = database.pending_compactions().await;
            let count: usize = pending.iter().map(|(_, _, count)| count).sum();
            HttpResponse::json(count.to_string())
        }
        ("GET", ["compaction_manager", "metrics", "pending_tasks_by_table"]) => {
            let pending = database.pending_compactions().await.into_iter();
            HttpResponse::json(json_list(pending.map(|(keyspace, table, count)| {
                let (keyspace, table) = (json_string(&keyspace), json_string(&table));
                format!("{{\"ks\":{keyspace},\"cf\":{table},\"task\":{count}}}")
            })))
        }
        ("GET", ["storage_service", "keyspace_compaction", _]) => {
            HttpResponse::error(405, "This needs POST")
        }
        _ => HttpResponse::error(404, "Not found"),
    }
}

fn failure(error: &StorageError) -> HttpResponse {
    let status = match error {
        StorageError::UnknownTableName { .. }
        | StorageError::UnknownKeyspace(_)
        | StorageError::Snapshot(_) => 400,
        _ => 500,
    };
    HttpResponse::error(status, &error.to_string())
}

fn outcome(result: Result<(), StorageError>) -> HttpResponse {
    match result {
        Ok(()) => HttpResponse::json(""),
        Err(error) => failure(&error),
    }
}

/// The names that a parameter lists with commas.
fn names<'a>(request: &'a HttpRequest, parameter: &str) -> Vec<&'a str> {
    let names = request.parameter(parameter).unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).collect()
}

fn flag(request: &HttpRequest, name: &str, default: bool) -> bool {
    request.parameter(name).map_or(default, |value| value.eq_ignore_ascii_case("true"))
}

/// What is asked for, table by table; `None` for the whole keyspace.
fn tables_of(request: &HttpRequest) -> Vec<Option<&str>> {
    match names(request, "cf").as_slice() {
        [] => vec![None],
        tables => tables.iter().map(|name| Some(*name)).collect(),
    }
}

async fn compact(database: &Database, keyspace: &str, request: &HttpRequest) -> HttpResponse {
    let with_memtables = flag(request, "flush_memtables", true);
    for table in tables_of(request) {
        if let Err(error) = database.compact(keyspace, table, with_memtables).await {
            return failure(&error);
        }
    }
    HttpResponse::json("")
}

async fn upgrade(database: &Database, keyspace: &str, request: &HttpRequest) -> HttpResponse {
    let only_others = flag(request, "exclude_current_version", false);
    for table in tables_of(request) {
        if let Err(error) = database.upgrade_sstables(keyspace, table, only_others).await {
            return failure(&error);
        }
    }
    // ScyllaDB answers with a status as a number.
    HttpResponse::json("0")
}

async fn compactions(database: &Database) -> String {
    let running = database.compactions().await.into_iter().map(|running| {
        format!(
            "{{\"id\":{},\"task_type\":{},\"unit\":\"bytes\",\"ks\":{},\"cf\":{},\"completed\":{},\"total\":{},\"shard\":{},\"sstables\":{}}}",
            json_string(&running.id.to_string()),
            json_string(running.kind.name()),
            json_string(&running.keyspace),
            json_string(&running.table),
            running.completed_bytes,
            running.total_bytes,
            running.shard,
            running.sstables
        )
    });
    json_list(running)
}

async fn take_snapshot(database: &Database, request: &HttpRequest) -> HttpResponse {
    let Some(tag) = request.parameter("tag").filter(|tag| !tag.is_empty()) else {
        return HttpResponse::error(400, "You must supply a snapshot name: ?tag=NAME");
    };
    let schema = database.schema();
    match wanted(&schema, &names(request, "kn"), &names(request, "cf")) {
        Ok(tables) => {
            let with_memtables = !flag(request, "sf", false);
            outcome(database.take_snapshot(tag.to_owned(), tables, with_memtables).await)
        }
        Err(reason) => HttpResponse::error(400, &reason),
    }
}

fn wanted(
    schema: &Schema,
    keyspaces: &[&str],
    tables: &[&str],
) -> Result<Vec<SnapshotTable>, String> {
    if let Some(unknown) = keyspaces.iter().find(|name| schema.keyspace(name).is_none()) {
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
        (keyspaces.is_empty() || keyspaces.contains(&table.keyspace.as_str()))
            && (tables.is_empty() || tables.contains(&table.name.as_str()))
    });
    let kept = |table: &Arc<TableMetadata>| SnapshotTable {
        id: table.id,
        schema: describe_table(schema, table),
    };
    Ok(all.map(kept).collect())
}

async fn clear_snapshots(database: &Database, request: &HttpRequest) -> HttpResponse {
    let tag = request.parameter("tag").filter(|tag| !tag.is_empty());
    let table = request.parameter("cf").filter(|table| !table.is_empty());
    outcome(database.clear_snapshots(tag, &names(request, "kn"), table).await)
}

/// By tag, as ScyllaDB lists them.
fn snapshots(found: Vec<SnapshotDetails>) -> String {
    let mut by_tag: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for details in found {
        by_tag.entry(details.tag).or_default().push(format!(
            "{{\"ks\":{},\"cf\":{},\"total\":{},\"live\":{}}}",
            json_string(&details.keyspace),
            json_string(&details.table),
            details.total_bytes,
            details.true_bytes
        ));
    }
    json_list(by_tag.into_iter().map(|(tag, tables)| {
        format!("{{\"key\":{},\"value\":[{}]}}", json_string(&tag), tables.join(", "))
    }))
}
