//! Checks whether a table's disk has room for a compaction. All shards share the disk.

use espalier_compaction::Running;
use uuid::Uuid;

use super::{backlog::running, scheduler::RESERVED_BYTES};
use crate::{ShardStore, StorageError, table::Table};

/// Returns the free bytes of a table's disk, less `RESERVED_BYTES` and less the bytes that running
/// compactions will still write there. With `before`, only the compactions that began before the
/// compaction with this id count.
pub(crate) async fn bytes_for_compactions(
    store: &ShardStore,
    table: &Table,
    before: Option<Uuid>,
) -> u64 {
    let device = device_of(store, table).await;
    let directory = match store.file_system.exists(&table.home.directory).await {
        Ok(true) => &table.home.directory,
        _ => &store.configuration.data_directory,
    };
    let available = store.file_system.available_bytes(directory).await;
    let available = available.unwrap_or_else(|error| {
        tracing::warn!(
            %error,
            "free disk space is unknown: compactions of the table cannot start"
        );
        0
    });
    let reserved = match store.peers() {
        Some(peers) => peers.reserved_bytes(device, before).await,
        None => reserved_bytes(store, device, before).await,
    };
    available.saturating_sub(reserved).saturating_sub(RESERVED_BYTES)
}

/// Returns the bytes that the running compactions of this shard will still write to a disk. With
/// `before`, only the compactions that began before the compaction with this id count.
pub(crate) async fn reserved_bytes(store: &ShardStore, device: u64, before: Option<Uuid>) -> u64 {
    let mut bytes = 0;
    for (table, running) in running(store) {
        if device_of(store, &table).await == device {
            bytes += match before {
                Some(id) => running.bytes_to_come_before(id),
                None => running.bytes_to_come(),
            };
        }
    }
    bytes
}

/// Returns the device that a table's directory is on.
pub(crate) async fn device_of(store: &ShardStore, table: &Table) -> u64 {
    table.home.device(&store.file_system, &store.configuration.data_directory).await
}

/// Checks that the table's disk has room for a compaction that has claimed its inputs, in addition
/// to the compactions that began before it. If so, marks the compaction with
/// [`Running::set_has_room`].
pub(crate) async fn check_room(
    store: &ShardStore,
    table: &Table,
    running: &Running,
) -> Result<(), StorageError> {
    let available = bytes_for_compactions(store, table, Some(running.id)).await;
    let needed_bytes = running.bytes_to_come();
    if needed_bytes > available {
        return Err(StorageError::NoDiskSpace { needed_bytes });
    }
    running.set_has_room();
    Ok(())
}
