//! Routes each request of the admin API by its method and path. A path that ScyllaDB's API also has
//! gives the same result, so that ScyllaDB's tools and tests work.

use std::rc::Rc;

use espalier_runtime::submit_to_all;
use espalier_storage::{FirstFailure, Node, system::is_virtual};

use super::compaction::{names, outcome};
use super::http::{Answer, HttpRequest, HttpResponse};
use super::json::number;
use super::node::known_keyspace;
use crate::metrics::render;
use crate::shard::ShardServer;

/// Answers a request.
pub(super) async fn answer(server: &Rc<ShardServer>, request: &HttpRequest) -> HttpResponse {
    match route(server, request).await {
        Ok(answer) | Err(answer) => answer,
    }
}

async fn route(server: &Rc<ShardServer>, request: &HttpRequest) -> Answer {
    super::parameters::check(request)?;
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let database = server.processor.database();
    match (request.method.as_str(), path.as_slice()) {
        (_, path @ ["storage_service", ..]) => storage_service(server, request, path).await,
        (_, path @ ["column_family", ..]) => column_family(server, request, path).await,
        (_, path @ ["compaction_manager", ..]) => {
            super::compaction::answer(database, request, path).await
        }
        ("GET", ["metrics"]) => Ok(metrics().await),
        // ScyllaDB empties its caches under this path, which its tests use.
        ("POST", ["lsa", "compact"]) => {
            database.forget_cached_rows().await;
            Ok(HttpResponse::done())
        }
        ("POST", ["system", "drop_sstable_caches"]) => {
            database.drop_caches().await;
            Ok(HttpResponse::done())
        }
        ("GET", ["cache_service", "row_cache", "explain", keyspace]) => {
            super::cache::explain(server, keyspace, request).await
        }
        ("GET", path) => super::node::answer(server, path).await,
        (method, path) => unanswered(method, path),
    }
}

async fn storage_service(server: &Rc<ShardServer>, request: &HttpRequest, path: &[&str]) -> Answer {
    let database = server.processor.database();
    match (request.method.as_str(), path) {
        ("POST" | "GET" | "DELETE", [_, "snapshots" | "restore" | "orphans"]) => {
            super::snapshots::answer(server, request, path).await
        }
        ("POST", [_, "keyspace_compaction", keyspace]) => {
            super::compaction::compact(database, keyspace, request).await
        }
        ("GET" | "POST", [_, "keyspace_upgrade_sstables", keyspace]) => {
            super::compaction::upgrade(database, keyspace, request).await
        }
        ("GET" | "POST", [_, "keyspace_scrub", keyspace]) => {
            super::scrub::scrub(database, keyspace, request).await
        }
        (_, [_, "auto_compaction", keyspace]) => {
            super::auto_compaction::of_keyspace(database, request, keyspace).await
        }
        ("GET", [_, "trace_probability"]) => {
            Ok(HttpResponse::json(&number(server.traces.probability())))
        }
        ("POST", [_, "trace_probability"]) => {
            set_trace_probability(request.parameter("probability")).await
        }
        ("GET", [_, "audit_log"]) => Ok(super::audit::get(server)),
        ("POST", [_, "audit_log"]) => super::audit::enable(server, request),
        ("DELETE", [_, "audit_log"]) => Ok(super::audit::disable(server)),
        ("GET", [_, "guardrails"]) => Ok(super::guardrails::get(database)),
        ("POST", [_, "guardrails"]) => super::guardrails::set(database, request),
        ("GET", [_, "compaction_throughput"]) => Ok(super::throughput::get(database)),
        ("POST", [_, "compaction_throughput"]) => {
            super::throughput::set(database, request.parameter("value")).await
        }
        ("GET", path) => super::node::answer(server, path).await,
        ("POST", [_, "keyspace_flush", keyspace]) => {
            flush(server, keyspace, &names(request, "cf")).await
        }
        ("POST", [_, "keyspace_cleanup", keyspace]) => cleanup(server, request, keyspace),
        ("POST", [_, "flush"]) => flush_all(server).await,
        ("POST", [_, "reload_ssl_certificates"]) => reload_certificates(server).await,
        ("POST", [_, "sstables", keyspace]) => {
            import(server, keyspace, request.parameter("cf"), request.parameter("path")).await
        }
        (method, path) => unanswered(method, path),
    }
}

