//! A mark in the data directory: views may differ from their base tables after an unclean end.
//!
//! One record of the commit log holds a row and its view row. If the log could not be written or
//! synced, only flushes save such a record, and they write the two tables one after the other. Each
//! flush makes the mark durable before it seals its SSTable. If the node ends before the last of
//! these flushes, the next start builds the views again. This mark stays until the next start.
//!
//! With periodic sync, a start makes the mark durable before the node takes writes, for two
//! reasons. The logs of several shards are synced at different times. A log may also lose the
//! record that an import, a restore or a truncation has made a view stale. The next start with
//! another `commitlog_sync` removes the mark.

use std::path::Path;

use espalier_runtime::file::FileSystem;

use crate::StorageError;

const FILE_NAME: &str = "unsynced_views";

/// Makes the mark durable.
pub(crate) async fn mark_unsynced_views(
    file_system: &FileSystem,
    data_directory: &Path,
) -> Result<(), StorageError> {
    // The file is empty, so it needs no atomic write. Several flushes may create it at once.
    file_system.create(data_directory.join(FILE_NAME)).await?.sync_all().await?;
    Ok(file_system.sync_dir(data_directory).await?)
}

/// Returns whether the mark is there.
pub(crate) async fn are_views_unsynced(
    file_system: &FileSystem,
    data_directory: &Path,
) -> Result<bool, StorageError> {
    Ok(file_system.exists(data_directory.join(FILE_NAME)).await?)
}

/// Removes the mark.
pub(crate) async fn unmark_unsynced_views(
    file_system: &FileSystem,
    data_directory: &Path,
) -> Result<(), StorageError> {
    file_system.remove_file(data_directory.join(FILE_NAME)).await?;
    Ok(file_system.sync_dir(data_directory).await?)
}
