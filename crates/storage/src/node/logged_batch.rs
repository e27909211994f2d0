//! Logged batches: a mutation is applied as a whole or not at all, across shards and crashes.
//!
//! The part of one shard is one record of its commit log, which is atomic by itself. A mutation of
//! several shards is first written as a whole to `system.batches`; this row is the *batchlog
//! entry*. Then the parts are applied, and then the entry is deleted. If the node stops in between,
//! the next start applies the entries that are left. Applying a write twice is harmless.
//!
//! The next start skips two kinds of writes, because they would bring back deleted data: writes to
//! a table that was dropped or truncated after the entry, and all writes of a batch that is so old
//! that compactions may have purged later deletions. `commitlog_sync` decides how durable the entry
//! is when the parts are written, as for every other write.

mod finish;

use std::{
    cell::OnceCell,
    collections::BTreeSet,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use espalier_commitlog::CommitLogError;
use espalier_mutation::{
    DecoratedKey, DeletionTime, Mutation, PartitionUpdate, schema::TableMetadata,
};
use espalier_runtime::{random, run_to_completion, spawn_local, time};
use futures_util::future::LocalBoxFuture;
use uuid::Uuid;

use super::{
    Node,
    batch_rows::{encode, entry},
    views::{check_view_keys, with_view_writes},
};
use crate::{
    StorageError,
    shard::{check_index_entries, check_storable},
    table::TruncationRecord,
};

const TABLE: (&str, &str) = ("system", "batches");

/// Pause before the failed parts of a batch are retried.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Number of successive retries that a shard refuses, after which the node gives a batch up
/// (arbitrary). The node retries after a refusal, because another shard may have failed for a
/// reason that passes.
const MAX_REFUSED_RETRIES: u32 = 10;

/// Minimum age at which an unfinished batch is given up (arbitrary). Without it, each crash would
/// leave halves of batches in tables with `gc_grace_seconds = 0`. In such a table, a retry could
/// bring back data if, within this time, a later deletion arrives, is flushed and is purged while
/// its shard still refuses the older writes. Such a sequence of events is not expected.
const MIN_GRACE: Duration = Duration::from_secs(3600);

/// Maximum bytes of unfinished batches on a shard (arbitrary). A batch is unfinished while the
/// shard retries it, and while it runs after its caller was dropped. The shard refuses logged
/// batches beyond the maximum, because the number of unfinished batches has no other bound while a
/// disk fails or a shard is overloaded. The encoded bytes count; many small rows take several times
/// as much memory.
const MAX_UNFINISHED_BYTES: usize = 16 << 20;

/// Bytes counted for an unfinished batch besides its mutation.
const UNFINISHED_BYTES: usize = 1 << 10;

/// The age of a stored batch.
enum BatchAge {
    Recent,
    /// Compactions may have purged deletions that came after the batch.
    Expired,
}

/// The batchlog entry of a mutation.
struct Entry {
    /// The table of entries.
    table: Arc<TableMetadata>,
    key: DecoratedKey,
    /// Bytes of the encoded mutation.
    bytes: usize,
    update: PartitionUpdate,
}

/// The caller of a batch. If it is dropped before the batch ends, the batch counts as unfinished
/// until the batch ends, because the client may send more batches at once.
struct Caller<'n> {
    batches: Batches<'n>,
    bytes: usize,
    /// Alive as long as the batch.
    unfinished: Weak<OnceCell<Unfinished>>,
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        if let Some(unfinished) = self.unfinished.upgrade() {
            let _ = unfinished.set(self.batches.begin_unfinished(self.bytes));
        }
    }
}

/// An unfinished batch that is counted until this is dropped.
struct Unfinished {
    node: Node,
    bytes: usize,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let all = &self.node.inner.unfinished_batch_bytes;
        all.set(all.get().saturating_sub(self.bytes));
    }
}

/// Logged batches.
#[derive(Clone, Copy)]
pub struct Batches<'n> {
    pub(in crate::node) node: &'n Node,
}

