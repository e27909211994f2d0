//! `system.size_estimates` and `system.table_estimates`: partitions and their mean size for each
//! token range, by which Spark, Trino and Presto split tables. The node reports one range, the
//! whole ring, even if it is a member of a ring.
//!
//! Unlike in Cassandra, each read computes the numbers anew and counts memtables too. A partition
//! in several SSTables or memtables counts several times, as in Cassandra.

use super::{VirtualRows, text};
use crate::{
    node::{Node, TableStatistics},
    system::{SCHEMA_KEYSPACE, SYSTEM_KEYSPACE, TOKEN},
};

/// Cassandra's kinds of ranges: those of the node in its data centre, and those of the node in the
/// cluster.
const RANGE_TYPES: [&str; 2] = ["local_primary", "primary"];

impl VirtualRows<'_> {
    pub(super) async fn put_estimates(&mut self, node: &Node, name: &str) {
        for table in node.table_statistics().await {
            // Cassandra leaves out keyspaces that are not replicated.
            if [SCHEMA_KEYSPACE, SYSTEM_KEYSPACE].contains(&table.keyspace.as_str()) {
                continue;
            }
            let kinds = if name == "size_estimates" { &[""][..] } else { &RANGE_TYPES[..] };
            for kind in kinds {
                let range_type = (!kind.is_empty()).then(|| text(kind));
                let clustering = [text(&table.table)].into_iter().chain(range_type);
                self.put(&[&table.keyspace], clustering.chain([text(TOKEN), text(TOKEN)]), |row| {
                    row.bigint("mean_partition_size", mean_partition_size(&table))
                        .bigint("partitions_count", table.partitions_estimate)
                });
            }
        }
    }
}

/// Returns the mean partition size over SSTables and memtables, in bytes before compression.
fn mean_partition_size(table: &TableStatistics) -> u64 {
    let in_sstables = table.partitions_estimate.saturating_sub(table.memtables.partitions);
    let sstable_bytes = u128::from(table.partition_sizes.mean_bytes) * u128::from(in_sstables);
    let bytes = sstable_bytes + u128::from(table.memtables.content_bytes);
    let mean = bytes.checked_div(u128::from(table.partitions_estimate)).unwrap_or(0);
    u64::try_from(mean).unwrap_or(u64::MAX)
}
