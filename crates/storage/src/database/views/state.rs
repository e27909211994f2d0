//! Which views are built, in the tables where Cassandra keeps it: `system.built_views`,
//! `system.view_builds_in_progress` and `system_distributed.view_build_status`.
//!
//! A view whose status is [`CHECKING`] was built, but its rows may not be those of its base table:
//! files were imported or restored, or a truncation may have stopped half-way.

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, DecoratedKey, DeletionTime, Mutation, PartitionUpdate,
    RangeTombstone, Row, build_composite,
    schema::{Schema, TableMetadata},
};
use espalier_runtime::time;

use crate::{
    Database, StorageError,
    read::{ReadCommand, ReadTarget},
    system::{Fields, RowWriter, table},
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
    /// Base rows that were read.
    pub(super) keys: u64,
}

impl Database {
    /// Returns whether `system.built_views` lists a view.
    pub(super) async fn is_recorded_view(
        &self,
        view: &TableMetadata,
    ) -> Result<bool, StorageError> {
        let rows = self.rows_of("system", "built_views", text_key(&view.keyspace)).await?;
        let definition = table("system", "built_views");
        Ok(rows.iter().any(|row| Fields::new(&definition, row).clustering(0) == Some(&view.name)))
    }

    /// Returns the status of a view's build on this node; `None` if it has not begun.
    pub async fn view_build_status(
        &self,
        keyspace: &str,
        view: &str,
    ) -> Result<Option<String>, StorageError> {
        let key = status_key(keyspace, view);
        let rows = self.rows_of("system_distributed", "view_build_status", key).await?;
        let definition = table("system_distributed", "view_build_status");
        let status = |row: &Row| Fields::new(&definition, row).text("status").map(str::to_owned);
        Ok(rows.iter().find_map(status))
    }

    /// Returns the token up to which a shard's part of a build is done, if it was recorded.
    pub(super) async fn recorded_progress(
        &self,
        view: &TableMetadata,
        tokens: (i64, i64),
    ) -> Result<Option<BuildProgress>, StorageError> {
        let key = text_key(&view.keyspace);
        let rows = self.rows_of("system", "view_builds_in_progress", key).await?;
        let definition = table("system", "view_builds_in_progress");
        let (first, last) = (tokens.0.to_string(), tokens.1.to_string());
        Ok(rows.iter().find_map(|row| {
            let fields = Fields::new(&definition, row);
            let is_part = fields.clustering(0) == Some(&view.name)
                && fields.clustering(1) == Some(&first)
                && fields.clustering(2) == Some(&last);
            let done = fields.text("last_token")?.parse().ok()?;
            let keys = fields.bigint("keys_built").and_then(|keys| u64::try_from(keys).ok());
            is_part.then_some(BuildProgress { tokens, last: done, keys: keys.unwrap_or(0) })
        }))
    }

    /// Records the progress of a shard's part of a build.
    pub(super) async fn record_progress(
        &self,
        view: &TableMetadata,
        progress: BuildProgress,
    ) -> Result<(), StorageError> {
        let definition = table("system", "view_builds_in_progress");
        let (first, last) = (progress.tokens.0.to_string(), progress.tokens.1.to_string());
        let now = time::next_timestamp_micros();
        let row = RowWriter::new(&definition, &[&view.name, &first, &last], now)
            .bigint("keys_built", progress.keys)
            .text("last_token", &progress.last.to_string())
            .finish();
        let mut update = PartitionUpdate::new(definition.id, text_key(&view.keyspace));
        update.rows.push(row);
        self.apply(Mutation { updates: vec![update] }).await
    }

    /// Records the state of a view's build.
    pub(super) async fn record_status(
        &self,
        view: &TableMetadata,
        status: &str,
    ) -> Result<(), StorageError> {
        let now = time::next_timestamp_micros();
        let definition = table("system_distributed", "view_build_status");
        let host = Clustering::new([Bytes::copy_from_slice(self.host_id().as_bytes())]);
        let key = status_key(&view.keyspace, &view.name);
        let mut of_status = PartitionUpdate::new(definition.id, key);
        of_status.rows.push(RowWriter::at(&definition, host, now).text("status", status).finish());
        let definition = table("system", "built_views");
        let mut of_built = PartitionUpdate::new(definition.id, text_key(&view.keyspace));
        let mut row = RowWriter::new(&definition, &[&view.name], now)
            .boolean("status_replicated", true)
            .finish();
        if status != SUCCESS {
            row = Row { deletion: self.deletion(now), ..Row::empty(row.clustering) };
        }
        of_built.rows.push(row);
        let mut updates = vec![of_status, of_built];
        if status != STARTED {
            updates.push(self.without_progress(view, now));
        }
        self.apply_logged_batch(Mutation { updates }).await
    }

    /// Removes what is recorded of the builds of dropped views.
    pub(in super::super) async fn forget_dropped_views(&self, old: &Schema, new: &Schema) {
        let is_gone = |view: &&std::sync::Arc<TableMetadata>| new.table_by_id(view.id).is_none();
        for view in old.tables().filter(|table| table.is_view()).filter(is_gone) {
            let now = time::next_timestamp_micros();
            let deletion = self.deletion(now);
            let status = table("system_distributed", "view_build_status").id;
            let key = status_key(&view.keyspace, &view.name);
            let status = PartitionUpdate { deletion, ..PartitionUpdate::new(status, key) };
            let definition = table("system", "built_views");
            let mut built = PartitionUpdate::new(definition.id, text_key(&view.keyspace));
            let row = RowWriter::new(&definition, &[&view.name], now).finish();
            built.rows.push(Row { deletion, ..Row::empty(row.clustering) });
            let updates = vec![status, built, self.without_progress(view, now)];
            if let Err(error) = self.apply_logged_batch(Mutation { updates }).await {
                let view = &view.name;
                tracing::warn!(%error, view, "system.built_views may still list a dropped view");
            }
        }
    }

    fn without_progress(&self, view: &TableMetadata, now: i64) -> PartitionUpdate {
        let definition = table("system", "view_builds_in_progress");
        let mut update = PartitionUpdate::new(definition.id, text_key(&view.keyspace));
        let values: Box<[Option<Bytes>]> =
            [Some(Bytes::copy_from_slice(view.name.as_bytes()))].into();
        update.range_tombstones.push(RangeTombstone {
            start: ClusteringBound { kind: BoundKind::InclusiveStart, values: values.clone() },
            end: ClusteringBound { kind: BoundKind::InclusiveEnd, values },
            deletion: self.deletion(now),
        });
        update
    }

    fn deletion(&self, now: i64) -> DeletionTime {
        DeletionTime::new(now, u32::try_from(time::now_seconds()).unwrap_or(0))
    }

    async fn rows_of(
        &self,
        keyspace: &str,
        name: &str,
        key: DecoratedKey,
    ) -> Result<Vec<Row>, StorageError> {
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        let command = ReadCommand::of_all(table(keyspace, name), ReadTarget::Partition(key), now_s);
        let found = self.read(command).await?;
        Ok(found.partitions.into_iter().flat_map(|partition| partition.rows).collect())
    }
}

fn text_key(text: &str) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(text.as_bytes()))
}

fn status_key(keyspace: &str, view: &str) -> DecoratedKey {
    DecoratedKey::new(build_composite(&[keyspace.as_bytes(), view.as_bytes()]))
}
