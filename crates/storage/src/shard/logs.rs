//! The commit logs of a shard.

use std::{
    cell::{OnceCell, RefCell},
    path::PathBuf,
};

use espalier_commitlog::{
    CommitLog, CommitLogConfiguration, CommitLogSync, FoundSegment, LogKind, between,
};
use espalier_mutation::LogPosition;
use espalier_runtime::{spawn_local, sync::Semaphore};

use super::{ShardStore, Tables};
use crate::{StorageError, table::Table};

/// Segment size of the schema's log, in bytes. Schemas are small, and a first start preallocates a
/// segment.
pub(super) const SCHEMA_SEGMENT_BYTES: u32 = 4 << 20;

/// The commit logs of a shard.
pub(crate) struct Logs {
    /// Set once, when the shard has replayed the segments of an earlier run.
    pub(crate) data: OnceCell<CommitLog>,
    /// On shard 0: the log of the schema tables.
    pub(crate) schema: OnceCell<CommitLog>,
    /// Segments that this shard replays, or has replayed, at this start.
    pub(crate) replaying: RefCell<Vec<FoundSegment>>,
    /// Held by the compaction that writes discarded intervals.
    pub(crate) discarded_lock: Semaphore,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            data: OnceCell::new(),
            schema: OnceCell::new(),
            replaying: RefCell::default(),
            discarded_lock: Semaphore::new(1),
        }
    }
}

impl Logs {
    /// Returns the open logs.
    pub(crate) fn all(&self) -> impl Iterator<Item = &CommitLog> {
        self.data.get().into_iter().chain(self.schema.get())
    }

    /// Returns the log of the schema, or that of all other tables.
    #[inline]
    pub(crate) fn get(&self, is_schema: bool) -> Result<&CommitLog, StorageError> {
        let log = if is_schema { self.schema.get() } else { self.data.get() };
        log.ok_or(StorageError::ShuttingDown)
    }

    /// Returns the log that a table's writes go to, if it is open.
    pub(crate) fn of_table(&self, table: &Table) -> Option<&CommitLog> {
        if table.is_schema() { self.schema.get() } else { self.data.get() }
    }

    /// Returns the id of the oldest segment of a table's log that a restart may read; `None` if the
    /// log is not open.
    pub(crate) fn oldest_segment_of(&self, table: &Table) -> Option<u64> {
        Some(self.of_table(table)?.oldest_readable())
    }

    /// Makes the logs release the segments that hold only flushed writes.
    pub(crate) fn reclaim(&self, tables: &Tables) {
        for log in self.all() {
            let tables = tables.by_id.borrow();
            let oldest = tables
                .values()
                .filter(|table| self.of_table(table).is_some_and(|its| its.is_same(log)))
                .filter_map(|table| table.oldest_unflushed())
                .min();
            log.reclaim(oldest.map_or(u64::MAX, |position| position.segment));
        }
    }

    /// Returns the intervals of a table's log from one position to another.
    pub(crate) fn intervals(
        &self,
        table: &Table,
        first: LogPosition,
        last: LogPosition,
    ) -> Vec<(LogPosition, LogPosition)> {
        // During the replay the shard has no active log. An SSTable without the intervals of the
        // old log would let the next start replay its writes again, although deletions of these
        // writes may have been purged since.
        match self.of_table(table) {
            Some(log) => log.intervals(first, last),
            None => {
                let segments = self.replaying.borrow();
                between(segments.iter().map(|segment| segment.id), first, last)
            }
        }
    }
}

/// Opens a commit log of a store, which takes over the segments of an earlier run.
pub(crate) fn open_log(store: &ShardStore, kind: LogKind, adopted: Vec<(u64, PathBuf, u32)>) {
    let (settings, shard) = (&store.configuration.commit_log, store.shard());
    let data = CommitLogConfiguration {
        directory: settings.directory.clone(),
        kind,
        shard: shard.index as u32,
        shard_count: shard.count as u32,
        sync: settings.sync,
        segment_bytes: settings.segment_bytes,
        total_bytes: settings.total_bytes / shard.count as u64,
    };
    let (place, configuration) = match kind {
        LogKind::Data => (&store.logs.data, data),
        LogKind::Schema => {
            let schema = CommitLogConfiguration {
                // The schema's log belongs to shard 0, however many others there are.
                shard_count: 1,
                // A schema change is durable when it is acknowledged, whatever the setting for
                // data.
                sync: CommitLogSync::Batch,
                segment_bytes: SCHEMA_SEGMENT_BYTES,
                total_bytes: 4 * u64::from(SCHEMA_SEGMENT_BYTES),
                ..data
            };
            (&store.logs.schema, schema)
        }
    };
    let log = CommitLog::open(
        configuration,
        store.file_system.clone(),
        store.shared.segment_ids.clone(),
        adopted,
    );
    let (watched, flush_wanted) = (log.clone(), store.wakers.flush.clone());
    spawn_local(async move {
        while !watched.is_closing() {
            watched.wait_for_pressure().await;
            flush_wanted.notify_one();
        }
    })
    .detach();
    let _ = place.set(log);
}
