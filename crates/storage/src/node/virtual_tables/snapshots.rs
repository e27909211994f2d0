//! `system_views.snapshots`: the snapshots on disk.

use super::{VirtualRows, text};
use crate::{StorageError, node::Node};

impl Node {
    pub(super) async fn put_snapshots(
        &self,
        rows: &mut VirtualRows<'_>,
    ) -> Result<(), StorageError> {
        for snapshot in self.snapshots().await? {
            let clustering = [text(&snapshot.keyspace), text(&snapshot.table)];
            // Snapshots have no expiry, and none is ephemeral.
            rows.put(&[&snapshot.tag], clustering, |row| {
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
