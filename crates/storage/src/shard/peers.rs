//! The rest of the node, as the background work of a shard's store sees it.
//!
//! A store that is used alone has no peers. It has all files of its tables for itself, and no
//! system table records its compactions.

use std::rc::Rc;

use espalier_compaction::CompactionOutcome;
use espalier_mutation::schema::TableId;
use espalier_sstable::Descriptor;
use futures_util::future::LocalBoxFuture;
use uuid::Uuid;

use crate::{StorageError, table::Table};

/// The rest of the node, for the background work of one shard.
pub(crate) trait Peers {
    /// Returns the bytes that the running compactions of all shards will still write to a disk.
    /// With `before`, only the compactions that began before the compaction with this id count.
    fn reserved_bytes(&self, device: u64, before: Option<Uuid>) -> LocalBoxFuture<'_, u64>;

    /// Opens the parts of a split file, each on the shards that own partitions of it.
    ///
    /// # Errors
    /// A part cannot be opened, or the node has ended.
    fn stage(
        &self,
        table: TableId,
        split: Uuid,
        parts: Vec<Descriptor>,
    ) -> LocalBoxFuture<'_, Result<(), StorageError>>;

    /// Drops the parts that [`Peers::stage`] opened.
    fn unstage(&self, table: TableId, split: Uuid) -> LocalBoxFuture<'_, ()>;

    /// Replaces a split file by its parts, shard by shard. The shards may do so at different times,
    /// because a shard reads only its own partitions, and its parts have the same data as the file.
    /// Only after a scrub, the parts may lack data (`has_left_out`).
    ///
    /// # Errors
    /// A part has another schema than its table, or the node has ended.
    fn exchange(
        &self,
        table: TableId,
        split: Uuid,
        removed: Vec<Descriptor>,
        has_left_out: bool,
    ) -> LocalBoxFuture<'_, Result<(), StorageError>>;

    /// Wakes the tasks of all shards that build entries of secondary indexes.
    fn wake_index_builds(&self) -> LocalBoxFuture<'_, ()>;

    /// Records a finished compaction.
    fn record_compaction(&self, outcome: &CompactionOutcome);

    /// Records the secondary indexes of a table once all shards have built them.
    ///
    /// # Errors
    /// The record cannot be written.
    fn record_built_indexes<'a>(
        &'a self,
        table: &'a Rc<Table>,
    ) -> LocalBoxFuture<'a, Result<(), StorageError>>;
}
