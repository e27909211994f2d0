//! Answers the requests about compactions, under ScyllaDB's paths.

use std::path::PathBuf;

use espalier_storage::{
    CompactionProgress, FirstFailure, Node, PastCompaction, StorageError, TokenRange,
};
use serde::Serialize;

use super::http::{Answer, HttpRequest, HttpResponse};
use super::json::{Pair, long_list};

/// Answers a request whose path begins with `compaction_manager`.
pub(super) async fn answer(database: &Node, request: &HttpRequest, path: &[&str]) -> Answer {
    match (request.method.as_str(), path) {
        ("POST", [_, "force_user_defined_compaction"]) => compact_files(database, request).await,
        ("POST", [_, "stop_compaction"]) => super::stop::stop(database, request).await,
        ("POST", [_, "stop_keyspace_compaction", keyspace]) => {
            super::stop::stop_in(database, keyspace, request).await
        }
        ("GET", [_, "compactions" | "compaction_info"]) => {
            let running = database.compactions().running().await;
            Ok(HttpResponse::json(&running.iter().map(Running::from).collect::<Vec<_>>()))
        }
        ("GET", [_, "compaction_history"]) => history(database).await,
        ("GET", [_, "metrics", "pending_tasks"]) => {
            let pending = database.compactions().pending().await;
            let count: usize = pending.iter().map(|(_, _, count)| count).sum();
            Ok(HttpResponse::json(&count))
        }
        ("GET", [_, "metrics", "pending_tasks_by_table"]) => {
            let pending = database.compactions().pending().await.into_iter();
            let tasks = pending.map(|(ks, cf, task)| Pending { ks, cf, task });
            Ok(HttpResponse::json(&tasks.collect::<Vec<_>>()))
        }
        (method, path) => super::routes::unanswered(method, path),
    }
}

/// Answers a request without a result: an empty body, as in ScyllaDB.
pub(super) fn outcome(result: Result<(), StorageError>) -> Answer {
    result?;
    Ok(HttpResponse::done())
}

/// Returns the names that a parameter lists with commas.
pub(super) fn names<'a>(request: &'a HttpRequest, parameter: &str) -> Vec<&'a str> {
    let names = request.parameter(parameter).unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).collect()
}

pub(super) fn flag(request: &HttpRequest, name: &str, default: bool) -> bool {
    request.parameter(name).map_or(default, |value| value.eq_ignore_ascii_case("true"))
}

/// Returns the requested tables; one `None` for the whole keyspace.
fn tables_of(request: &HttpRequest) -> Vec<Option<&str>> {
    match names(request, "cf").as_slice() {
        [] => vec![None],
        tables => tables.iter().map(|name| Some(*name)).collect(),
    }
}

/// Runs `work` for one table after another, or for the whole keyspace. Returns the first failure
/// after the last table. If an operator stops the work or the node shuts down, returns that error
/// at once.
async fn for_tables_of(
    request: &HttpRequest,
    work: impl AsyncFn(Option<&str>) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut failure = FirstFailure::none();
    for table in tables_of(request) {
        failure.keep(work(table).await)?;
    }
    failure.into_result()
}

/// Returns the error if one of the requested tables does not exist, so that the request starts work
/// on none of them.
fn check_tables(
    database: &Node,
    keyspace: &str,
    request: &HttpRequest,
) -> Result<(), StorageError> {
    let schema = database.store().schema();
    let names = names(request, "cf");
    match names.into_iter().find(|name| schema.table(keyspace, name).is_none()) {
        None => Ok(()),
        Some(table) => Err(StorageError::UnknownTableName {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
        }),
    }
}

/// Answers `POST /storage_service/keyspace_compaction/KEYSPACE`.
pub(super) async fn compact(database: &Node, keyspace: &str, request: &HttpRequest) -> Answer {
    check_tables(database, keyspace, request)?;
    let with_memtables = flag(request, "flush_memtables", true);
    let range = range(request)?;
    let compacted = for_tables_of(request, async |table| match range {
        None => database.compactions().compact(keyspace, table, with_memtables).await,
        Some(range) => {
            database.compactions().compact_range(keyspace, table, range, with_memtables).await
        }
    });
    outcome(compacted.await)
}

