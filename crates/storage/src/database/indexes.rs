//! Gives entries of secondary indexes to the files of a table that lack them.

use std::{rc::Rc, time::Duration};

use espalier_mutation::{
    Mutation,
    schema::{Schema, TableMetadata},
};
use espalier_runtime::time;

use super::Database;
use crate::{StorageError, compaction::CompactionKind, system::index_info_update, table::Table};

/// The time between two looks whether the other shards have built an index. Arbitrary.
const RECORD_PAUSE: Duration = Duration::from_millis(100);

impl Database {
    /// Builds the missing entries of a table on this shard: flushes frozen memtables with the
    /// entries of other indexes, and rewrites SSTables without entries.
    pub(crate) async fn build_indexes(&self, table: &Rc<Table>) -> Result<(), StorageError> {
        let has_none = table.borrow_metadata().indexes.is_empty();
        if table.is_dropped() || (has_none && table.borrow_view().flushing.is_empty()) {
            return Ok(());
        }
        if table.has_frozen_without_entries() {
            self.flush_in_background(table).await?;
        }
        let missing = table.unindexed();
        if missing.is_empty() {
            return Ok(());
        }
        let seen = self.stop_requests().await;
        let metadata = table.metadata();
        tracing::info!(
            keyspace = metadata.keyspace,
            table = metadata.name,
            sstables = missing.len(),
            "building secondary indexes: rewriting the SSTables that lack their entries"
        );
        for sstable in missing {
            self.compact_one(table, &sstable, CompactionKind::IndexBuild, &seen).await?;
        }
        tracing::info!(
            keyspace = metadata.keyspace,
            table = metadata.name,
            "secondary indexes built on this shard"
        );
        Ok(())
    }

    /// Records the indexes of a table in `system."IndexInfo"` once all shards have built them. Does
    /// nothing for those that are recorded, and on other shards than the first.
    pub(crate) async fn record_built_indexes(&self, table: &Rc<Table>) -> Result<(), StorageError> {
        let metadata = table.metadata();
        let is_new = |name: &&String| !table.has_recorded_index(name);
        let names = metadata.indexes.iter().map(|index| &index.name).filter(is_new);
        let names: Vec<String> = names.cloned().collect();
        if names.is_empty() || self.shard().index != 0 {
            return Ok(());
        }
        if !self.has_built_indexes(&metadata).await {
            // Another shard is still at it, and does not say when it ends.
            self.index_wanted().notify_one();
            time::sleep(RECORD_PAUSE).await;
            return Ok(());
        }
        let now = time::next_timestamp_micros();
        let update = |name: &String| index_info_update(&metadata.keyspace, name, now, None);
        let updates = names.iter().map(update).collect();
        self.apply(Mutation { updates }).await?;
        table.record_indexes(names);
        Ok(())
    }

    /// Removes dropped indexes from `system."IndexInfo"`.
    pub(super) async fn forget_dropped_indexes(&self, old: &Schema, new: &Schema) {
        let now = time::next_timestamp_micros();
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        let mut updates = Vec::new();
        for table in old.tables().filter(|table| !table.indexes.is_empty()) {
            let present = new.table_by_id(table.id);
            for index in &table.indexes {
                if present.is_none_or(|present| present.index(&index.name).is_none()) {
                    let keyspace = &table.keyspace;
                    updates.push(index_info_update(keyspace, &index.name, now, Some(now_s)));
                }
            }
        }
        if !updates.is_empty()
            && let Err(error) = self.apply(Mutation { updates }).await
        {
            tracing::warn!(%error, "system.IndexInfo still lists a dropped index");
        }
    }

    /// Returns whether all memtables and SSTables of a table have the entries of its secondary
    /// indexes, on all shards.
    pub async fn has_built_indexes(&self, table: &TableMetadata) -> bool {
        let id = table.id;
        let shards = self.on_all_shards(move |database| async move {
            database.table(id).is_ok_and(|table| {
                table.unindexed().is_empty() && !table.has_frozen_without_entries()
            })
        });
        shards.await.into_iter().all(|is_built| is_built)
    }
}
