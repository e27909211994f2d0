//! Replay of the commit log at start.

use std::path::PathBuf;

use espalier_commitlog::{FoundSegment, between};
use espalier_mutation::{LogPosition, Mutation, schema::Schema};

use super::Database;
use crate::{
    StorageError,
    recovery::{Recovered, ReplaySummary, replay_segments},
};

/// Mutations of other shards that are sent as one batch when the number of shards has changed.
const BATCH: usize = 256;

/// Name of the directory, below the commit log's, with copies of segments that hold writes of
/// tables that this node cannot read.
const UNREADABLE: &str = "unreadable";

impl Database {
    /// Replays segments on this shard. Writes that another shard owns are sent there. That happens
    /// only if the number of shards has changed, and then no SSTable refers to the old segments.
    pub(super) async fn replay_here(
        &self,
        segments: Vec<FoundSegment>,
        schema: &Schema,
        recovered: &Recovered,
        is_resharded: bool,
    ) -> Result<ReplaySummary, StorageError> {
        let policy = self.inner.configuration.commit_failure_policy;
        self.inner.replaying.borrow_mut().clone_from(&segments);
        let mut others: Vec<Vec<Mutation>> = vec![Vec::new(); self.inner.context.count];
        let summary = replay_segments(
            &self.inner.file_system,
            segments,
            policy,
            schema,
            recovered,
            async |mutation, position| {
                if !is_resharded {
                    return self.apply_replayed(&mutation, Some(position)).await;
                }
                for (shard, part) in self.split_by_shard(mutation) {
                    if shard == self.inner.context.index {
                        self.apply_replayed(&part, None).await?;
                        continue;
                    }
                    others[shard].push(part);
                    if others[shard].len() >= BATCH {
                        self.send_replayed(shard, std::mem::take(&mut others[shard])).await?;
                    }
                }
                Ok(())
            },
        )
        .await?;
        for (shard, rest) in others.into_iter().enumerate() {
            if !rest.is_empty() {
                self.send_replayed(shard, rest).await?;
            }
        }
        self.keep_unreadable(&summary.unreadable).await?;
        let counters = &self.inner.counters;
        counters.replayed.set(counters.replayed.get() + summary.mutations);
        counters.replay_skipped.set(counters.replay_skipped.get() + summary.skipped);
        if !is_resharded {
            // The replayed records may never have been synced, but the next segment will say that
            // they were.
            for (_, path, _) in &summary.segments {
                self.inner.file_system.open_write(path).await?.sync_data().await?;
            }
        }
        if summary.mutations > 0 {
            let ReplaySummary { mutations, skipped, segments, .. } = &summary;
            tracing::info!(
                mutations,
                skipped,
                segments = segments.len(),
                "replayed the commit log"
            );
        }
        Ok(summary)
    }

    /// Copies segments that hold writes of tables that this node cannot read: flushes of other
    /// tables remove or rewrite the segments themselves.
    async fn keep_unreadable(&self, segments: &[PathBuf]) -> Result<(), StorageError> {
        let inner = &self.inner;
        let directory = inner.configuration.commitlog_directory.join(UNREADABLE);
        for segment in segments {
            let Some(name) = segment.file_name() else { continue };
            let copy = directory.join(name);
            if inner.file_system.exists(&copy).await? {
                continue;
            }
            inner.file_system.create_dir_all(&directory).await?;
            let content = inner.file_system.read(segment).await?;
            inner.file_system.write_atomically(copy.clone(), content).await?;
            let copy = copy.display();
            tracing::error!(
                %copy,
                "commit log segment holds writes of tables that cannot be read, copied; to replay \
                 it with a version that can read them, stop the node and move the copy back into \
                 the commit log's directory"
            );
        }
        Ok(())
    }

    /// Returns the parts of the replayed segments that lie between two positions.
    pub(crate) fn replayed_intervals(
        &self,
        from: LogPosition,
        to: LogPosition,
    ) -> Vec<(LogPosition, LogPosition)> {
        let segments = self.inner.replaying.borrow();
        between(segments.iter().map(|segment| segment.id), from, to)
    }

    async fn send_replayed(&self, shard: usize, batch: Vec<Mutation>) -> Result<(), StorageError> {
        self.on_shard(shard, move |database| async move {
            for mutation in &batch {
                database.apply_replayed(mutation, None).await?;
            }
            Ok(())
        })
        .await
    }

    /// Returns whether a memtable is full because its trie is near its maximum size. Wakes the
    /// flush scheduler for memtables that are nearly full.
    fn is_any_full(&self, mutation: &Mutation) -> Result<bool, StorageError> {
        for update in &mutation.updates {
            let table = self.table(update.table)?;
            let view = table.borrow_view();
            if view.memtable.wants_flush() {
                self.inner.flush_wanted.notify_one();
                if view.memtable.is_full() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Applies a write to memtables without logging it. `position` is its position in the log, if
    /// that segment is kept.
    async fn apply_replayed(
        &self,
        mutation: &Mutation,
        position: Option<LogPosition>,
    ) -> Result<(), StorageError> {
        // The writes of the schema's log, which are few, are applied before flushes can start; no
        // flush would make room for them.
        while self.inner.flushes.get()
            && (!self.inner.budget.has_room() || self.is_any_full(mutation)?)
        {
            self.inner.flush_wanted.notify_one();
            if let Some(reason) = self.flush_failure() {
                return Err(StorageError::MemtablesFull {
                    used_bytes: self.inner.budget.used_bytes(),
                    limit_bytes: self.inner.budget.limit_bytes(),
                    reason,
                });
            }
            self.inner.budget.wait_for_room().await;
        }
        let mut encoder = self.inner.encoder.borrow_mut();
        encoder.encode(mutation, |_| 0);
        let mut first_row = 0;
        for update in &mutation.updates {
            let table = self.table(update.table)?;
            let memtable = table.memtable();
            if let Some(start) = position {
                let end = LogPosition { offset: start.offset + 1, ..start };
                memtable.add_position(start, end);
            }
            let packed = |index| encoder.packed_row(first_row + index);
            // The prefetcher of the empty-range cache may be running already.
            table.empty_ranges().record_update(&table.borrow_metadata(), update, packed);
            memtable.apply(&table.metadata(), update, packed)?;
            first_row += usize::from(update.static_row.is_some()) + update.rows.len();
        }
        Ok(())
    }
}
