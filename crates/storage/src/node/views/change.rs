//! Computes the changes that a write makes in a base table, and so in its views.
//!
//! Memory: the stored rows that the write may change. A deletion of a range or a partition is
//! refused if these rows take more than [`MAX_DELETED_SEGMENTS`] segments. The boundaries of stored
//! range deletions come on top.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ClusteringBound, ClusteringSlice, ClusteringSlices, ColumnData,
    ComplexColumn, DeletionTime, EXPIRED_LIVENESS_TTL, Liveness, PartitionUpdate,
    RangeTombstoneList, Row, Unfiltered, UnfilteredStream,
    reconcile::{MergedPartition, apply_deletion, merge_rows, remove_dropped},
    schema::{ColumnId, TableMetadata},
    split_composite,
};
use espalier_runtime::maybe_yield;

use super::plan::{ViewPlan, ViewRow};
use crate::{Node, ReadCommand, ReadTarget, StorageError, read::sources_of};

/// Maximum size of the rows that one range or partition deletion reads, in segments of the commit
/// log (arbitrary). The deletions of view rows must fit into half a segment.
const MAX_DELETED_SEGMENTS: usize = 4;

/// Bytes that a row and a cell count besides their values.
const ROW_BYTES: usize = 128;

const CELL_BYTES: usize = 32;

/// A change of one row of a view.
#[derive(Clone, Debug)]
pub(super) enum ViewChange {
    /// The row disappears; `newest` is the greatest timestamp of its content, in µs.
    Delete {
        /// The row before the write.
        row: ViewRow,
        newest: i64,
    },
    /// The row appears or changes.
    Put {
        /// The row after the write.
        row: ViewRow,
        /// The new cells of the row, and tombstones of the cells that it loses.
        change: Row,
        /// True if the view had no row at this place before.
        appears: bool,
    },
}

/// The rows of a partition as they are stored, with the deletions in force.
struct StoredRows {
    /// Reconciled rows in clustering order, tombstones included.
    rows: Vec<Row>,
    deletion: DeletionTime,
    /// Positions in clustering order, and the range deletion in force behind each.
    ranges: Vec<(ClusteringBound, DeletionTime)>,
}

impl StoredRows {
    /// Returns the partition or range deletion in force at a row.
    fn deletion_at(&self, table: &TableMetadata, clustering: &Clustering) -> DeletionTime {
        let (comparator, at) = (table.comparator(), clustering.position());
        let is_before =
            |(bound, _): &(ClusteringBound, _)| comparator.compare(bound.position(), at).is_le();
        let index = self.ranges.partition_point(is_before);
        let range = index.checked_sub(1).and_then(|index| self.ranges.get(index));
        range.map_or(self.deletion, |(_, deletion)| self.deletion.max(*deletion))
    }
}

/// Returns the changes that a write to a partition of a table makes in the table's views. This
/// shard owns the partition. The caller holds a turn on the rows.
pub(super) async fn view_changes(
    node: &Node,
    plans: &[Rc<ViewPlan>],
    update: &PartitionUpdate,
    now_s: u32,
) -> Result<Vec<(usize, ViewChange)>, StorageError> {
    let Some(base) = plans.first().map(|plan| plan.base.clone()) else {
        return Ok(Vec::new());
    };
    let slices = written_slices(&base, update);
    if slices.slices.is_empty() {
        return Ok(Vec::new());
    }
    let stored = stored_rows(node, &base, update, slices, now_s).await?;
    let partition = partition_values(&base, update)?;
    let mut ranges = RangeTombstoneList::default();
    update.range_tombstones.iter().for_each(|range| ranges.add(base.comparator(), range));
    let mut changes = Vec::new();
    for (before, written) in paired(&base, &stored.rows, &update.rows) {
        maybe_yield().await;
        let Some(clustering) = before.or(written.first().copied()).map(|row| &row.clustering)
        else {
            continue;
        };
        let written_deletion =
            update.deletion.max(ranges.deletion_at(base.comparator(), clustering.position()));
        let deletion = stored.deletion_at(&base, clustering).max(written_deletion);
        let mut after = before.cloned().unwrap_or_else(|| Row::empty(clustering.clone()));
        for row in written {
            after = merge_rows(&base, after, row.clone());
        }
        apply_deletion(&mut after, deletion);
        remove_dropped(&base, &mut after);
        for (index, plan) in plans.iter().enumerate() {
            let old = before.and_then(|row| plan.row_of(&partition, row, now_s));
            let new = plan.row_of(&partition, &after, now_s);
            compare(&plan.view, old, new, now_s, |change| changes.push((index, change)));
        }
    }
    Ok(changes)
}

/// Returns the rows that a view must have for the base rows at the places of `rows`.
pub(super) async fn whole_view_rows(
    node: &Node,
    plan: &Rc<ViewPlan>,
    rows: &PartitionUpdate,
    now_s: u32,
) -> Result<Vec<ViewRow>, StorageError> {
    let slices = written_slices(&plan.base, rows);
    let stored = stored_rows(node, &plan.base, rows, slices, now_s).await?;
    let partition = partition_values(&plan.base, rows)?;
    let rows = stored.rows.iter();
    Ok(rows.filter_map(|row| plan.row_of(&partition, row, now_s)).collect())
}

