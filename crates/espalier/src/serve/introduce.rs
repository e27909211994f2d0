//! Writes `system.local`, the node's description of itself, which drivers read first.
//!
//! The node writes it only if the content changes, so that restarts do not pile up SSTables.

use std::sync::Arc;

use espalier_mutation::{DecoratedKey, Mutation};
use espalier_runtime::time;
use espalier_storage::system::{LocalNode, is_described_by, local_update};
use espalier_storage::{Database, ReadCommand, ReadTarget, StorageError};

use super::lead::Leadership;

/// Brings `system.local` and the schema tables of the system keyspaces up to date.
///
/// # Errors
/// Fails if storage cannot read or write the system tables.
pub async fn introduce(database: &Database, leadership: &Leadership) -> Result<(), StorageError> {
    database.describe_system_keyspaces().await?;
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let local = LocalNode {
        host_id: database.host_id(),
        cluster_name: leadership.cluster_name.clone(),
        rpc_address: leadership.broadcast_address,
        rpc_port: leadership.addresses.cql.port(),
        schema_version: database.schema().version,
        generation_s: now_s,
    };
    let update = local_update(&local, time::next_timestamp_micros(), now_s);
    if is_known(database, &local, &update.key, now_s).await? {
        return Ok(());
    }
    database.apply(Mutation { updates: vec![update] }).await
}

async fn is_known(
    database: &Database,
    local: &LocalNode,
    key: &DecoratedKey,
    now_s: u32,
) -> Result<bool, StorageError> {
    let schema = database.schema();
    let Some(table) = schema.table("system", "local") else { return Ok(false) };
    let target = ReadTarget::Partition(key.clone());
    let command = ReadCommand::of_all(Arc::clone(table), target, now_s);
    let read = database.read(command).await?;
    let mut rows = read.partitions.iter().flat_map(|partition| &partition.rows);
    Ok(rows.any(|row| is_described_by(local, row)))
}
