//! Reading back what an earlier run has left in the commit log.
//!
//! Each shard replays the segments of its own number into its memtables; if the number of shards has changed, writes go
//! to the shard that owns them now, everything is flushed, and the old segments are removed. Otherwise the old segments
//! are kept as they are until ordinary flushes have made them unneeded, so that a restart writes nothing.
//!
//! What an SSTable of this node says to hold (commit log intervals in its statistics) is left out, and so is what compactions have
//! left nothing of, what came before a truncation, and what belongs to tables that are gone. Replaying something twice is harmless as long as the
//! deletions that cover it are there. Where compactions have purged them it would come back for good; so all files tell what they have of the
//! log, those that are flushed while it is replayed, too.

mod host_id;
mod schema;

pub(crate) use host_id::load_or_make_host_id;
pub(crate) use schema::{SchemaContents, described_system_keyspaces, schema_of};

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Mutation,
    schema::{Schema, TableId},
};
use espalier_runtime::file::FileSystem;
use hashbrown::HashMap;

use crate::{
    StorageError,
    commitlog::{
        BodyError, BodyReader, FoundSegment, KIND_COLUMNS, KIND_MARKER, KIND_MUTATION, LogPosition,
        ReplayPolicy, SettledWrites, Translation, decode_mutation, joined, read_segment,
    },
    table::TruncationRecord,
};

/// What is known of a table before its writes are replayed.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableRecovery {
    /// Parts of the commit log whose writes are in SSTables, or were in some of which nothing was left: in order and apart, see
    /// [`arrange`].
    pub(crate) flushed: Vec<(LogPosition, LogPosition)>,
    pub(crate) truncation: Option<TruncationRecord>,
}

impl TableRecovery {
    /// The greatest segment id that files and truncations speak of.
    pub(crate) fn greatest_segment(&self) -> Option<u64> {
        let flushed = self.flushed.iter().map(|(_, end)| end.segment);
        let truncated = self.truncation.iter().flat_map(|record| &record.positions);
        flushed.chain(truncated.map(|position| position.segment)).max()
    }

    /// Whether a write at this place must not be replayed.
    fn is_settled(&self, shard: u32, position: LogPosition) -> bool {
        let behind = self.flushed.partition_point(|(start, _)| *start <= position);
        self.flushed[..behind].last().is_some_and(|(_, end)| position < *end)
            || self.truncation.as_ref().is_some_and(|record| record.covers(shard, position))
    }
}

/// What is known of all tables.
pub(crate) type TableRecoveries = HashMap<TableId, TableRecovery, foldhash::fast::FixedState>;

/// The same, for all shards.
pub(crate) type Recovered = Arc<TableRecoveries>;

/// Adds the parts of the log of whose writes compactions have left nothing, and puts all parts in order.
pub(crate) fn arrange(recovered: &mut TableRecoveries, settled: &SettledWrites) {
    for (table, intervals) in settled {
        if let Some(recovery) = recovered.get_mut(&TableId(*table)) {
            recovery.flushed.extend(intervals);
        }
    }
    for recovery in recovered.values_mut() {
        recovery.flushed = joined(std::mem::take(&mut recovery.flushed), None, usize::MAX);
    }
}

/// What a shard's replay did.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplaySummary {
    /// The segments as they were read: id, file, end.
    pub(crate) segments: Vec<(u64, PathBuf, u32)>,
    pub(crate) mutations: u64,
    /// Updates that were in SSTables, truncated, or of tables that are gone.
    pub(crate) skipped: u64,
    /// The segments that hold writes of tables that this node cannot read.
    pub(crate) unreadable: Vec<PathBuf>,
}

/// Reads segments and gives each mutation that is still wanted to `apply`, with its place in the log.
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
            let corrupt = |error: BodyError| StorageError::CommitLogCorrupt {
                path: segment.path.clone(),
                offset: u64::from(position.offset),
                reason: error.to_string(),
            };
            let unreadable = &mut holds_unreadable;
            let decoded = decode(body, schema, &mut translations, unreadable).map_err(corrupt)?;
            let Some((mut mutation, unknown)) = decoded else { return Ok(()) };
            let before = mutation.updates.len();
            mutation.updates.retain(|update| {
                let settled = recovered.get(&update.table);
                settled.is_none_or(|table| !table.is_settled(segment.shard, position))
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
            summary.unreadable.push(segment.path.clone());
        }
        summary.segments.push((segment.id, segment.path.clone(), end));
    }
    Ok(summary)
}

/// Gives each mutation of segments to `apply`, as recovery would that knows of no SSTable: for those who look into a log. Returns
/// how many there were. Updates of tables that `schema` does not have are left out.
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

fn decode(
    body: Bytes,
    schema: &Schema,
    translations: &mut HashMap<u32, Translation>,
    holds_unreadable: &mut bool,
) -> Result<Option<(Mutation, usize)>, BodyError> {
    let mut reader = BodyReader::new(body);
    match reader.byte()? {
        KIND_MARKER => Ok(None),
        KIND_COLUMNS => {
            let table_by_id = |id| {
                *holds_unreadable |= schema.is_unreadable(id);
                schema.table_by_id(id).cloned()
            };
            let (number, translation) = Translation::decode(&mut reader, table_by_id)?;
            translations.insert(number, translation);
            Ok(None)
        }
        KIND_MUTATION => decode_mutation(&mut reader, |number| translations.get(&number)).map(Some),
        _ => Err(reader.error("an unknown kind of record")),
    }
}