/// Reads rows of a partition with their tombstones. Refuses the deletion of a range if it would
/// read more than [`MAX_DELETED_SEGMENTS`], because the rows must fit into memory.
async fn stored_rows(
    node: &Node,
    table: &Arc<TableMetadata>,
    update: &PartitionUpdate,
    slices: ClusteringSlices,
    now_s: u32,
) -> Result<StoredRows, StorageError> {
    let target = ReadTarget::Partition(update.key.clone());
    let slices = Arc::new(slices);
    let all = ReadCommand::of_all(table.clone(), target, now_s);
    let command = ReadCommand { slices, ..all };
    let view = node.store().tables.get(table.id)?.view();
    let sources = sources_of(&view, &command, &update.key, &command.slices).await?;
    let mut stored =
        StoredRows { rows: Vec::new(), deletion: DeletionTime::LIVE, ranges: Vec::new() };
    let merged = MergedPartition::new(table.clone(), command.direction, sources);
    let Some(mut merged) = merged.await? else { return Ok(stored) };
    stored.deletion = merged.header().deletion;
    let is_range = !update.deletion.is_live() || !update.range_tombstones.is_empty();
    let segment_bytes = node.store().configuration.commit_log.segment_bytes as usize;
    let limit = if is_range { segment_bytes * MAX_DELETED_SEGMENTS } else { usize::MAX };
    let mut bytes = 0;
    while let Some(fragment) = merged.next().await? {
        match fragment {
            Unfiltered::Row(mut row) => {
                remove_dropped(table, &mut row);
                bytes += bytes_of(&row);
                if bytes > limit {
                    return Err(StorageError::Unstorable(format!(
                        "a deletion of more than {limit} bytes of rows of {}.{}, which has \
                         materialized views: delete smaller ranges, or drop the views first",
                        table.keyspace, table.name
                    )));
                }
                stored.rows.push(row);
            }
            Unfiltered::Marker(marker) => stored.ranges.push((marker.position, marker.after)),
        }
    }
    Ok(stored)
}

fn bytes_of(row: &Row) -> usize {
    let cell = |cell: &Cell| CELL_BYTES + cell.value.len();
    let columns = row.columns.iter().map(|(_, data)| match data {
        ColumnData::Simple(simple) => cell(simple),
        ColumnData::Complex(column) => {
            column.cells.iter().map(|(path, element)| path.len() + cell(element)).sum()
        }
    });
    ROW_BYTES + columns.sum::<usize>()
}

/// Returns the values of the columns of the partition key.
pub(super) fn partition_values(
    base: &TableMetadata,
    update: &PartitionUpdate,
) -> Result<Vec<Bytes>, StorageError> {
    let count = base.partition_key_columns().len();
    if count == 1 {
        return Ok(vec![update.key.key.clone()]);
    }
    split_composite(&update.key.key, count).map_err(|error| StorageError::Corrupt {
        what: format!("a partition key of {}.{}", base.keyspace, base.name),
        reason: error.to_string(),
    })
}

/// Returns the slices of the rows that a write may change.
pub(super) fn written_slices(base: &TableMetadata, update: &PartitionUpdate) -> ClusteringSlices {
    if !update.deletion.is_live() {
        return ClusteringSlices::all();
    }
    let rows = update.rows.iter().map(|row| ClusteringSlice::prefix(row.clustering.values.clone()));
    let ranges = update.range_tombstones.iter();
    let ranges =
        ranges.map(|range| ClusteringSlice { start: range.start.clone(), end: range.end.clone() });
    ClusteringSlices::normalise(rows.chain(ranges).collect(), base.comparator())
}

/// Pairs the stored rows with the written ones at the same places. The written rows are in any
/// order, and a place may have several.
fn paired<'r>(
    base: &TableMetadata,
    stored: &'r [Row],
    written: &'r [Row],
) -> Vec<(Option<&'r Row>, Vec<&'r Row>)> {
    let comparator = base.comparator();
    let order = |left: &Row, right: &Row| {
        comparator.compare(left.clustering.position(), right.clustering.position())
    };
    let mut written: Vec<&Row> = written.iter().collect();
    written.sort_by(|left, right| order(left, right));
    let mut written = written.into_iter().peekable();
    let mut pairs = Vec::with_capacity(stored.len());
    for row in stored {
        while let Some(new) = written.next_if(|new| order(new, row).is_lt()) {
            add_new(&mut pairs, new, order);
        }
        let mut here = Vec::new();
        while let Some(new) = written.next_if(|new| order(new, row).is_eq()) {
            here.push(new);
        }
        pairs.push((Some(row), here));
    }
    written.for_each(|new| add_new(&mut pairs, new, order));
    pairs
}

