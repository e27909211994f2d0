//! Trace events of a read: the sources, their content, and the tombstones met.
//!
//! Nothing here runs unless the request is traced; callers check that first.

use espalier_mutation::{
    Cell, CellRef, ColumnData, DecoratedKeyRef, DeletionTime, FoundRow, PackedColumn, Row, Token,
    Unfiltered, schema::TableMetadata,
};
use espalier_runtime::{time, trace, trace_event};
use espalier_sstable::{Presence, SSTable};

use crate::{ReadResult, table::TableView};

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
pub(crate) fn trace_sstable(sstable: &SSTable, deletion: DeletionTime, in_detail: bool) {
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
    trace::count(PARTITION_TOMBSTONES, u64::from(!deletion.is_live()));
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
    trace::count(ROW_TOMBSTONES, u64::from(!row.deletion.is_live()));
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

/// Returns and resets the sums of a read.
fn take_counts() -> [u64; 6] {
    [ROWS, PARTITION_TOMBSTONES, RANGE_TOMBSTONES, ROW_TOMBSTONES, CELL_TOMBSTONES, SKIPS]
        .map(trace::take_count)
}

fn trace_counts(live: usize, partitions: usize, more: &str) {
    let [rows, of_partitions, ranges, of_rows, cells, skips] = take_counts();
    let tombstones = of_partitions + ranges + of_rows + cells;
    trace_event!(
        "Read {live} live rows of {partitions} partitions and {tombstones} tombstones \
         ({of_partitions} partition, {ranges} range, {of_rows} row, {cells} cell); \
         read {rows} rows in all sources, skipped {skips} deleted ranges{more}"
    );
}

/// Traces a query of one partition in Cassandra's words.
#[cold]
pub(crate) fn trace_partition_query(table: &str, token: Token, sstables: usize) {
    let token = token.0;
    trace_event!("Executing single-partition query on {table}: token {token}, {sstables} sstables");
}

/// The source in which a look-up of one row ends.
#[derive(Clone, Copy)]
pub(crate) enum RowSource {
    Memtable,
    Cache,
    Files,
}

/// Traces the sources of a look-up of one row. A look-up that resumes after the read of a page has
/// already traced them.
#[cold]
pub(crate) fn trace_row_lookup(
    table: &TableMetadata,
    view: &TableView,
    key: DecoratedKeyRef<'_>,
    is_resumed: bool,
) {
    // An earlier poll may have counted a source and had no answer.
    take_counts();
    trace::take_count(SSTABLES);
    if is_resumed {
        return;
    }
    trace_partition_query(&table.name, key.token, view.sstables.len());
    view.sstables.iter().for_each(|sstable| trace_presence(sstable, key, true));
    if !view.sstables.iter().any(|sstable| sstable.may_contain(key)) {
        trace_event!("Looking for one row of {} in the memtable alone", table.name);
    }
}

/// Traces the row that a look-up found; `None` means that the source has nothing of the partition.
#[cold]
pub(crate) fn trace_found_row(source: RowSource, found: Option<&FoundRow<'_>>) {
    let deletion = found.map(|found| found.partition_deletion);
    match (source, deletion) {
        (RowSource::Memtable, deletion) => trace_memtable(false, deletion, true),
        (RowSource::Cache, Some(deletion)) => {
            record_partition(deletion);
            trace_event!("Partition found in row cache{}", deleted(deletion));
        }
        (RowSource::Cache, None) => trace_event!("Partition found in row cache: no file has it"),
        (RowSource::Files, _) => {}
    }
    let is_live = found.is_some_and(record_found_row);
    trace_counts(usize::from(is_live), usize::from(is_live), "");
}

/// Counts the tombstones in the row and returns whether the row is visible.
fn record_found_row(found: &FoundRow<'_>) -> bool {
    trace::count(RANGE_TOMBSTONES, u64::from(!found.range_deletion.is_live()));
    let Some(row) = &found.row else { return false };
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
    found.visible_cells(now_s, |_| true, |_, _| ()).unwrap_or_default()
}
