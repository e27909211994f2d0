//! Trace events of a read: the sources, their content, and the tombstones met.
//!
//! Nothing here runs unless the request is traced; callers check that first.

use espalier_memtable::RowLookup;
use espalier_mutation::{
    Cell, CellRef, ColumnData, DecoratedKeyRef, DeletionTime, PackedColumn, Row, Unfiltered,
};
use espalier_runtime::{time, trace, trace_event};
use espalier_sstable::{Presence, SSTable};

use super::ReadResult;
use crate::table::TableView;

const ROWS: &str = "rows";
const PARTITION_TOMBSTONES: &str = "partition tombstones";
const RANGE_TOMBSTONES: &str = "range tombstones";
const ROW_TOMBSTONES: &str = "row tombstones";
const CELL_TOMBSTONES: &str = "cell tombstones";
const SKIPS: &str = "skips";
const SSTABLES: &str = "sstables";

/// Traces whether an SSTable may hold a partition, before its files are read.
#[cold]
pub(crate) fn trace_presence(sstable: &SSTable, key: DecoratedKeyRef<'_>, slices_fit: bool) {
    let name = sstable.descriptor();
    match sstable.reader().presence(key) {
        Presence::OutsideOfRange => trace_event!("Key range allows skipping sstable {name}"),
        Presence::FilteredOut => trace_event!("Bloom filter allows skipping sstable {name}"),
        _ if !slices_fit => trace_event!("Clustering bounds allow skipping sstable {name}"),
        Presence::Maybe => {
            trace_event!("Bloom filter says that sstable {name} may have the partition");
        }
        Presence::NoFilter => trace_event!("There is no bloom filter of sstable {name}"),
    }
}

/// Traces that the rest of a table's SSTables is not needed.
#[cold]
pub(super) fn trace_rest_skipped(count: usize, why: &str) {
    trace_event!("Skipping {count} older sstables: {why}");
}

/// Counts the partition tombstone of a memtable, if there is one. With `in_detail`, adds an event
/// that says whether the memtable has the partition.
#[cold]
pub(super) fn trace_memtable(is_flushing: bool, deletion: Option<DeletionTime>, in_detail: bool) {
    deletion.into_iter().for_each(record_partition);
    let which = if is_flushing { "memtable that is being flushed" } else { "memtable" };
    match deletion {
        _ if !in_detail => {}
        None => trace_event!("Partition not found in {which}"),
        Some(deletion) => trace_event!("Partition found in {which}{}", deleted(deletion)),
    }
}

/// Counts the partition tombstone of an SSTable, if there is one. With `in_detail`, also counts the
/// SSTable and adds an event.
#[cold]
pub(super) fn trace_sstable(sstable: &SSTable, deletion: DeletionTime, in_detail: bool) {
    record_partition(deletion);
    if in_detail {
        trace::count(SSTABLES, 1);
        trace_event!("Partition found in sstable {}{}", sstable.descriptor(), deleted(deletion));
    }
}

fn deleted(deletion: DeletionTime) -> &'static str {
    if deletion.is_live() { "" } else { ", with a partition tombstone" }
}

/// Counts the partition deletion of a source.
pub(super) fn record_partition(deletion: DeletionTime) {
    if !deletion.is_live() {
        trace::count(PARTITION_TOMBSTONES, 1);
    }
}

/// Counts a fragment of a source.
#[cold]
pub(crate) fn record_fragment(fragment: &Unfiltered) {
    match fragment {
        Unfiltered::Row(row) => record_row(row),
        // A range tombstone has two markers; only its start counts.
        Unfiltered::Marker(marker) if !marker.after.is_live() => trace::count(RANGE_TOMBSTONES, 1),
        Unfiltered::Marker(_) => {}
    }
}

