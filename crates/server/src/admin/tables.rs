//! Answers requests for statistics of tables, under the names of ScyllaDB's metrics.

use std::collections::HashMap;

use espalier_storage::{Node, StorageError, TableStatistics};

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::Value;

use super::{
    http::{Answer, HttpResponse},
    json::{long_list, number},
};

/// A function that returns a metric from the numbers of a table.
type Metric = fn(&Numbers) -> Value;

/// The metrics of each table. Metrics of reads, writes and tombstones are missing, because the node
/// does not count these by table.
const METRICS: [(&str, Metric); 20] = [
    ("live_ss_table_count", |of| of.table.sstables.into()),
    ("old_ss_table_count", |of| of.table.old_sstables.into()),
    ("live_disk_space_used", |of| of.table.sstable_bytes.into()),
    // The files that a compaction has replaced are unlinked at once, so they add nothing.
    ("total_disk_space_used", |of| of.table.sstable_bytes.into()),
    ("snapshots_size", |of| of.snapshots_bytes.into()),
    ("compression_ratio", |of| number(compression_ratio(&of.table))),
    ("estimated_row_count", |of| of.table.partitions_estimate.into()),
    ("memtable_live_data_size", |of| of.table.memtables.content_bytes.into()),
    ("memtable_off_heap_size", |of| of.table.memtables.bytes.into()),
    ("memtable_partition_count", |of| of.table.memtables.partitions.into()),
    ("memtable_row_count", |of| of.table.memtables.rows.into()),
    ("pending_flushes", |of| of.table.memtables.pending_flushes.into()),
    ("pending_compactions", |of| of.table.pending_compactions.into()),
    ("running_compactions", |of| of.table.running_compactions.into()),
    ("bloom_filter_disk_space_used", |of| of.table.filters.bytes.into()),
    ("bloom_filter_off_heap_memory_used", |of| of.table.filters.memory_bytes.into()),
    ("min_row_size", |of| of.table.partition_sizes.min_bytes.into()),
    ("max_row_size", |of| of.table.partition_sizes.max_bytes.into()),
    ("mean_row_size", |of| of.table.partition_sizes.mean_bytes.into()),
    ("sstables_per_level", |of| of.table.sstables_by_level.clone().into()),
];

/// The numbers of a table.
struct Numbers {
    table: TableStatistics,
    /// Bytes in the table's snapshots that the table itself no longer has.
    snapshots_bytes: u64,
}

/// Serializes the names of the table, and all metrics.
impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("ks", &self.table.keyspace)?;
        map.serialize_entry("cf", &self.table.table)?;
        for (name, metric) in METRICS {
            map.serialize_entry(name, &metric(self))?;
        }
        map.end()
    }
}

/// Answers `GET /column_family/statistics`, a path of our own: all metrics of all tables in one
/// answer.
pub(super) async fn statistics(database: &Node) -> Answer {
    let numbers = numbers(database).await?;
    Ok(HttpResponse::written(long_list(numbers.iter()).await))
}

/// Answers `GET /column_family/metrics/METRIC/KEYSPACE:TABLE`.
pub(super) async fn metric(database: &Node, name: &str, table: &str) -> Answer {
    let Some((_, metric)) = METRICS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = METRICS.iter().map(|(known, _)| *known).collect();
        let reason =
            format!("There is no metric '{}': there are {}", name.escape_debug(), known.join(", "));
        return Err(HttpResponse::error(404, &reason));
    };
    let is_it = |of: &&Numbers| {
        let name = (of.table.keyspace.as_str(), of.table.table.as_str());
        table.split_once(':') == Some(name)
    };
    match numbers(database).await?.iter().find(is_it) {
        Some(of) => Ok(HttpResponse::json(&metric(of))),
        None => Err(format!("Column family '{table}' not found").into()),
    }
}

async fn numbers(database: &Node) -> Result<Vec<Numbers>, StorageError> {
    let mut of_snapshots = HashMap::<(String, String), u64>::new();
    for snapshot in database.snapshots().list().await? {
        *of_snapshots.entry((snapshot.keyspace, snapshot.table)).or_default() +=
            snapshot.true_bytes;
    }
    let tables = database.table_statistics().await.into_iter().map(|table| {
        let name = (table.keyspace.clone(), table.table.clone());
        let snapshots_bytes = of_snapshots.get(&name).copied().unwrap_or(0);
        Numbers { table, snapshots_bytes }
    });
    Ok(tables.collect())
}

/// Returns stored bytes divided by uncompressed bytes, of the compressed SSTables; −1 if there are
/// none, as in Cassandra.
fn compression_ratio(table: &TableStatistics) -> f64 {
    match table.uncompressed_bytes {
        0 => -1.0,
        plain => table.compressed_bytes as f64 / plain as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_an_object_of_all_metrics() {
        let table = TableStatistics {
            keyspace: "k\"s".into(),
            table: "t".into(),
            compressed_bytes: 50,
            uncompressed_bytes: 200,
            sstables_by_level: vec![1, 0, 2],
            ..TableStatistics::default()
        };
        let shown = serde_json::to_string(&Numbers { table, snapshots_bytes: 7 }).unwrap();
        assert!(shown.starts_with(r#"{"ks":"k\"s","cf":"t","live_ss_table_count":0,"#), "{shown}");
        for part in [
            r#""snapshots_size":7,"#,
            r#""compression_ratio":0.25,"#,
            r#""sstables_per_level":[1,0,2]}"#,
        ] {
            assert!(shown.contains(part), "{part} {shown}");
        }
        assert_eq!(compression_ratio(&TableStatistics::default()), -1.0);
    }
}