async fn column_family(server: &Rc<ShardServer>, request: &HttpRequest, path: &[&str]) -> Answer {
    let database = server.processor.database();
    match (request.method.as_str(), path) {
        ("GET" | "POST" | "DELETE", [_, "autocompaction", name]) => {
            super::auto_compaction::of_table(database, request, name).await
        }
        ("GET", [_, "name"]) => Ok(tables(server)),
        ("GET", [_, "name", "keyspace"]) => Ok(super::node::keyspaces(server)),
        ("GET", [_, "statistics"]) => super::tables::statistics(database).await,
        ("GET", [_, "metrics", name, table]) => super::tables::metric(database, name, table).await,
        (method, path) => unanswered(method, path),
    }
}

/// Answers a request with an unknown path, or with a method that its path does not have.
pub(super) fn unanswered(method: &str, path: &[&str]) -> Answer {
    Err(match method {
        "GET" if super::parameters::is_known(path) => {
            HttpResponse::error(405, "This path needs POST")
        }
        "GET" | "POST" => not_found(),
        _ => HttpResponse::error(405, "Unsupported method: most paths take GET or POST"),
    })
}

/// Reads the certificates' files again. Answers whether they have changed since the last time.
async fn reload_certificates(server: &ShardServer) -> Answer {
    let all = server.certificates.borrow().clone();
    if all.is_empty() {
        return Err("No connection has TLS: there are no certificates".into());
    }
    let (mut has_changed, mut failure) = (false, None);
    for certificates in all {
        match certificates.reload().await {
            Ok(changed) => has_changed |= changed,
            Err(reason) => failure = Some(reason),
        }
    }
    match failure {
        None => Ok(HttpResponse::json(&has_changed)),
        Some(reason) => Err(HttpResponse::error(
            500,
            &format!("The node keeps certificates, because new ones cannot be used: {reason}"),
        )),
    }
}

/// Answers with the metrics of all shards.
async fn metrics() -> HttpResponse {
    let samples = submit_to_all(|_| async {
        ShardServer::current().map(|server| server.samples()).unwrap_or_default()
    });
    HttpResponse::text(render(samples.await.concat()))
}

/// Sets, on all shards, the share of requests that are traced by chance.
async fn set_trace_probability(given: Option<&str>) -> Answer {
    let probability: Option<f64> = given.and_then(|text| text.parse().ok());
    let probability = probability
        .filter(|number| (0.0..=1.0).contains(number))
        .ok_or("This needs ?probability= with a number from 0 to 1")?;
    submit_to_all(move |_| async move {
        if let Some(server) = ShardServer::current() {
            server.traces.set_probability(probability);
        }
    })
    .await;
    Ok(HttpResponse::done())
}

/// Answers a cleanup, which removes nothing, even on a member of a ring.
fn cleanup(server: &ShardServer, request: &HttpRequest, keyspace: &str) -> Answer {
    let schema = server.processor.database().store().schema();
    let known = known_keyspace(&schema, keyspace)?;
    match names(request, "cf").into_iter().find(|name| !known.tables.contains_key(*name)) {
        Some(name) => Err(format!("There is no table {keyspace}.{name}").into()),
        None => Ok(HttpResponse::json(&0)),
    }
}