/// Adds a written row at a place without a stored one.
fn add_new<'r>(
    pairs: &mut Vec<(Option<&'r Row>, Vec<&'r Row>)>,
    new: &'r Row,
    order: impl Fn(&Row, &Row) -> std::cmp::Ordering,
) {
    match pairs.last_mut() {
        Some((None, rows)) if rows.first().is_some_and(|first| order(first, new).is_eq()) => {
            rows.push(new);
        }
        _ => pairs.push((None, vec![new])),
    }
}

/// Reports the changes that turn the old row of a view into the new one.
fn compare(
    view: &TableMetadata,
    old: Option<ViewRow>,
    new: Option<ViewRow>,
    now_s: u32,
    mut report: impl FnMut(ViewChange),
) {
    let is_same_place = |old: &ViewRow, new: &ViewRow| {
        let order = || {
            let (old, new) = (old.row.clustering.position(), new.row.clustering.position());
            view.comparator().compare(old, new)
        };
        old.key == new.key && order().is_eq()
    };
    match (old, new) {
        (None, None) => {}
        (Some(old), Some(new)) if is_same_place(&old, &new) => {
            let change = difference(view, &old.row, &new.row, now_s);
            if !change.is_empty() {
                report(ViewChange::Put { row: new, change, appears: false });
            }
        }
        (old, new) => {
            if let Some(row) = old {
                let newest = newest_of(&row.row);
                report(ViewChange::Delete { row, newest });
            }
            if let Some(row) = new {
                let change = row.row.clone();
                report(ViewChange::Put { row, change, appears: true });
            }
        }
    }
}

/// Returns the cells of `new` that `old` lacks, and a tombstone for each cell that only `old` has.
/// A tombstone has the timestamp of its cell, and wins over the cell.
fn difference(view: &TableMetadata, old: &Row, new: &Row, now_s: u32) -> Row {
    let mut change = Row::empty(new.clustering.clone());
    if new.liveness != old.liveness {
        change.liveness = new.liveness;
        if new.liveness.is_none() {
            change.liveness = Liveness {
                timestamp: old.liveness.timestamp,
                ttl: EXPIRED_LIVENESS_TTL,
                local_expiration: now_s,
            };
        }
    }
    let mut columns: BTreeMap<ColumnId, (Option<&ColumnData>, Option<&ColumnData>)> =
        old.columns.iter().map(|(id, data)| (*id, (Some(data), None))).collect();
    for (id, data) in &new.columns {
        columns.entry(*id).or_insert((None, None)).1 = Some(data);
    }
    for (id, (old, new)) in columns {
        let changed = match (old, new) {
            (old, new) if old == new => None,
            (Some(ColumnData::Simple(old)), None) => {
                Some(ColumnData::Simple(Cell::tombstone(old.timestamp, now_s)))
            }
            (_, Some(new @ ColumnData::Simple(_))) => Some(new.clone()),
            (old, new) => complex_difference(view, id, old, new, now_s),
        };
        change.columns.extend(changed.map(|data| (id, data)));
    }
    change
}

fn complex_difference(
    view: &TableMetadata,
    id: ColumnId,
    old: Option<&ColumnData>,
    new: Option<&ColumnData>,
    now_s: u32,
) -> Option<ColumnData> {
    fn cells(data: Option<&ColumnData>) -> &[(Bytes, Cell)] {
        match data {
            Some(ColumnData::Complex(column)) => &column.cells,
            _ => &[],
        }
    }
    let (old, new) = (cells(old), cells(new));
    let find = |cells: &[(Bytes, Cell)], path: &Bytes| {
        let found = cells.binary_search_by(|(other, _)| view.compare_paths(id, other, path)).ok();
        found.and_then(|index| cells.get(index).map(|(_, cell)| cell.clone()))
    };
    let mut changed: Vec<(Bytes, Cell)> =
        new.iter().filter(|(path, cell)| find(old, path).as_ref() != Some(cell)).cloned().collect();
    let gone = old.iter().filter(|(path, _)| find(new, path).is_none());
    let gone = gone.map(|(path, cell)| (path.clone(), Cell::tombstone(cell.timestamp, now_s)));
    changed.extend(gone);
    changed.sort_by(|(left, _), (right, _)| view.compare_paths(id, left, right));
    let complex = ComplexColumn { deletion: DeletionTime::LIVE, cells: changed };
    (!complex.cells.is_empty()).then_some(ColumnData::Complex(complex))
}

/// Returns all timestamps of a row's liveness and cells, in µs.
pub(super) fn timestamps_of(row: &Row) -> impl Iterator<Item = i64> + '_ {
    let liveness = (!row.liveness.is_none()).then_some(row.liveness.timestamp);
    let cells = row.columns.iter().flat_map(|(_, data)| {
        let (one, several): (Option<i64>, &[(Bytes, Cell)]) = match data {
            ColumnData::Simple(cell) => (Some(cell.timestamp), &[]),
            ColumnData::Complex(column) => (None, &column.cells),
        };
        one.into_iter().chain(several.iter().map(|(_, cell)| cell.timestamp))
    });
    liveness.into_iter().chain(cells)
}

fn newest_of(row: &Row) -> i64 {
    timestamps_of(row).max().unwrap_or(i64::MIN)
}
