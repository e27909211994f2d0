//! Virtual tables with one row of statistics for each table.

use super::{VirtualRows, int, text};
use crate::{
    node::{Node, TableStatistics},
    system::RowWriter,
};

const MEBIBYTE: u64 = 1 << 20;

impl VirtualRows<'_> {
    pub(super) async fn put_statistics(&mut self, node: &Node, view: &str) {
        let bytes: fn(&TableStatistics) -> u64 = match view {
            "disk_usage" => |table| table.sstable_bytes,
            "max_partition_size" => |table| table.partition_sizes.max_bytes,
            "max_sstable_size" => |table| table.max_sstable_bytes,
            _ => return self.put_all_statistics(node).await,
        };
        for table in node.table_statistics().await {
            // Cassandra rounds up, too.
            let mebibytes = bytes(&table).div_ceil(MEBIBYTE);
            self.put(&[&table.keyspace, &table.table], [], |row| {
                row.bigint("mebibytes", mebibytes)
            });
        }
    }

    async fn put_all_statistics(&mut self, node: &Node) {
        for table in node.table_statistics().await {
            self.put(&[&table.keyspace], [text(&table.table)], |row| fill(row, &table));
        }
    }
}

fn fill<'t>(row: RowWriter<'t>, table: &TableStatistics) -> RowWriter<'t> {
    row.bigint("max_partition_bytes", table.partition_sizes.max_bytes)
        .bigint("max_sstable_bytes", table.max_sstable_bytes)
        .bigint("memtable_bytes", table.memtables.bytes)
        .bigint("memtable_partitions", table.memtables.partitions)
        .bigint("memtable_rows", table.memtables.rows)
        .bigint("partitions_estimate", table.partitions_estimate)
        .int("pending_compactions", int(table.pending_compactions))
        .int("running_compactions", int(table.running_compactions))
        .bigint("sstable_bytes", table.sstable_bytes)
        .int("sstables", int(table.sstables))
}
