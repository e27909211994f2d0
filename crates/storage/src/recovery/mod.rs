//! Recovery replays the commit log of an earlier run of the node.
//!
//! Each shard replays the segments that the shard of its number wrote in the earlier run. The
//! segments of shards that no longer exist are shared out. If the shard count is the same, the
//! writes go to the shard's own memtables, and the old segments stay until ordinary flushes make
//! them unneeded, so that a restart writes nothing. If the shard count has changed, each write goes
//! to the shard that owns it now, everything is flushed, and the old segments are removed.
//!
//! Recovery skips four kinds of writes: writes in an SSTable of this node, whose statistics name
//! intervals of the commit log; writes that compactions have purged; writes before a truncation;
//! and writes to tables that were dropped or that this node cannot read. Replaying a write twice is
//! harmless as long as the deletions that cover it exist. Once compactions have purged these
//! deletions, the write would reappear for good. So each SSTable names its intervals of the log,
//! even if it was flushed during the replay. If the shard count has changed, such an SSTable names
//! none, because no compaction starts before the old segments are removed.

mod host_id;
mod schema;
mod unsynced_views;

pub(crate) use host_id::{load_or_make_host_id, save_host_id};
pub(crate) use schema::{SchemaContents, described_system_keyspaces, keyspaces_of, schema_of};
pub(crate) use unsynced_views::{are_views_unsynced, mark_unsynced_views, unmark_unsynced_views};

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use espalier_commitlog::{
    CommitLogError, DiscardedIntervals, FoundSegment, KIND_COLUMNS, KIND_MARKER, KIND_MUTATION,
    ReplayPolicy, Translation, decode_mutation, read_segment,
};
use espalier_mutation::{
    LogPosition, Mutation,
    encoding::body::{BodyError, BodyReader},
    joined_intervals,
    schema::{Schema, TableId},
};
use espalier_runtime::file::FileSystem;
use hashbrown::HashMap;

use crate::{StorageError, table::TruncationRecord};

/// The state of a table on disk before its writes are replayed.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableRecovery {
    /// The intervals of the commit log whose writes are in SSTables or were purged from SSTables.
    /// [`arrange`] sorts them and makes them disjoint.
    pub(crate) flushed: Vec<(LogPosition, LogPosition)>,
    pub(crate) truncation: Option<TruncationRecord>,
}

impl TableRecovery {
    /// Returns the greatest segment id that SSTables and truncations refer to.
    pub(crate) fn greatest_segment(&self) -> Option<u64> {
        let flushed = self.flushed.iter().map(|(_, end)| end.segment);
        let truncated = self.truncation.iter().flat_map(|record| &record.positions);
        flushed.chain(truncated.map(|position| position.segment)).max()
    }

    /// Returns whether a write at this position must not be replayed.
    fn is_discarded(&self, shard: u32, position: LogPosition) -> bool {
        let behind = self.flushed.partition_point(|(start, _)| *start <= position);
        self.flushed[..behind].last().is_some_and(|(_, end)| position < *end)
            || self.truncation.as_ref().is_some_and(|record| record.covers(shard, position))
    }
}

/// The states of all tables.
pub(crate) type TableRecoveries = HashMap<TableId, TableRecovery, foldhash::fast::FixedState>;

/// The states of all tables, shared by all shards.
pub(crate) type Recovered = Arc<TableRecoveries>;

/// Adds the discarded intervals of the log, and sorts and merges all intervals.
pub(crate) fn arrange(recovered: &mut TableRecoveries, discarded: &DiscardedIntervals) {
    for (table, intervals) in discarded {
        if let Some(recovery) = recovered.get_mut(&TableId(*table)) {
            recovery.flushed.extend(intervals);
        }
    }
    for recovery in recovered.values_mut() {
        recovery.flushed =
            joined_intervals(std::mem::take(&mut recovery.flushed), None, usize::MAX);
    }
}