fn not_found() -> HttpResponse {
    // This list is written by hand: add each new path.
    const MESSAGE: &str = "Not found. KS is a keyspace; \
        cf=TABLE,TABLE limits most requests to some of its tables. \
        Metrics: GET /metrics. \
        Flush: POST /storage_service/flush; POST /storage_service/keyspace_flush/KS. \
        Compaction: POST /storage_service/keyspace_compaction/KS \
        (startToken=TOKEN&endToken=TOKEN for the files of a token range); \
        POST /compaction_manager/force_user_defined_compaction?data_files=FILE,FILE; \
        GET /compaction_manager/compactions or compaction_info; \
        GET /compaction_manager/compaction_history; \
        GET /compaction_manager/metrics/pending_tasks and pending_tasks_by_table; \
        POST /compaction_manager/stop_compaction?type=TYPE; \
        POST /compaction_manager/stop_keyspace_compaction/KS?type=TYPE&tables=TABLE,TABLE; \
        GET and POST /storage_service/compaction_throughput \
        (value=MEBIBYTES a second, 0 for no limit); \
        GET and POST /storage_service/guardrails \
        (name=SETTING&value=VALUE, or name=NAME_threshold&fail=VALUE&warn=VALUE); \
        GET, POST and DELETE /storage_service/audit_log (POST takes audit_logging_options); \
        POST and DELETE /storage_service/auto_compaction/KS; \
        GET, POST and DELETE /column_family/autocompaction/KS:TABLE. \
        Files: GET or POST /storage_service/keyspace_upgrade_sstables/KS \
        (exclude_current_version=true for files of other versions only); \
        GET or POST /storage_service/keyspace_scrub/KS (scrub_mode=ABORT, SKIP or VALIDATE); \
        POST /storage_service/keyspace_cleanup/KS (a single node has nothing to clean up); \
        POST /storage_service/sstables/KS?cf=TABLE&path=DIRECTORY (imports SSTables); \
        GET and DELETE /storage_service/orphans (DELETE needs path=DIRECTORY). \
        Snapshots: GET, POST and DELETE /storage_service/snapshots (tag=TAG&kn=KS); \
        POST /storage_service/restore?keyspace=KS&table=TABLE&snapshot=TAG. \
        Caches: POST /lsa/compact (drops cached rows); \
        POST /system/drop_sstable_caches (drops cached rows and pages); \
        GET /cache_service/row_cache/explain/KS?cf=TABLE&key=KEY; \
        GET /cache_service/metrics/row/METRIC. \
        Tracing: GET and POST /storage_service/trace_probability (probability=NUMBER from 0 to 1). \
        Tables: GET /storage_service/keyspaces; GET /column_family/name; \
        GET /column_family/name/keyspace; GET /column_family/statistics; \
        GET /column_family/metrics/METRIC/KS:TABLE. \
        Node: GET /storage_service/ followed by load, load_map, host_id, hostid/local, tokens, \
        tokens_endpoint, ownership, ownership/KS, generation_number, nodes/joining, nodes/leaving, \
        nodes/moving, native_transport, rpc_server, is_starting, operation_mode, release_version \
        or schema_version, view_build_statuses/KS/VIEW; GET /gossiper/endpoint/live and down; GET /snitch/datacenter and rack; \
        GET /system/uptime_ms; POST /storage_service/reload_ssl_certificates.";
    HttpResponse::error(404, MESSAGE)
}

fn tables(server: &ShardServer) -> HttpResponse {
    let schema = server.processor.database().store().schema();
    let stored = schema.tables().filter(|table| !is_virtual(&table.keyspace));
    let names = stored.map(|table| format!("{}:{}", table.keyspace, table.name));
    HttpResponse::json(&names.collect::<Vec<_>>())
}

/// Flushes some tables of a keyspace, or all if `names` is empty.
async fn flush(server: &ShardServer, keyspace: &str, names: &[&str]) -> Answer {
    let database = server.processor.database();
    let schema = database.store().schema();
    let metadata = known_keyspace(&schema, keyspace)?;
    if let Some(unknown) = names.iter().find(|name| !metadata.tables.contains_key(**name)) {
        return Err(format!("Column family '{keyspace}:{unknown}' not found").into());
    }
    // The schema is flushed too, because copied SSTables are of no use without the definition of
    // their table. Cassandra flushes it after each change of the schema.
    let schema_keyspace = ("system_schema", None);
    let wanted: Vec<_> = if names.is_empty() {
        vec![schema_keyspace, (keyspace, None)]
    } else {
        let named = names.iter().map(|name| (keyspace, Some(*name)));
        std::iter::once(schema_keyspace).chain(named).collect()
    };
    flush_each(database, wanted).await
}

/// Flushes whole keyspaces, or tables of them. After a failure the others are flushed all the same,
/// unless the node shuts down.
async fn flush_each(database: &Node, wanted: Vec<(&str, Option<&str>)>) -> Answer {
    let mut failure = FirstFailure::none();
    for (keyspace, table) in wanted {
        failure.keep(database.flush(keyspace, table).await)?;
    }
    outcome(failure.into_result())
}

/// Imports SSTables under ScyllaDB's path. The parameter `path` is our own; Cassandra's `nodetool
/// import` has such a directory too.
async fn import(
    server: &ShardServer,
    keyspace: &str,
    table: Option<&str>,
    path: Option<&str>,
) -> Answer {
    let table = table
        .filter(|table| !table.is_empty())
        .ok_or("This needs the name of a table: ?cf=TABLE")?;
    let directory = path.map(std::path::PathBuf::from);
    if directory.as_ref().is_some_and(|directory| !directory.is_absolute()) {
        return Err("The path must be absolute: the node has its own working directory".into());
    }
    let imported = server.processor.database().import(keyspace, table, directory).await;
    // The imported rows may be roles or permissions, so log-ins read theirs again.
    server.processor.auth().roles_changed();
    Ok(super::snapshots::imported(imported?))
}

async fn flush_all(server: &ShardServer) -> Answer {
    let database = server.processor.database();
    let schema = database.store().schema();
    let stored = schema.keyspaces.keys().filter(|name| !is_virtual(name));
    flush_each(database, stored.map(|name| (name.as_str(), None)).collect()).await
}
