//! `system_views.sstable_tasks`: the running compactions, the index builds that wait after a
//! failure, and the builds of materialized views.

use bytes::Bytes;

use super::{VirtualRows, int, text};
use crate::{
    CompactionProgress,
    node::{Node, indexes::failed_index_builds},
};

impl VirtualRows<'_> {
    pub(super) async fn put_compactions(&mut self, node: &Node) {
        for task in node.compactions().running().await {
            let id = Bytes::copy_from_slice(task.id.as_bytes());
            self.put(&[&task.keyspace], [text(&task.table), id], |row| {
                row.double("completion_ratio", completion_ratio(&task))
                    // The printed form of Cassandra's operation types.
                    .text("kind", &task.kind.name().to_lowercase().replace('_', " "))
                    .bigint("progress", task.completed_bytes)
                    .int("sstables", int(task.sstables))
                    .text("target_directory", &task.target_directory)
                    .bigint("total", task.total_bytes)
                    .bigint("total_compressed", task.total_stored_bytes)
                    .text("unit", "bytes")
            });
        }
        for failed in failed_index_builds(node).await {
            let id = Bytes::copy_from_slice(failed.id.as_bytes());
            self.put(&[&failed.keyspace], [text(&failed.table), id], |row| {
                row.double("completion_ratio", 0.0)
                    .text("kind", "index build failed, waiting")
                    .bigint("progress", 0)
                    .int("sstables", 1)
                    .text("target_directory", &failed.directory)
                    .bigint("total", failed.total_bytes)
                    .bigint("total_compressed", failed.total_stored_bytes)
                    .text("unit", "bytes")
            });
        }
        let schema = node.store().schema();
        for build in node.view_builds().running().await {
            let Some(view) = schema.table_by_id(build.view) else { continue };
            let id = Bytes::copy_from_slice(build.id.as_bytes());
            let (keys, ratio) = build.progress();
            self.put(&[&view.keyspace], [text(&view.name), id], |row| {
                row.double("completion_ratio", ratio)
                    .text("kind", "view build")
                    .bigint("progress", keys)
                    .text("unit", "rows")
            });
        }
    }
}

/// Returns the completed fraction. As in Cassandra, a compaction of zero bytes is complete.
fn completion_ratio(task: &CompactionProgress) -> f64 {
    match task.total_bytes {
        0 => 1.0,
        total => task.completed_bytes as f64 / total as f64,
    }
}