impl Node {
    /// Returns the logged batches of a node.
    pub fn batches(&self) -> Batches<'_> {
        Batches { node: self }
    }
}

impl<'n> Batches<'n> {
    /// Applies a mutation as a whole. If the node stops before this resolves, the mutation is
    /// applied as a whole or not at all.
    ///
    /// # Errors
    ///
    /// Fails if a table is unknown, if a write cannot be stored, if too many batches are
    /// unfinished, or if the log or memtables take no write. An error means that the mutation is
    /// not acknowledged; if the node has stored the batch, it still retries the mutation.
    pub async fn apply(self, mutation: Mutation) -> Result<(), StorageError> {
        let Some(entry) = self.entry_of(&mutation).await? else {
            return self.node.apply(mutation).await;
        };
        // The mutation has a task of its own, so that it is applied as a whole even if the caller
        // drops this call.
        let (node, unfinished) = (self.node.clone(), Rc::new(OnceCell::new()));
        let _caller =
            Caller { batches: self, bytes: entry.bytes, unfinished: Rc::downgrade(&unfinished) };
        let applied = run_to_completion(async move {
            let outcome = node.batches().apply_of_entry(entry, mutation).await;
            drop(unfinished);
            outcome
        });
        applied.await.unwrap_or(Err(StorageError::ShuttingDown))
    }

    async fn apply_of_entry(self, entry: Entry, mutation: Mutation) -> Result<(), StorageError> {
        self.write_entry(&entry).await?;
        let Entry { table, key, bytes, .. } = entry;
        let outcome = self.node.apply(mutation.clone()).await;
        match outcome {
            Ok(()) => self.remove_entry(&table, key, i64::MIN).await,
            Err(_) => {
                let unfinished = self.begin_unfinished(bytes);
                let retry = async move {
                    // The client has the first error, and the log has a later one.
                    let _ =
                        unfinished.node.batches().retry_batch(&table, key, mutation, false).await;
                };
                spawn_local(retry).detach();
            }
        }
        outcome
    }

    /// Returns the batchlog entry of a mutation of several shards; `None` if one shard owns all
    /// partitions.
    async fn entry_of(self, mutation: &Mutation) -> Result<Option<Entry>, StorageError> {
        if self.node.split_by_shard(mutation.clone()).len() <= 1 {
            return Ok(None);
        }
        // A batch with an entry is retried. A mutation that a table would refuse never succeeds, so
        // it is refused before the entry is written.
        check_index_entries(self.node.store(), mutation).await?;
        let bytes = self.node.inner.unfinished_batch_bytes.get();
        if bytes > MAX_UNFINISHED_BYTES {
            return Err(StorageError::TooManyUnfinishedBatches { bytes });
        }
        let schema = self.node.store().schema();
        for update in &mutation.updates {
            if schema.table_by_id(update.table).is_none() {
                return Err(StorageError::UnknownTable(update.table));
            }
            let table = self.node.store().tables.get(update.table)?;
            check_storable(&table, self.node.store().tables.features_of(&table), update)?;
        }
        check_view_keys(self.node, mutation)?;
        let Some(table) = schema.table(TABLE.0, TABLE.1).cloned() else {
            return Err(StorageError::NotSupported(
                "a logged batch without the table system.batches",
            ));
        };
        let id = random::timeuuid_now();
        let key = DecoratedKey::new(Bytes::copy_from_slice(id.as_bytes()));
        let log = &self.node.store().configuration.commit_log;
        let content = encode(mutation, &schema, log.maximum_record_bytes())?;
        let bytes = content.len();
        let update = entry(&table, &key, content);
        Ok(Some(Entry { table, key, bytes, update }))
    }

    async fn write_entry(self, entry: &Entry) -> Result<(), StorageError> {
        let Entry { table, key, update, .. } = entry;
        let written = self.node.apply(Mutation { updates: vec![update.clone()] }).await;
        // The entry may be in the log. If it stayed there, the next start would apply a batch that
        // was refused.
        if let Err(StorageError::CommitLog(CommitLogError::Write(_))) = written {
            self.remove_entry(table, key.clone(), i64::MIN).await;
        }
        written
    }

