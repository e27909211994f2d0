//! Reads and writes the records of builds of views. Cassandra keeps them in the same tables:
//! `system.built_views`, `system.view_builds_in_progress` and
//! `system_distributed.view_build_status`.
//!
//! A view whose status is [`CHECKING`] may lack rows, or have rows that do not follow from its base
//! table, because files were imported or restored, a truncation stopped half-way, or the power
//! failed.
//!
//! The tables identify a view by its name. The records of a dropped view must not count for a later
//! view of the same name, so CREATE removes them before the new view exists. A loss of power may
//! bring removed records back (`commitlog_sync: periodic`), so the node ignores records that are
//! older than the view's id. Only shard 0 writes records.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    Clustering, DecoratedKey, DeletionTime, Mutation, PartitionUpdate, Row, build_composite,
    schema::{Schema, TableId, TableMetadata},
};
use espalier_runtime::time;

use super::super::logged_batch::micros_of;
use crate::{
    ReadCommand, ReadTarget, StorageError,
    node::{ViewBuilds, record_times::next_record_timestamp_us},
    system::{Fields, RowWriter, deletion_below, table, text_key},
};

pub(super) const STARTED: &str = "STARTED";

pub(super) const CHECKING: &str = "CHECKING";

pub(super) const SUCCESS: &str = "SUCCESS";

/// The progress of a shard's part of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BuildProgress {
    /// The first and the last token of the part.
    pub(super) tokens: (i64, i64),
    /// The last token whose partitions are done.
    pub(super) last: i64,
    /// The number of base rows that the build has read.
    pub(super) keys: u64,
}

impl ViewBuilds<'_> {
    /// Returns a timestamp for records of a view: later than all earlier records, and not older
    /// than the view, because older records do not count. Runs on shard 0.
    fn next_record_timestamp_us(self, view: &TableMetadata) -> i64 {
        next_record_timestamp_us(self.node, micros_of(&view.id.0).unwrap_or(i64::MIN))
    }

    /// Returns whether `system.built_views` lists a view.
    pub(super) async fn is_recorded_view(self, view: &TableMetadata) -> Result<bool, StorageError> {
        let rows = self.rows_of("system", "built_views", text_key(&view.keyspace)).await?;
        let definition = table("system", "built_views");
        Ok(rows.iter().any(|row| {
            let is_named = Fields::new(&definition, row).clustering(0) == Some(&view.name);
            is_named && !is_older(row, view.id)
        }))
    }

    /// Returns the status of a view's build on this node; `None` if it has not begun, or if there
    /// is no such view.
    pub async fn status_of(
        self,
        keyspace: &str,
        view: &str,
    ) -> Result<Option<String>, StorageError> {
        let schema = self.node.store().schema();
        let Some(view) = schema.table(keyspace, view) else { return Ok(None) };
        let key = status_key(&view.keyspace, &view.name);
        let rows = self.rows_of("system_distributed", "view_build_status", key).await?;
        let definition = table("system_distributed", "view_build_status");
        let status = |row: &Row| Fields::new(&definition, row).text("status").map(str::to_owned);
        Ok(rows.iter().filter(|row| !is_older(row, view.id)).find_map(status))
    }

    /// Returns the recorded token up to which a shard's part of a build is done.
    pub(super) async fn recorded_progress(
        self,
        view: &TableMetadata,
        tokens: (i64, i64),
    ) -> Result<Option<BuildProgress>, StorageError> {
        let key = text_key(&view.keyspace);
        let rows = self.rows_of("system", "view_builds_in_progress", key).await?;
        let definition = table("system", "view_builds_in_progress");
        let (first, last) = (tokens.0.to_string(), tokens.1.to_string());
        Ok(rows.iter().find_map(|row| {
            let fields = Fields::new(&definition, row);
            let is_part = !is_older(row, view.id)
                && fields.clustering(0) == Some(&view.name)
                && fields.clustering(1) == Some(&first)
                && fields.clustering(2) == Some(&last);
            let done = fields.text("last_token")?.parse().ok()?;
            let keys = fields.bigint("keys_built").and_then(|keys| u64::try_from(keys).ok());
            is_part.then_some(BuildProgress { tokens, last: done, keys: keys.unwrap_or(0) })
        }))
    }

    /// Records the progress of a shard's part of a build. The caller is on shard 0 and has just
    /// checked that the build is current.
    pub(super) async fn record_progress(
        self,
        view: &TableMetadata,
        progress: BuildProgress,
    ) -> Result<(), StorageError> {
        let definition = table("system", "view_builds_in_progress");
        let (first, last) = (progress.tokens.0.to_string(), progress.tokens.1.to_string());
        let now = self.next_record_timestamp_us(view);
        let update = RowWriter::new(&definition, &[&view.name, &first, &last], now)
            .bigint("keys_built", progress.keys)
            .text("last_token", &progress.last.to_string())
            .update(text_key(&view.keyspace));
        self.node.apply(Mutation { updates: vec![update] }).await
    }

    /// Records the state of a view's build, unless the view was dropped. Runs on shard 0.
    pub(super) async fn record_status(
        self,
        view: &TableMetadata,
        status: &str,
    ) -> Result<(), StorageError> {
        if self.node.store().shared.schema().table_by_id(view.id).is_none() {
            return Ok(());
        }
        let now = self.next_record_timestamp_us(view);
        let definition = table("system_distributed", "view_build_status");
        let host =
            Clustering::new([Bytes::copy_from_slice(self.node.store().host_id().as_bytes())]);
        let key = status_key(&view.keyspace, &view.name);
        let of_status = RowWriter::at(&definition, host, now).text("status", status).update(key);
        let mut updates = vec![of_status, built(view, status == SUCCESS, now)];
        if status != STARTED {
            updates.push(without_progress(view, now));
        }
        self.node.batches().apply(Mutation { updates }).await
    }

    /// Removes the records of the builds of dropped views. Runs on shard 0.
    pub(in super::super) async fn forget_dropped_views(self, old: &Schema, new: &Schema) {
        for view in views_without(old, new) {
            // A view that is created again with the schema of a snapshot has the id of the dropped
            // view, and must be built.
            self.mark_stale(view.id);
            if let Err(error) = self.forget_builds(view).await {
                tracing::warn!(
                    %error,
                    keyspace = view.keyspace,
                    view = view.name,
                    "system.built_views may still list a dropped materialized view; a new view of \
                     this name removes the record"
                );
            }
        }
    }

    /// Removes the records that earlier views of the same names may have left, before the new views
    /// exist. Runs on shard 0.
    pub(in super::super) async fn forget_before_views(
        self,
        old: &Schema,
        new: &Schema,
    ) -> Result<(), StorageError> {
        for view in views_without(new, old) {
            self.forget_builds(view).await?;
        }
        Ok(())
    }

    async fn forget_builds(self, view: &TableMetadata) -> Result<(), StorageError> {
        let now = self.next_record_timestamp_us(view);
        let deletion = DeletionTime::new(now, now_s());
        let status = table("system_distributed", "view_build_status").id;
        let key = status_key(&view.keyspace, &view.name);
        let status = PartitionUpdate { deletion, ..PartitionUpdate::new(status, key) };
        let updates = vec![status, built(view, false, now), without_progress(view, now)];
        self.node.batches().apply(Mutation { updates }).await
    }

    async fn rows_of(
        self,
        keyspace: &str,
        name: &str,
        key: DecoratedKey,
    ) -> Result<Vec<Row>, StorageError> {
        let target = ReadTarget::Partition(key);
        let command = ReadCommand::of_all(table(keyspace, name), target, now_s());
        let found = self.node.read(command).await?;
        Ok(found.partitions.into_iter().flat_map(|partition| partition.rows).collect())
    }
}

