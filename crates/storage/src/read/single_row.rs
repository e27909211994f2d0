//! Reads of one row: sources are asked from new to old, until nothing older can matter.
//!
//! SSTables come by descending greatest write timestamp. Once every column that is asked for has a cell that is newer
//! than all that the rest holds, and the row is known to exist, the rest is not opened. The condition is Cassandra's for
//! queries of names; multi-cell columns among those asked for read everything. Counters are not read this way.

use std::{rc::Rc, sync::Arc};

use espalier_runtime::trace;

use super::{
    ReadCommand,
    shard_read::{cached_source, may_hold, memtable_sources},
    source::Source,
    trace::{tell_rest_skipped, tell_sstable},
};
use crate::{StorageError, cache::CacheAccess, table::TableView};
use espalier_mutation::{
    Clustering, ClusteringSlices, ColumnData, DecoratedKey, DeletionTime, PartitionHeader, Row,
    RowContent, Unfiltered, UnfilteredStream,
    reconcile::merge_rows,
    schema::{ColumnDefinition, TableMetadata},
};

/// The clustering of the only row that a read can return; `None` if there may be several, or if the static row is
/// asked for too.
pub(super) fn only_row(command: &ReadCommand, slices: &ClusteringSlices) -> Option<Clustering> {
    let table = &command.table;
    if table.is_counter() {
        return None; // counter cells are merged when all deletions are known
    }
    let columns = table.clustering_columns().len();
    if columns == 0 && !table.has_static_columns() {
        return slices.is_all().then(Clustering::empty);
    }
    let wants_static =
        table.static_columns().iter().any(|column| command.columns.contains(column.id));
    let [slice] = slices.slices.as_slice() else { return None };
    let is_row = slice.start.values.len() == columns
        && slice.start.values == slice.end.values
        && slice.start.kind.weight() < 0
        && slice.end.kind.weight() > 0;
    (is_row && !wants_static).then(|| Clustering { values: slice.start.values.clone() })
}

/// What was found so far.
struct Collected<'a> {
    table: &'a TableMetadata,
    command: &'a ReadCommand,
    clustering: Clustering,
    partition_deletion: DeletionTime,
    /// The strongest range deletion over the row.
    range_deletion: DeletionTime,
    row: Option<Row>,
    is_partition_found: bool,
}

/// The row as one stream, merged from as few sources as it takes. Its liveness may be one that was in a source that was
/// not read; then a cell makes the row exist.
pub(super) async fn single_row_source(
    view: &Rc<TableView>,
    command: &ReadCommand,
    key: &DecoratedKey,
    slices: &Arc<ClusteringSlices>,
    clustering: Clustering,
    cache: Option<&CacheAccess>,
) -> Result<Option<Source<'static>>, StorageError> {
    let mut collected = Collected {
        table: &command.table,
        command,
        clustering,
        partition_deletion: DeletionTime::LIVE,
        range_deletion: DeletionTime::LIVE,
        row: None,
        is_partition_found: false,
    };
    for source in memtable_sources(view, command, key, slices)? {
        collected.add(source).await?;
    }
    for (index, sstable) in view.sstables.iter().enumerate() {
        if sstable.is_covered_by(collected.deletion())
            || collected.is_complete_above(sstable.maximum_timestamp())
        {
            if trace::is_on() {
                let why = "what was found is newer than all that they hold";
                tell_rest_skipped(view.sstables.len() - index, why);
            }
            break;
        }
        if let Some(cache) = cache {
            // It holds all of what the files have of the row, and so they are not asked one by one.
            if let Some(source) = cached_source(cache, view, command, key, slices).await? {
                collected.add(source).await?;
            }
            break;
        }
        if !may_hold(sstable, command, key, slices) {
            continue;
        }
        if let Some(stream) = sstable.read_partition(key, slices, command).await? {
            if trace::is_on() {
                tell_sstable(sstable, stream.header().deletion, true);
            }
            collected.add(Source::SSTable(Box::new(stream))).await?;
        }
    }
    Ok(collected.into_source(key))
}

impl Collected<'_> {
    async fn add(&mut self, mut source: Source<'_>) -> Result<(), StorageError> {
        self.is_partition_found = true;
        self.partition_deletion = self.partition_deletion.max(source.header().deletion);
        while let Some(fragment) = source.next().await? {
            match fragment {
                Unfiltered::Row(row) => {
                    self.row = Some(match self.row.take() {
                        Some(newer) => merge_rows(self.table, newer, row),
                        None => row,
                    });
                }
                Unfiltered::Marker(marker) => {
                    // Whichever way the stream walks, what the marker says of the side of the row counts.
                    let comparator = self.table.comparator();
                    let row = self.clustering.position();
                    let is_before = comparator.compare(marker.position.position(), row).is_lt();
                    let over_row = if is_before { marker.after } else { marker.before };
                    self.range_deletion = self.range_deletion.max(over_row);
                }
            }
        }
        Ok(())
    }

    /// The strongest deletion over the row, as far as it is known. What is not newer need not be read: neither data nor
    /// other deletions of it would change the answer.
    fn deletion(&self) -> DeletionTime {
        let above = self.partition_deletion.max(self.range_deletion);
        self.row.as_ref().map_or(above, |row| above.max(row.strongest_deletion()))
    }

    /// Whether what was written at or before `timestamp` cannot change the answer.
    fn is_complete_above(&self, timestamp: i64) -> bool {
        let Some(row) = &self.row else { return false };
        let deletion = self.deletion();
        let exists = row.liveness.timestamp > timestamp
            && row.liveness.is_live(self.command.now_s)
            && !deletion.deletes(row.liveness.timestamp);
        let is_newer = |column: &ColumnDefinition| match row.column(column.id) {
            Some(ColumnData::Simple(cell)) => cell.timestamp > timestamp,
            _ => false,
        };
        let mut columns = self.table.regular_columns().iter();
        if exists {
            return columns.filter(|column| self.command.columns.contains(column.id)).all(is_newer);
        }
        // It may exist by any of its cells; if it does by none, an older liveness decides.
        let is_visible = |data: &ColumnData| match data {
            ColumnData::Simple(cell) => {
                cell.is_live(self.command.now_s) && !deletion.deletes(cell.timestamp)
            }
            ColumnData::Complex(_) => false,
        };
        // A memtable may hold cells of a column that was dropped since: a row does not exist by these.
        let is_known = |id| self.table.column_by_id(id).is_some();
        columns.all(is_newer)
            && row.columns.iter().any(|(id, data)| is_visible(data) && is_known(*id))
    }

    fn into_source(self, key: &DecoratedKey) -> Option<Source<'static>> {
        if !self.is_partition_found {
            return None;
        }
        let mut row = self.row;
        if let Some(found) = &mut row {
            found.deletion = found.deletion.max(self.range_deletion);
        }
        let header = PartitionHeader {
            key: key.clone(),
            deletion: self.partition_deletion,
            static_row: None,
        };
        Some(Source::Row(header, row))
    }
}