    /// Applies a mutation as [`Batches::apply`] does, but does not return before all
    /// shards have applied it: if a shard cannot, this retries. The caller holds turns on the rows.
    /// The view updates of the mutation are a part of the batch.
    ///
    /// # Errors
    ///
    /// Until the batch is stored, fails as [`Batches::apply`] does. After that, fails only if the
    /// node shuts down, so that the next start applies the batch, or if the retries gave the batch
    /// up ([`StorageError::BatchGivenUp`]).
    pub async fn apply_whole(self, mutation: Mutation) -> Result<(), StorageError> {
        let has_views = self.node.store().tables.has_views(&mutation);
        let base_count = mutation.updates.len();
        let complete =
            if has_views { with_view_writes(self.node, &mutation).await? } else { mutation };
        self.apply_complete_batch(complete, base_count).await
    }

    /// Applies a mutation with its view updates as [`Batches::apply_whole`] does. The first
    /// `base_count` updates are of base tables. The updates of dropped views are left out.
    pub(super) fn apply_complete_batch(
        self,
        mut mutation: Mutation,
        base_count: usize,
    ) -> LocalBoxFuture<'n, Result<(), StorageError>> {
        Box::pin(async move {
            loop {
                let is_base =
                    |id| mutation.updates.iter().take(base_count).any(|update| update.table == id);
                let outcome = self.apply_with_entry(&mutation).await;
                match outcome {
                    Err(StorageError::UnknownTable(id)) if !is_base(id) => {
                        mutation.updates.retain(|update| update.table != id);
                    }
                    _ => return outcome,
                }
            }
        })
    }

    async fn apply_with_entry(self, mutation: &Mutation) -> Result<(), StorageError> {
        let Some(entry) = self.entry_of(mutation).await? else {
            return self.node.apply_complete(mutation.clone()).await;
        };
        self.write_entry(&entry).await?;
        let Entry { table, key, .. } = entry;
        if self.node.apply_complete(mutation.clone()).await.is_ok() {
            // A separate task removes the entry, so that the caller's turns can end before that.
            let node = self.node.clone();
            let remove = async move { node.batches().remove_entry(&table, key, i64::MIN).await };
            spawn_local(remove).detach();
            return Ok(());
        }
        self.retry_batch(&table, key, mutation.clone(), true).await
    }

    /// Counts an unfinished batch.
    fn begin_unfinished(self, bytes: usize) -> Unfinished {
        let bytes = bytes.saturating_add(UNFINISHED_BYTES);
        let all = &self.node.inner.unfinished_batch_bytes;
        all.set(all.get().saturating_add(bytes));
        Unfinished { node: self.node.clone(), bytes }
    }

    /// Retries a stored batch until it is applied, until it is too old, or until a shard has
    /// refused it [`MAX_REFUSED_RETRIES`] times in a row. `is_complete` is true if the caller holds
    /// turns and the mutation has its view updates.
    ///
    /// # Errors
    /// The node shuts down, or the batch is given up.
    async fn retry_batch(
        self,
        table: &TableMetadata,
        key: DecoratedKey,
        mut mutation: Mutation,
        is_complete: bool,
    ) -> Result<(), StorageError> {
        let mut refused = 0;
        while !self.node.store().is_closing() {
            time::sleep(RETRY_PAUSE).await;
            let schema = self.node.store().schema();
            mutation.updates.retain(|update| schema.table_by_id(update.table).is_some());
            match self.drop_truncated_and_expired(&mut mutation, &key).await {
                Ok(BatchAge::Recent) => {}
                Ok(BatchAge::Expired) => {
                    self.remove_entry(table, key, i64::MIN).await;
                    let reason = "gc_grace_seconds have passed".into();
                    return Err(StorageError::BatchGivenUp { reason });
                }
                Err(_) => continue,
            }
            let applied = if is_complete {
                self.node.apply_complete(mutation.clone()).await
            } else {
                self.node.apply(mutation.clone()).await
            };
            match applied {
                Ok(()) => {
                    self.remove_entry(table, key, i64::MIN).await;
                    return Ok(());
                }
                Err(error) if is_refusal(&error) => {
                    refused += 1;
                    if refused == MAX_REFUSED_RETRIES {
                        tracing::error!(
                            %error,
                            "unfinished logged batch is given up, because a shard refuses its \
                             part; a part of its writes may be missing: write them again"
                        );
                        self.remove_entry(table, key, i64::MIN).await;
                        return Err(StorageError::BatchGivenUp { reason: error.to_string() });
                    }
                }
                Err(_) => refused = 0,
            }
        }
        Err(StorageError::ShuttingDown)
    }

    /// Removes the writes to tables that were truncated after them, and all writes if later
    /// deletions may have been purged.
    async fn drop_truncated_and_expired(
        self,
        mutation: &mut Mutation,
        key: &DecoratedKey,
    ) -> Result<BatchAge, StorageError> {
        let Some(created_us) = created_us(key) else { return Ok(BatchAge::Recent) };
        let tables: BTreeSet<_> = mutation.updates.iter().map(|update| update.table).collect();
        let schema = self.node.store().schema();
        let graces = tables.iter().filter_map(|id| schema.table_by_id(*id));
        let grace_s = graces.map(|table| u64::from(table.options.gc_grace_seconds)).min();
        let grace = grace_s.map_or(Duration::MAX, Duration::from_secs).max(MIN_GRACE);
        let age_us = u64::try_from(time::now_micros().saturating_sub(created_us)).unwrap_or(0);
        if Duration::from_micros(age_us) >= grace {
            tracing::error!(
                created_us,
                "unfinished logged batch is dropped: deletions after it may be purged already \
                 (gc_grace_seconds); a part of its writes may be missing"
            );
            mutation.updates.clear();
            return Ok(BatchAge::Expired);
        }
        for id in tables {
            // Skip a table that was dropped meanwhile; applying the batch reports the drop.
            let Ok(table) = self.node.store().tables.get(id) else { continue };
            let directory = &table.home.directory;
            let record = TruncationRecord::load(&self.node.store().file_system, directory).await?;
            if record.is_some_and(|record| record.at_us >= created_us) {
                mutation.updates.retain(|update| update.table != id);
            }
        }
        Ok(BatchAge::Recent)
    }

    /// Removes the entry of a finished batch, with a timestamp of at least `min_us`. Otherwise the
    /// next start would apply the batch again, also to rows that were deleted meanwhile.
    async fn remove_entry(self, table: &TableMetadata, key: DecoratedKey, min_us: i64) {
        let mut removal = PartitionUpdate::new(table.id, key);
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        removal.deletion = DeletionTime::new(time::next_timestamp_micros().max(min_us), now_s);
        let removal = Mutation { updates: vec![removal] };
        if self.node.apply(removal.clone()).await.is_ok() {
            return;
        }
        let unfinished = self.begin_unfinished(0);
        let retry = async move {
            let node = &unfinished.node;
            while !node.store().is_closing() {
                time::sleep(RETRY_PAUSE).await;
                if node.apply(removal.clone()).await.is_ok() {
                    return;
                }
            }
        };
        spawn_local(retry).detach();
    }
}

/// Returns whether a retry of the write would fail in the same way.
fn is_refusal(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::Unstorable(_)
            | StorageError::ExpiryTooLate { .. }
            | StorageError::CommitLog(CommitLogError::MutationTooLarge { .. })
    )
}

/// Returns the time at which a batch was stored, in µs since 1970, from the batch's id.
fn created_us(key: &DecoratedKey) -> Option<i64> {
    micros_of(&Uuid::from_slice(&key.key).ok()?)
}

/// Returns the time of a time-based UUID, in µs since 1970; `None` for other UUIDs.
pub(super) fn micros_of(id: &Uuid) -> Option<i64> {
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    let us = seconds.checked_mul(1_000_000)?.checked_add(u64::from(nanoseconds) / 1000)?;
    i64::try_from(us).ok()
}
