//! Schema changes, one at a time, led by shard 0.
//!
//! The change is written to the schema tables and synced. Then all shards install the new snapshot.
//! Then new tables get their directories, and the files of dropped tables are removed. A crash
//! before the sync leaves the old schema, a crash after it the new one.

use std::sync::Arc;

use espalier_mutation::{
    Mutation,
    schema::{Schema, TableId, TableMetadata},
};
use espalier_runtime::time;
use futures_util::stream::{self, StreamExt};

use super::{
    Node,
    drop_table::{drop_table, prepare_new_table},
    indexes::forget_dropped_indexes,
};
use crate::{StorageError, system};

/// Maximum number of tables whose files a DROP KEYSPACE removes at once. The removal of a small
/// table mostly waits for syncs of directories; the disk makes several in about the time of one.
const DROPS_AT_ONCE: usize = 32;

impl Node {
    /// Changes the schema. `change` gets the current schema and returns the new one, `None` for no
    /// change, or its own error. Other changes wait meanwhile. Returns whether the schema changed,
    /// once all shards have the new one.
    ///
    /// # Errors
    ///
    /// The outer error: the change could not be written or installed. The inner error is that of
    /// `change`.
    pub async fn change_schema<E: Send>(
        &self,
        change: impl FnOnce(&Schema) -> Result<Option<Schema>, E> + Send,
    ) -> Result<Result<bool, E>, StorageError> {
        // The lock is taken on shard 0. The change is computed here, because it may borrow from its
        // caller.
        let lock = SchemaLock::acquire(self).await;
        let old = self.store().shared.schema();
        let outcome = match change(&old) {
            Err(error) => Ok(Err(error)),
            Ok(None) => Ok(Ok(false)),
            Ok(Some(new)) => {
                let new = Arc::new(new);
                let lead =
                    self.on_shard(0, |node| async move { lead_change(&node, old, new).await });
                lead.await.map(|()| Ok(true))
            }
        };
        lock.release().await;
        outcome
    }
}

/// Returns a timestamp greater than those of all earlier changes, even if the clock was set
/// back: later changes must win.
pub(super) fn next_schema_timestamp_us(node: &Node) -> i64 {
    let tables = node.store().tables.all();
    let newest = tables.iter().filter(|table| table.is_schema());
    let newest = newest.filter_map(|table| table.maximum_timestamp()).max();
    let now = time::next_timestamp_micros();
    newest.map_or(now, |newest| now.max(newest.saturating_add(1)))
}

async fn lead_change(node: &Node, old: Arc<Schema>, new: Arc<Schema>) -> Result<(), StorageError> {
    if node.store().is_closing() {
        return Err(StorageError::ShuttingDown);
    }
    let timestamp_us = next_schema_timestamp_us(node);
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    for table in new.tables().filter(|table| old.table_by_id(table.id).is_none()) {
        prepare_new_table(node, table).await?;
    }
    node.view_builds().forget_before_views(&old, &new).await?;
    let mutation = system::schema_mutation(&old, &new, timestamp_us, now_s);
    if !mutation.updates.is_empty()
        && let Err(error) = node.store().apply(&mutation).await
    {
        // The memtables may have the change even so, and a flush would make it durable.
        let undo = system::schema_mutation(&new, &old, timestamp_us.saturating_add(1), now_s);
        if let Err(error) = node.store().apply(&undo).await {
            tracing::error!(
                %error,
                "failed schema change may take effect at the next start: it could not be undone"
            );
        }
        return Err(error);
    }
    install_change(node, &old, new, timestamp_us).await
}

/// Installs a schema that the schema tables already hold.
pub(super) async fn install_change(
    node: &Node,
    old: &Schema,
    new: Arc<Schema>,
    timestamp_us: i64,
) -> Result<(), StorageError> {
    node.store().shared.set_schema(new.clone());
    let dropped: Vec<TableId> =
        old.tables().map(|table| table.id).filter(|id| new.table_by_id(*id).is_none()).collect();
    let installed = new.clone();
    let outcomes = node.on_all_shards(move |node| async move {
        node.install_schema(&installed, &Arc::default()).await
    });
    outcomes.await.into_iter().collect::<Result<Vec<()>, _>>()?;
    flush_newly_logged_views(node, old, &new).await;
    for table in new.tables().filter(|table| old.table_by_id(table.id).is_none()) {
        show_directory_of(node, table).await;
    }
    let drops = dropped.into_iter().map(|id| drop_table(node, old, id));
    stream::iter(drops).buffer_unordered(DROPS_AT_ONCE).collect::<()>().await;
    forget_dropped_indexes(node, old, &new).await;
    node.view_builds().forget_dropped_views(old, &new).await;
    node.view_builds().build_views();
    // Drivers wait until all nodes show the same version.
    let version = system::schema_version_update(new.version, timestamp_us);
    if let Err(error) = node.apply(Mutation { updates: vec![version] }).await {
        tracing::warn!(
            %error,
            "system.local does not show the new schema version: drivers may wait for it"
        );
    }
    Ok(())
}

/// Flushes the views of keyspaces that begin to use the commit log, and their base tables.
/// Otherwise a crash could lose unlogged writes of a view and keep those of its base table,
/// and the next start checks only the views of keyspaces without the log. A crash before the
/// end of the flush can still lose them.
async fn flush_newly_logged_views(node: &Node, old: &Schema, new: &Schema) {
    let is_newly_logged = |keyspace: &str| {
        let is_logged =
            |schema: &Schema| schema.keyspace(keyspace).is_none_or(|it| it.durable_writes);
        is_logged(new) && !is_logged(old)
    };
    let tables = new.tables().filter(|table| table.is_view() || table.has_views());
    let flushed = tables.filter(|table| is_newly_logged(&table.keyspace));
    let ids: Vec<TableId> = flushed.map(|table| table.id).collect();
    if !ids.is_empty()
        && let Err(error) = node.flush_tables(ids).await
    {
        tracing::warn!(
            %error,
            "a materialized view may lack rows after a crash: it could not be flushed when \
             its keyspace got durable_writes; flush the keyspace"
        );
    }
}

/// Creates the directory of a new table, as Cassandra does, so that operators see where files
/// for `upload` go. A failure is only logged: the directory is not needed before the first
/// flush, which creates it if necessary and makes its name durable.
async fn show_directory_of(node: &Node, metadata: &TableMetadata) {
    let directory = node.store().configuration.directory_of(metadata);
    if let Err(error) = node.store().file_system.create_dir_all(&directory).await {
        tracing::warn!(
            %error,
            table = metadata.name,
            "directory of a new table could not be created: its first flush retries"
        );
    }
}

/// The right to change the schema. The right is released even if the caller is dropped in the
/// middle of a change.
pub(super) struct SchemaLock(Option<Node>);

impl SchemaLock {
    pub(super) async fn acquire(node: &Node) -> Self {
        node.on_shard(0, |node| async move {
            node.inner.schema_lock.acquire(1).await.forget();
        })
        .await;
        Self(Some(node.clone()))
    }

    pub(super) async fn release(mut self) {
        if let Some(node) = self.0.take() {
            release(&node).await;
        }
    }
}

fn release(node: &Node) -> impl Future<Output = ()> + use<> {
    node.on_shard(0, |node| async move { node.inner.schema_lock.release(1) })
}

impl Drop for SchemaLock {
    fn drop(&mut self) {
        if let Some(node) = self.0.take() {
            espalier_runtime::spawn_local(release(&node)).detach();
        }
    }
}