fn record_row(row: &Row) {
    let now_s = u32::try_from(time::now_seconds_coarse()).unwrap_or(u32::MAX);
    let empty = |cell: &Cell| u64::from(!cell.is_live(now_s));
    let cells = row.columns.iter().map(|(_, data)| match data {
        ColumnData::Simple(cell) => empty(cell),
        ColumnData::Complex(column) => {
            let elements = column.cells.iter().map(|(_, cell)| empty(cell)).sum::<u64>();
            elements + u64::from(!column.deletion.is_live())
        }
    });
    trace::count(CELL_TOMBSTONES, cells.sum());
    trace::count(ROWS, 1);
    if !row.deletion.is_live() {
        trace::count(ROW_TOMBSTONES, 1);
    }
}

/// Counts a skip over data that this source or another one has deleted.
#[cold]
pub(super) fn record_skip() {
    trace::count(SKIPS, 1);
}

/// Traces that a scan reads an SSTable.
#[cold]
pub(super) fn trace_scanned(sstable: &SSTable) {
    trace::count(SSTABLES, 1);
    trace_event!("Scanning sstable {}", sstable.descriptor());
}

/// Traces the totals of a command.
#[cold]
pub(crate) fn trace_result(result: &ReadResult) {
    let sstables = trace::take_count(SSTABLES);
    trace_event!("Merged data from memtables and {sstables} sstables");
    let live = result.live_rows();
    let partitions = result.partitions.len() + result.flat.partitions.len();
    let more = if result.next.is_some() { "; there may be more" } else { "" };
    trace_counts(live, partitions, more);
}

fn trace_counts(live: usize, partitions: usize, more: &str) {
    let [rows, of_partitions, ranges, of_rows, cells, skips] =
        [ROWS, PARTITION_TOMBSTONES, RANGE_TOMBSTONES, ROW_TOMBSTONES, CELL_TOMBSTONES, SKIPS]
            .map(trace::take_count);
    let tombstones = of_partitions + ranges + of_rows + cells;
    trace_event!(
        "Read {live} live rows of {partitions} partitions and {tombstones} tombstones \
         ({of_partitions} partition, {ranges} range, {of_rows} row, {cells} cell); \
         read {rows} rows in all sources, skipped {skips} deleted ranges{more}"
    );
}

/// Traces, for a look-up that only the memtable answers, why each SSTable was skipped.
#[cold]
pub(crate) fn trace_point_sources(view: &TableView, key: DecoratedKeyRef<'_>) {
    for sstable in view.sstables.iter() {
        trace_presence(sstable, key, true);
    }
}

/// Traces the row that the memtable holds; `None` means that it holds nothing of the partition.
#[cold]
pub(crate) fn trace_point(lookup: Option<&RowLookup<'_>>) {
    trace_memtable(false, lookup.map(|lookup| lookup.partition_deletion), true);
    let is_live = lookup.is_some_and(record_lookup);
    trace_counts(usize::from(is_live), usize::from(is_live), "");
}

/// Counts the tombstones in the row and returns whether the row is visible.
fn record_lookup(lookup: &RowLookup<'_>) -> bool {
    if !lookup.range_deletion.is_live() {
        trace::count(RANGE_TOMBSTONES, 1);
    }
    let Some(row) = &lookup.row else { return false };
    let now_s = u32::try_from(time::now_seconds_coarse()).unwrap_or(u32::MAX);
    let count_cell =
        |cell: CellRef<'_>| trace::count(CELL_TOMBSTONES, u64::from(!cell.is_live(now_s)));
    for column in row.columns().flatten() {
        match column {
            PackedColumn::Simple(_, cell) => count_cell(cell),
            PackedColumn::Complex(_, own, elements) => {
                trace::count(CELL_TOMBSTONES, u64::from(!own.is_live()));
                elements.flatten().for_each(|(_, cell)| count_cell(cell));
            }
        }
    }
    trace::count(ROWS, 1);
    trace::count(ROW_TOMBSTONES, u64::from(!row.deletion.is_live()));
    lookup.visible_cells(now_s, |_| true, |_, _| ()).unwrap_or_default()
}
