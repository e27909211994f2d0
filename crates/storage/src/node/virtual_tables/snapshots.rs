//! `system_views.snapshots`: the snapshots on disk.

use super::{VirtualRows, text};
use crate::{StorageError, node::Node};

impl VirtualRows<'_> {
    pub(super) async fn put_snapshots(&mut self, node: &Node) -> Result<(), StorageError> {
        for snapshot in node.snapshots().list().await? {
            let clustering = [text(&snapshot.keyspace), text(&snapshot.table)];
            // Snapshots have no expiry, and none is ephemeral.
            self.put(&[&snapshot.tag], clustering, |row| {
                let row = match snapshot.created_ms {
                    Some(created_ms) => row.timestamp("created_at", created_ms),
                    None => row,
                };
                row.boolean("ephemeral", false)
                    .bigint("size_on_disk", snapshot.total_bytes)
                    .bigint("true_size", snapshot.true_bytes)
            });
        }
        Ok(())
    }
}