/// Parses Cassandra's parameters of a token range: the tokens after `startToken`, up to `endToken`
/// and including it. Without `startToken` the range begins at the smallest token, without
/// `endToken` it ends at the largest.
fn range(request: &HttpRequest) -> Result<Option<TokenRange>, String> {
    let token = |name: &str, otherwise: i64| match request.parameter(name) {
        None => Ok(otherwise),
        Some(text) => text
            .parse()
            .map_err(|_| format!("{name}={text} is not a token, which is a signed 64-bit number")),
    };
    let (after, through) = (token("startToken", i64::MIN)?, token("endToken", i64::MAX)?);
    let is_given = ["startToken", "endToken"].iter().any(|name| request.parameter(name).is_some());
    Ok(is_given.then_some(TokenRange { after, through }))
}

async fn compact_files(database: &Node, request: &HttpRequest) -> Answer {
    let files: Vec<PathBuf> = names(request, "data_files").into_iter().map(PathBuf::from).collect();
    if files.is_empty() {
        return Err("This needs the names of data files: ?data_files=da-1-bti-Data.db,…".into());
    }
    outcome(database.compactions().compact_data_files(files).await)
}

/// Answers `GET` and `POST /storage_service/keyspace_upgrade_sstables/KEYSPACE`.
pub(super) async fn upgrade(database: &Node, keyspace: &str, request: &HttpRequest) -> Answer {
    check_tables(database, keyspace, request)?;
    let only_others = flag(request, "exclude_current_version", false);
    let upgraded = for_tables_of(request, async |table| {
        database.compactions().upgrade_sstables(keyspace, table, only_others).await
    });
    upgraded.await?;
    // ScyllaDB answers with a status as a number.
    Ok(HttpResponse::json(&0))
}

/// The pending compactions of a table, in ScyllaDB's form.
#[derive(Serialize)]
struct Pending {
    ks: String,
    cf: String,
    task: usize,
}

/// A running compaction: ScyllaDB's form, with members of our own at the end.
#[derive(Serialize)]
struct Running<'a> {
    id: String,
    task_type: &'static str,
    unit: &'static str,
    ks: &'a str,
    cf: &'a str,
    completed: u64,
    total: u64,
    remaining_seconds: Option<u64>,
    shard: usize,
    sstables: usize,
}

impl<'a> From<&'a CompactionProgress> for Running<'a> {
    fn from(running: &'a CompactionProgress) -> Self {
        Self {
            id: running.id.to_string(),
            task_type: running.kind.name(),
            unit: "bytes",
            ks: &running.keyspace,
            cf: &running.table,
            completed: running.completed_bytes,
            total: running.total_bytes,
            remaining_seconds: running.remaining.map(|left| left.as_secs()),
            shard: running.shard,
            sstables: running.sstables,
        }
    }
}

/// A row of `system.compaction_history`, in ScyllaDB's form.
#[derive(Serialize)]
struct Past<'a> {
    id: String,
    ks: &'a str,
    cf: &'a str,
    compacted_at: i64,
    bytes_in: i64,
    bytes_out: i64,
    rows_merged: Vec<Pair<i32, i64>>,
    compaction_properties: Vec<Pair<&'a str, &'a str>>,
}

impl<'a> From<&'a PastCompaction> for Past<'a> {
    fn from(past: &'a PastCompaction) -> Self {
        let merged = past.rows_merged.iter().map(|&(key, value)| Pair { key, value });
        let properties =
            past.properties.iter().map(|(key, value)| Pair { key: &**key, value: &**value });
        Self {
            id: past.id.to_string(),
            ks: &past.keyspace,
            cf: &past.table,
            compacted_at: past.compacted_at_ms,
            bytes_in: past.bytes_in,
            bytes_out: past.bytes_out,
            rows_merged: merged.collect(),
            compaction_properties: properties.collect(),
        }
    }
}

/// Answers with the rows of `system.compaction_history`, the newest first.
async fn history(database: &Node) -> Answer {
    let history = database.compactions().history().await?;
    Ok(HttpResponse::written(long_list(history.iter().map(Past::from)).await))
}
