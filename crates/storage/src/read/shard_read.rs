//! Executes a read command on the shard that owns the data, or on one of several owners.
//!
//! If possible, the indexes answer a command with a search (`by_index`). Otherwise this module
//! reads one partition, or passes a range to `range_read`. The sources of a partition are the
//! memtables, and the row cache or the SSTables. A read leaves out each SSTable that a partition
//! deletion covers, or whose metadata rules out the requested rows.

use std::{rc::Rc, sync::Arc};

use espalier_cache::CacheAccess;
use espalier_memtable::MemtablePartition;
use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringSlices, DecoratedKey, DeletionTime, KeyRange,
    UnfilteredStream,
};
use espalier_runtime::{trace, trace_event};
use espalier_sstable::SSTable;
use futures_util::future::LocalBoxFuture;

use super::{
    by_index::{Indexed, read_indexed},
    cached_source::cached_source,
    partition::{Remaining, Resumed, read_partition},
    range_read::read_range,
    single_row::{only_row, single_row_source},
    source::{FileSource, Source},
    trace::{trace_memtable, trace_presence, trace_rest_skipped, trace_sstable},
};
use crate::{
    ReadCommand, ReadPosition, ReadResult, ReadTarget, StorageError,
    empty_ranges::{EmptyRangeAccess, EmptyRangeRecorder},
    table::TableView,
};

/// The data of a read: a snapshot of the table, and the caches as of the same moment.
#[derive(Clone, Copy)]
pub(crate) struct TableAccess<'a> {
    pub(crate) view: &'a Rc<TableView>,
    pub(crate) cache: Option<&'a CacheAccess>,
    pub(crate) empty: Option<&'a EmptyRangeAccess>,
}

/// Reads a table. `own` is the range of partitions that this shard owns. A read of a range skips
/// all other partitions, which SSTables may hold.
///
/// The future is boxed, because it is deep and large, and would make the futures of all callers
/// large, too. Because of the box, the compiler also compiles the future once here, and not again
/// in each program that reads.
pub(crate) fn read_on_shard<'a>(
    access: TableAccess<'a>,
    command: &'a ReadCommand,
    own: &'a KeyRange,
) -> LocalBoxFuture<'a, Result<ReadResult, StorageError>> {
    Box::pin(read_sources(access, command, own))
}

async fn read_sources(
    access: TableAccess<'_>,
    command: &ReadCommand,
    own: &KeyRange,
) -> Result<ReadResult, StorageError> {
    if command.search.is_some() && command.flat.is_some() {
        let objects = ReadCommand { flat: None, ..command.clone() };
        return Box::pin(read_sources(access, &objects, own)).await;
    }
    let mut remaining = Remaining::of(&command.limits);
    if remaining.is_used_up() || command.limits.rows_per_partition == 0 {
        return Ok(ReadResult::default());
    }
    let has_files = !access.view.sstables.is_empty();
    let cache = access.cache.filter(|_| !command.bypass_cache && has_files);
    let access = TableAccess { cache, ..access };
    let mut passed_in_vain = 0;
    if let Some(search) = &command.search {
        match read_indexed(access, command, search, own, &mut remaining).await? {
            Indexed::Answered(result) => return Ok(result),
            Indexed::Scan { passed_entries } => passed_in_vain = passed_entries,
        }
        trace_event!(
            "Indexes are not built for all data here, or cost more; reading all rows of the target"
        );
    }
    let mut result = match &command.target {
        ReadTarget::Partition(key) => {
            let mut result = ReadResult::default();
            let resume = command.resume.as_ref().filter(|position| position.key == *key);
            let stopped =
                read_one(access, command, key, resume, &mut remaining, &mut result).await?;
            // Behind the only partition there is nothing.
            result.next = stopped.filter(|position| position.clustering.is_some());
            result.dropped = remaining.dropped();
            result.is_cut_by_tombstones = remaining.has_dropped_enough(0) && result.next.is_some();
            result
        }
        ReadTarget::Range(range) => {
            let range = intersection(range, own);
            read_range(access, command, range, remaining).await?
        }
    };
    result.passed_entries = passed_in_vain;
    Ok(result)
}

/// Reads one partition into `result`. Returns the position to resume at if a limit was reached.
pub(crate) async fn read_one(
    access: TableAccess<'_>,
    command: &ReadCommand,
    key: &DecoratedKey,
    resume: Option<&ReadPosition>,
    remaining: &mut Remaining,
    result: &mut ReadResult,
) -> Result<Option<ReadPosition>, StorageError> {
    let TableAccess { view, cache, empty } = access;
    let (mut slices, mut resumed) = (command.slices.clone(), Resumed::default());
    if let Some(position) = resume {
        let Some(rest) = slices_after_last_row(command, position).await else { return Ok(None) };
        (slices, resumed) = (rest, Resumed::at(position));
    }
    let is_scanned = cache.is_some_and(|access| access.scan.is_some());
    let only_row = only_row(command, &slices);
    // A single row is read without the empty-range cache.
    let empty = empty.filter(|_| only_row.is_none());
    let mut recorder = EmptyRangeRecorder::within(empty, command, key, &slices);
    let sources = match only_row.filter(|_| !is_scanned) {
        Some(row) => {
            let row = single_row_source(view, command, key, &slices, row, cache).await?;
            row.into_iter().collect()
        }
        None => match cache {
            Some(cache) => {
                let mut sources = memtable_sources(view, command, key, &slices)?;
                if !is_all_covered(view, &sources) {
                    sources.extend(cached_source(cache, view, command, key, &slices).await?);
                }
                sources
            }
            None => sources_of(view, command, key, &slices).await?,
        },
    };
    let stopped =
        read_partition(command, key, sources, resumed, remaining, &mut recorder, result).await?;
    recorder.end_slice(key, &slices);
    Ok(stopped)
}