/// Returns the views of a schema that the other schema lacks.
fn views_without<'s>(
    schema: &'s Schema,
    other: &'s Schema,
) -> impl Iterator<Item = &'s Arc<TableMetadata>> {
    let views = schema.tables().filter(|table| table.is_view());
    views.filter(move |view| other.table_by_id(view.id).is_none())
}

/// Returns whether a record is older than a view. The view's id has the time of its creation.
fn is_older(row: &Row, view: TableId) -> bool {
    micros_of(&view.0).is_some_and(|created_us| row.liveness.timestamp < created_us)
}

/// Returns the write that adds a view to `system.built_views`, or removes it.
fn built(view: &TableMetadata, is_built: bool, now: i64) -> PartitionUpdate {
    let definition = table("system", "built_views");
    let row = RowWriter::new(&definition, &[&view.name], now);
    let row = if is_built { row.boolean("status_replicated", true) } else { row.deleting(now_s()) };
    row.update(text_key(&view.keyspace))
}

/// Returns the write that removes the recorded progress of a view's build.
fn without_progress(view: &TableMetadata, now: i64) -> PartitionUpdate {
    let id = table("system", "view_builds_in_progress").id;
    let range_tombstones = vec![deletion_below(&view.name, DeletionTime::new(now, now_s()))];
    PartitionUpdate { range_tombstones, ..PartitionUpdate::new(id, text_key(&view.keyspace)) }
}

fn now_s() -> u32 {
    u32::try_from(time::now_seconds()).unwrap_or(0)
}

fn status_key(keyspace: &str, view: &str) -> DecoratedKey {
    DecoratedKey::new(build_composite(&[keyspace.as_bytes(), view.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use espalier_runtime::random;

    use super::*;

    #[test]
    fn a_record_older_than_the_view_belongs_to_an_earlier_view() {
        let definition = table("system", "built_views");
        let record = |timestamp| RowWriter::new(&definition, &["v"], timestamp).finish();
        let id = random::timeuuid_now();
        let created_us = micros_of(&id).unwrap();
        assert!((created_us - time::now_micros()).abs() < 60_000_000);
        assert!(is_older(&record(created_us - 1), TableId(id)));
        assert!(!is_older(&record(created_us), TableId(id)));
        // An id of another kind holds no time.
        assert!(!is_older(&record(1), TableId(uuid::Uuid::from_u128(7))));
    }
}
