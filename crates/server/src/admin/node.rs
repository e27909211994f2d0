//! Describes the node under the paths that ScyllaDB has for a ring of nodes. This node reports
//! itself as the whole ring.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::schema::{KeyspaceMetadata, Schema};
use espalier_runtime::submit_to_all;
use espalier_storage::{
    Node, RowCacheMetrics,
    system::{DATA_CENTER, RACK, TOKEN, is_virtual},
};

use serde::Serialize;
use serde_json::Value;

use super::http::{Answer, HttpResponse};
use super::json::{Pair, number};
use crate::shard::ShardServer;

const NO_NODES: [&str; 0] = [];

/// Answers with the names of the stored keyspaces.
pub(super) fn keyspaces(server: &ShardServer) -> HttpResponse {
    let schema = server.processor.database().store().schema();
    let names: Vec<_> = schema.keyspaces.keys().filter(|name| !is_virtual(name)).collect();
    HttpResponse::json(&names)
}

/// Returns a keyspace, or the error that the schema does not have it.
pub(super) fn known_keyspace<'s>(
    schema: &'s Schema,
    name: &str,
) -> Result<&'s Arc<KeyspaceMetadata>, String> {
    schema.keyspace(name).ok_or_else(|| format!("Keyspace {name} does not exist"))
}

/// Answers with the state of a view's build: UNKNOWN, STARTED, CHECKING or SUCCESS.
async fn view_build_status(database: &Node, address: &str, keyspace: &str, view: &str) -> Answer {
    if database.store().schema().table(keyspace, view).is_none_or(|table| !table.is_view()) {
        return Err(format!("There is no materialized view {keyspace}.{view}").into());
    }
    match database.view_builds().status_of(keyspace, view).await {
        Ok(status) => Ok(pair(address, status.unwrap_or_else(|| "UNKNOWN".into()))),
        Err(error) => Err(HttpResponse::error(500, &error.to_string())),
    }
}

/// Answers a GET of one of these paths, or of an unknown path.
pub(super) async fn answer(server: &Rc<ShardServer>, path: &[&str]) -> Answer {
    let database = server.processor.database();
    // The address that clients read in `system.local`.
    let address = server.config.broadcast_address.to_string();
    Ok(match path {
        ["storage_service", "load"] => HttpResponse::json(&load(database).await),
        ["storage_service", "load_map"] => pair(&address, load(database).await),
        ["storage_service", "host_id"] => pair(&address, database.store().host_id().to_string()),
        ["storage_service", "hostid", "local"] => {
            HttpResponse::json(&database.store().host_id().to_string())
        }
        ["storage_service", "native_transport" | "rpc_server"] => HttpResponse::json(&true),
        ["storage_service", "is_starting"] => HttpResponse::json(&false),
        ["storage_service", "operation_mode"] => HttpResponse::json("NORMAL"),
        ["storage_service", "release_version"] => HttpResponse::json(env!("CARGO_PKG_VERSION")),
        ["storage_service", "schema_version"] => {
            HttpResponse::json(&database.store().schema().version.to_string())
        }
        ["storage_service", "keyspaces"] => keyspaces(server),
        ["storage_service", "tokens"] => HttpResponse::json(&[TOKEN]),
        ["storage_service", "tokens_endpoint"] => pair(TOKEN, &address),
        ["storage_service", "ownership"] => pair(&address, "1.0"),
        ["storage_service", "ownership", keyspace] => {
            known_keyspace(&database.store().schema(), keyspace)?;
            pair(&address, "1.0")
        }
        ["storage_service", "view_build_statuses", keyspace, view] => {
            view_build_status(database, &address, keyspace, view).await?
        }
        ["storage_service", "generation_number"] => HttpResponse::json(&server.started.second),
        ["storage_service", "nodes", "joining" | "leaving" | "moving"]
        | ["gossiper", "endpoint", "down"] => HttpResponse::json(&NO_NODES),
        ["gossiper", "endpoint", "live"] => HttpResponse::json(&[address]),
        ["snitch", "datacenter"] => HttpResponse::json(DATA_CENTER),
        ["snitch", "rack"] => HttpResponse::json(RACK),
        ["system", "uptime_ms"] => HttpResponse::json(&server.started.at.elapsed().as_millis()),
        ["cache_service", "metrics", "row", what] => match of_row_cache(what, &row_cache().await) {
            Some(number) => HttpResponse::json(&number),
            None => return super::routes::unanswered("GET", path),
        },
        path => return super::routes::unanswered("GET", path),
    })
}

/// Answers with a map of one entry.
fn pair(key: &str, value: impl Serialize) -> HttpResponse {
    HttpResponse::json(&[Pair { key, value }])
}

/// Returns the bytes of all files of all SSTables.
async fn load(database: &Node) -> u64 {
    database.table_statistics().await.iter().map(|table| table.sstable_bytes).sum()
}

/// Returns the row cache's metrics, summed over all shards.
async fn row_cache() -> RowCacheMetrics {
    let metrics = submit_to_all(|_| async {
        ShardServer::current()
            .map(|server| server.processor.database().store().row_cache().metrics())
    });
    let mut sum = RowCacheMetrics::default();
    metrics.await.into_iter().flatten().for_each(|of_shard| sum.add(&of_shard));
    sum
}

/// Returns a metric of the row cache. Entries are partitions, as in both Cassandra and
/// ScyllaDB.
fn of_row_cache(what: &str, metrics: &RowCacheMetrics) -> Option<Value> {
    let hits = metrics.reads_without_misses;
    Some(match what {
        "entries" => metrics.partitions.into(),
        "size" => metrics.used_bytes.into(),
        "capacity" => metrics.limit_bytes.into(),
        "hits" => hits.into(),
        "requests" => metrics.reads().into(),
        "hit_rate" => number(hits as f64 / metrics.reads().max(1) as f64),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hit_rate_is_that_of_all_reads() {
        let nothing = RowCacheMetrics::default();
        let some = RowCacheMetrics {
            reads_without_misses: 3,
            reads_with_misses: 1,
            partitions: 2,
            rows: 20,
            ..nothing
        };
        for (what, of_nothing, of_some) in [
            ("hits", "0", "3"),
            ("requests", "0", "4"),
            ("hit_rate", "0", "0.75"),
            ("entries", "0", "2"),
        ] {
            let shown = |metrics| of_row_cache(what, metrics).unwrap().to_string();
            assert_eq!(shown(&nothing), of_nothing, "{what}");
            assert_eq!(shown(&some), of_some, "{what}");
        }
        assert_eq!(of_row_cache("nothing", &some), None);
    }
}