/// Returns the slices behind the last row of a position, or `None` if there are none.
pub(super) async fn slices_after_last_row(
    command: &ReadCommand,
    position: &ReadPosition,
) -> Option<Arc<ClusteringSlices>> {
    let last = position.clustering.as_ref()?;
    let comparator = command.table.comparator();
    if comparator.types.is_empty() {
        return None;
    }
    let kind = command.direction.order(BoundKind::ExclusiveStart, BoundKind::ExclusiveEnd).0;
    let reached = ClusteringBound { kind, values: last.values.clone() };
    let rest =
        espalier_cache::slices_behind(&command.slices, comparator, &reached, command.direction);
    let rest = rest.await;
    (!rest.slices.is_empty()).then(|| Arc::new(rest))
}

/// Opens the streams that may hold something of a partition: those of the memtables, then those of
/// the SSTables in descending order of their maximum timestamp.
pub(crate) async fn sources_of(
    view: &TableView,
    command: &ReadCommand,
    key: &DecoratedKey,
    slices: &Arc<ClusteringSlices>,
) -> Result<Vec<Source<'static>>, StorageError> {
    let mut sources = memtable_sources(view, command, key, slices)?;
    let strongest =
        sources.iter().fold(DeletionTime::LIVE, |all, source| all.max(source.header().deletion));
    let files = file_sources(view, command, key, slices, strongest).await?;
    sources.extend(files.into_iter().map(Source::File));
    Ok(sources)
}

/// Returns whether a partition deletion in the memtables covers all SSTables.
pub(super) fn is_all_covered(view: &TableView, memtables: &[Source<'_>]) -> bool {
    let deletion =
        memtables.iter().fold(DeletionTime::LIVE, |all, source| all.max(source.header().deletion));
    // SSTables are sorted by descending maximum timestamp.
    let is_covered = view.sstables.first().is_none_or(|newest| newest.is_covered_by(deletion));
    if is_covered && trace::is_on() {
        trace_rest_skipped(view.sstables.len(), "the partition was deleted later");
    }
    is_covered
}

/// Opens the streams of the SSTables. `strongest` is the strongest partition deletion in the
/// memtables, or `LIVE`.
pub(crate) async fn file_sources(
    view: &TableView,
    command: &ReadCommand,
    key: &DecoratedKey,
    slices: &Arc<ClusteringSlices>,
    mut strongest: DeletionTime,
) -> Result<Vec<FileSource<'static>>, StorageError> {
    let mut sources = Vec::new();
    for (index, sstable) in view.sstables.iter().enumerate() {
        // SSTables are sorted by descending maximum timestamp: after the first covered one, all are
        // covered.
        if sstable.is_covered_by(strongest) {
            if trace::is_on() {
                trace_rest_skipped(view.sstables.len() - index, "the partition was deleted later");
            }
            break;
        }
        if !may_hold(sstable, command, key, slices) {
            continue;
        }
        if let Some(stream) =
            sstable.read_partition(key, slices, command.direction, command.bypass_cache).await?
        {
            let deletion = stream.header().deletion;
            if trace::is_on() {
                trace_sstable(sstable, deletion, is_traced_in_detail(command));
            }
            strongest = strongest.max(deletion);
            sources.push(FileSource::SSTable(Box::new(stream)));
        }
    }
    Ok(sources)
}

/// Returns whether the trace has an event for each source. A scan has too many sources for that.
fn is_traced_in_detail(command: &ReadCommand) -> bool {
    trace::is_on() && matches!(command.target, ReadTarget::Partition(_))
}

/// Returns whether an SSTable may hold something of a partition's slices, according to its metadata
/// in memory.
pub(crate) fn may_hold(
    sstable: &SSTable,
    command: &ReadCommand,
    key: &DecoratedKey,
    slices: &ClusteringSlices,
) -> bool {
    let may_hold =
        sstable.may_contain(key.borrowed()) && sstable.may_contain_slices(&command.table, slices);
    if is_traced_in_detail(command) {
        trace_presence(sstable, key.borrowed(), may_hold);
    }
    may_hold
}

/// Opens the streams of the memtables.
pub(crate) fn memtable_sources(
    view: &TableView,
    command: &ReadCommand,
    key: &DecoratedKey,
    slices: &Arc<ClusteringSlices>,
) -> Result<Vec<Source<'static>>, StorageError> {
    let mut sources = Vec::with_capacity(2);
    let (table, limits) = (&command.table, &command.limits);
    let wanted_rows = limits.rows.min(limits.rows_per_partition);
    for memtable in view.memtables() {
        let stream =
            MemtablePartition::open(memtable, table, key, slices, command.direction, wanted_rows)?;
        if trace::is_on() {
            let is_flushing = !Rc::ptr_eq(memtable, &view.memtable);
            let deletion = stream.as_ref().map(|stream| stream.header().deletion);
            trace_memtable(is_flushing, deletion, is_traced_in_detail(command));
        }
        sources.extend(stream.map(|stream| Source::Memtable(Box::new(stream))));
    }
    Ok(sources)
}

/// Returns the intersection of two ranges. `own` is bounded by tokens or unbounded.
pub(super) fn intersection(range: &KeyRange, own: &KeyRange) -> KeyRange {
    let start = match (range.start.token(), own.start.token()) {
        (None, _) => &own.start,
        (Some(token), Some(first)) if token < first => &own.start,
        _ => &range.start,
    };
    let end = match (range.end.token(), own.end.token()) {
        (None, _) => &own.end,
        (Some(token), Some(last)) if token > last => &own.end,
        _ => &range.end,
    };
    KeyRange { start: start.clone(), end: end.clone() }
}
