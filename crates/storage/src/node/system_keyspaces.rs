//! Writes the system keyspaces into the schema tables, where drivers look for tables. The node
//! itself has their definitions compiled in.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::Schema;
use espalier_runtime::time;
use futures_util::future::LocalBoxFuture;
use uuid::Uuid;

use super::{Node, open::schema_contents, schema_change::next_schema_timestamp_us};
use crate::{StorageError, recovery::described_system_keyspaces, system};

impl Node {
    /// Writes the system keyspaces into the schema tables, unless they are already there unchanged.
    /// Call it once, after the start and before clients connect.
    ///
    /// # Errors
    ///
    /// Fails if the schema tables cannot be read or written.
    pub fn describe_system_keyspaces(&self) -> LocalBoxFuture<'_, Result<(), StorageError>> {
        Box::pin(
            async move { self.on_shard(0, |node| async move { describe_here(&node).await }).await },
        )
    }
}

async fn describe_here(node: &Node) -> Result<(), StorageError> {
    let schema = node.store().schema();
    let before = described_system_keyspaces(schema_contents(node, &schema).await?);
    // Virtual keyspaces are described in tables of their own, which drivers read too.
    let keyspaces = system::keyspaces().into_iter();
    let keyspaces = keyspaces.filter(|keyspace| !system::is_virtual(&keyspace.name));
    let keyspaces: BTreeMap<_, _> =
        keyspaces.map(|keyspace| (keyspace.name.clone(), Arc::new(keyspace))).collect();
    let now = Schema::new(keyspaces, Uuid::nil());
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let timestamp_us = next_schema_timestamp_us(node);
    let mutation = system::schema_mutation(&before, &now, timestamp_us, now_s);
    if mutation.updates.is_empty() {
        return Ok(());
    }
    node.store().apply(&mutation).await
}
