//! `nodetool info`: shows one node.

use std::fmt::Write as _;

use serde_json::Value;

use super::show::{all, number, size};
use crate::admin_client::{NodeAddress, NodeError, Request, ask};

/// The values that `nodetool info` shows. Cassandra's values for the heap, gossip, the caches other
/// than the row cache, exceptions and repaired data are left out, because the admin API does not
/// have them.
struct Info {
    host_id: String,
    is_native_transport_active: bool,
    load_bytes: u64,
    generation: u64,
    uptime_ms: u64,
    off_heap_bytes: u64,
    data_center: String,
    rack: String,
    row_cache: RowCache,
    tokens: Vec<String>,
}

/// The numbers of the row cache.
#[derive(Default)]
struct RowCache {
    entries: u64,
    size_bytes: u64,
    capacity_bytes: u64,
    hits: u64,
    requests: u64,
}

/// Returns the text that `nodetool info` prints.
///
/// # Errors
/// Fails if a request fails.
pub async fn info(node: &NodeAddress) -> Result<String, NodeError> {
    let of_row_cache =
        async |name: &str| ask(node, &Request::get("/cache_service/metrics/row").below(name)).await;
    let tables: Value = ask(node, &Request::get("/column_family/statistics")).await?;
    let native_transport = ask(node, &Request::get("/storage_service/native_transport")).await?;
    let info = Info {
        host_id: ask(node, &Request::get("/storage_service/hostid/local")).await?,
        is_native_transport_active: native_transport,
        load_bytes: ask(node, &Request::get("/storage_service/load")).await?,
        generation: ask(node, &Request::get("/storage_service/generation_number")).await?,
        uptime_ms: ask(node, &Request::get("/system/uptime_ms")).await?,
        off_heap_bytes: off_heap_bytes(&tables),
        data_center: ask(node, &Request::get("/snitch/datacenter")).await?,
        rack: ask(node, &Request::get("/snitch/rack")).await?,
        row_cache: RowCache {
            entries: of_row_cache("entries").await?,
            size_bytes: of_row_cache("size").await?,
            capacity_bytes: of_row_cache("capacity").await?,
            hits: of_row_cache("hits").await?,
            requests: of_row_cache("requests").await?,
        },
        tokens: ask(node, &Request::get("/storage_service/tokens")).await?,
    };
    Ok(info.show())
}

/// Sums the memory of memtables and filters, as Cassandra does.
fn off_heap_bytes(tables: &Value) -> u64 {
    let of = |table: &Value| {
        number(table, "memtable_off_heap_size") + number(table, "bloom_filter_off_heap_memory_used")
    };
    all(tables).map(of).sum()
}

impl Info {
    fn show(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(out, "{name:<23}: {value}");
        };
        line("ID", self.host_id.clone());
        line("Native Transport active", self.is_native_transport_active.to_string());
        line("Load", size(self.load_bytes));
        line("Generation No", self.generation.to_string());
        line("Uptime (seconds)", (self.uptime_ms / 1000).to_string());
        let off_heap = self.off_heap_bytes as f64 / f64::from(1 << 20);
        line("Off Heap Memory (MB)", format!("{off_heap:.2}"));
        line("Data Center", self.data_center.clone());
        line("Rack", self.rack.clone());
        line("Row Cache", self.row_cache.show());
        for token in &self.tokens {
            line("Token", token.clone());
        }
        out.trim_end().to_owned()
    }
}

impl RowCache {
    /// Formats the row cache. Its save period is 0, because it is never saved. Without a request,
    /// the hit rate is NaN, as in Cassandra.
    fn show(&self) -> String {
        let Self { entries, size_bytes, capacity_bytes, hits, requests } = self;
        let rate = *hits as f64 / *requests as f64;
        format!(
            "entries {entries}, size {}, capacity {}, {hits} hits, {requests} requests, {rate:.3} recent hit rate, \
             0 save period in seconds",
            size(*size_bytes),
            size(*capacity_bytes),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_shown_in_lines_of_names_and_values() {
        let info = Info {
            host_id: "c00ffee0-0000-4000-8000-000000000000".into(),
            is_native_transport_active: true,
            load_bytes: 100,
            generation: 1_700_000_000,
            uptime_ms: 61_999,
            off_heap_bytes: 3 << 19,
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            row_cache: RowCache {
                entries: 2,
                size_bytes: 1024,
                capacity_bytes: 10 << 20,
                hits: 3,
                requests: 4,
            },
            tokens: vec!["-9223372036854775808".into()],
        };
        let expected = "\
ID                     : c00ffee0-0000-4000-8000-000000000000
Native Transport active: true
Load                   : 100 bytes
Generation No          : 1700000000
Uptime (seconds)       : 61
Off Heap Memory (MB)   : 1.50
Data Center            : datacenter1
Rack                   : rack1
Row Cache              : entries 2, size 1.00 KiB, capacity 10.00 MiB, 3 hits, 4 requests, 0.750 recent hit rate, 0 save period in seconds
Token                  : -9223372036854775808";
        assert_eq!(info.show(), expected);
        assert!(RowCache::default().show().contains("0 requests, NaN recent hit rate"));
    }

    #[test]
    fn memory_is_that_of_memtables_and_filters() {
        let tables = json!([
            {"memtable_off_heap_size": 1000, "bloom_filter_off_heap_memory_used": 200},
            {"memtable_off_heap_size": 30, "bloom_filter_off_heap_memory_used": 4},
        ]);
        assert_eq!(off_heap_bytes(&tables), 1234);
    }
}