/// The result of a shard's replay.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplaySummary {
    /// The id, the file and the end offset in bytes of each segment that was read.
    pub(crate) segments: Vec<(u64, PathBuf, u32)>,
    pub(crate) mutations: u64,
    /// Number of updates that were skipped: they were in SSTables, purged or truncated, or their
    /// table was dropped or cannot be read.
    pub(crate) skipped: u64,
    /// Segments that hold writes of tables that this node cannot read.
    pub(crate) unreadable: Vec<FoundSegment>,
    /// A table that the segments describe and the schema lacks, if there is one.
    pub(crate) unknown: Option<TableId>,
}

/// Reads segments and passes each mutation that must be replayed to `apply`, with its position in
/// the log.
pub(crate) async fn replay_segments(
    file_system: &FileSystem,
    segments: Vec<FoundSegment>,
    policy: ReplayPolicy,
    schema: &Schema,
    recovered: &Recovered,
    mut apply: impl AsyncFnMut(Mutation, LogPosition) -> Result<(), StorageError>,
) -> Result<ReplaySummary, StorageError> {
    let mut summary = ReplaySummary::default();
    for segment in segments {
        let mut translations: HashMap<u32, Translation> = HashMap::new();
        let (mut mutations, mut skipped) = (0, 0);
        let mut holds_unreadable = false;
        let end = read_segment(file_system, &segment, policy, async |position, body| {
            let corrupt = |error: BodyError| CommitLogError::Corrupt {
                path: segment.path.clone(),
                offset: u64::from(position.offset),
                reason: error.to_string(),
            };
            let missing = |id| {
                holds_unreadable |= schema.is_unreadable(id);
                summary.unknown = Some(id);
            };
            let decoded = decode(body, schema, &mut translations, missing).map_err(corrupt)?;
            let Some((mut mutation, unknown)) = decoded else { return Ok(()) };
            let before = mutation.updates.len();
            mutation.updates.retain(|update| {
                let discarded = recovered.get(&update.table);
                discarded.is_none_or(|table| !table.is_discarded(segment.shard, position))
            });
            skipped += (unknown + before - mutation.updates.len()) as u64;
            if mutation.updates.is_empty() {
                return Ok(());
            }
            mutations += 1;
            apply(mutation, position).await
        })
        .await?;
        summary.mutations += mutations;
        summary.skipped += skipped;
        if holds_unreadable {
            summary.unreadable.push(segment.clone());
        }
        summary.segments.push((segment.id, segment.path, end));
    }
    Ok(summary)
}

/// Passes each mutation of `segments` to `apply`, for tools that inspect a log. Returns the number
/// of mutations.
///
/// Unlike recovery, it does not skip writes that are in SSTables. It skips updates of tables that
/// `schema` lacks.
///
/// # Errors
/// [`CommitLogError::Corrupt`] for damage, unless `policy` says to skip it; I/O errors; and
/// the errors of `apply`.
pub async fn read_segments(
    file_system: &FileSystem,
    segments: Vec<FoundSegment>,
    policy: ReplayPolicy,
    schema: &Schema,
    apply: impl AsyncFnMut(Mutation, LogPosition) -> Result<(), StorageError>,
) -> Result<u64, StorageError> {
    let nothing = Recovered::default();
    let replayed = replay_segments(file_system, segments, policy, schema, &nothing, apply).await?;
    Ok(replayed.mutations)
}

/// Decodes a record. Calls `missing` with a table that the record describes and the schema lacks.
fn decode(
    body: Bytes,
    schema: &Schema,
    translations: &mut HashMap<u32, Translation>,
    mut missing: impl FnMut(TableId),
) -> Result<Option<(Mutation, usize)>, BodyError> {
    let mut reader = BodyReader::new(body);
    match reader.byte()? {
        KIND_MARKER => Ok(None),
        KIND_COLUMNS => {
            let table_by_id = |id| {
                let table = schema.table_by_id(id).cloned();
                if table.is_none() {
                    missing(id);
                }
                table
            };
            let (number, translation) = Translation::decode(&mut reader, table_by_id)?;
            translations.insert(number, translation);
            Ok(None)
        }
        KIND_MUTATION => decode_mutation(&mut reader, |number| translations.get(&number)).map(Some),
        _ => Err(reader.error("an unknown kind of record")),
    }
}
