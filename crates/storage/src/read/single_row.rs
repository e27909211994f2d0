//! Reads one row: the memtables first, then the SSTables from new to old, until no remaining one
//! can change the result.
//!
//! SSTables are sorted by descending maximum timestamp. The read does not open the remaining
//! SSTables if a deletion covers them, or if the row exists and every requested column has a cell
//! newer than everything in them. If the row exists only by a cell, every regular column of the
//! table needs such a cell. A column with several cells never counts as newer. Cassandra has a
//! similar condition for queries by names. Counters are not read this way.

use std::{rc::Rc, sync::Arc};

use espalier_cache::CacheAccess;
use espalier_runtime::trace;

use super::{
    cached_source::cached_source,
    shard_read::{may_hold, memtable_sources},
    source::{FileSource, Source},
    trace::{trace_rest_skipped, trace_sstable},
};
use crate::{ReadCommand, StorageError, table::TableView};
use espalier_mutation::{
    Clustering, ClusteringSlices, ColumnData, DecoratedKey, DeletionTime, PartitionHeader, Row,
    RowContent, Unfiltered, UnfilteredStream, Visibility,
    reconcile::merge_rows,
    schema::{ColumnDefinition, TableMetadata},
};

/// Returns the clustering of the only row that a read can return; `None` if there may be several,
/// or if the static row is requested too.
pub(super) fn only_row(command: &ReadCommand, slices: &ClusteringSlices) -> Option<Clustering> {
    let table = &command.table;
    if table.is_counter() {
        return None; // Counter cells are merged when all deletions are known.
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

/// The content of the row that the read has found so far.
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

/// Returns the row as one stream, merged from as few sources as possible. The row's liveness may be
/// missing if a source was not read; then a cell makes the row exist.
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
                let why = "the row that was found is newer than their content";
                trace_rest_skipped(view.sstables.len() - index, why);
            }
            break;
        }
        if let Some(cache) = cache {
            // The cache has everything that the SSTables hold of the row, so they are not read one
            // by one.
            if let Some(source) = cached_source(cache, view, command, key, slices).await? {
                collected.add(source).await?;
            }
            break;
        }
        if !may_hold(sstable, command, key, slices) {
            continue;
        }
        if let Some(stream) =
            sstable.read_partition(key, slices, command.direction, command.bypass_cache).await?
        {
            if trace::is_on() {
                trace_sstable(sstable, stream.header().deletion, true);
            }
            collected.add(Source::File(FileSource::SSTable(Box::new(stream)))).await?;
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
                    // Whichever direction the stream has, the deletion on the row's side of the
                    // marker counts.
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

    /// Returns the strongest deletion over the row among those found so far. Older data and older
    /// deletions cannot change the result, so they need not be read.
    fn deletion(&self) -> DeletionTime {
        let above = self.partition_deletion.max(self.range_deletion);
        self.row.as_ref().map_or(above, |row| above.max(row.strongest_deletion()))
    }

    /// Returns whether writes at or before `timestamp` cannot change the result.
    fn is_complete_above(&self, timestamp: i64) -> bool {
        let Some(row) = &self.row else { return false };
        let above = self.partition_deletion.max(self.range_deletion);
        let visibility = Visibility::new(row, above, self.command.now_s);
        let exists = row.liveness.timestamp > timestamp && visibility.shows_liveness(&row.liveness);
        let is_newer = |column: &ColumnDefinition| match row.column(column.id) {
            Some(ColumnData::Simple(cell)) => cell.timestamp > timestamp,
            _ => false,
        };
        let mut columns = self.table.regular_columns().iter();
        if exists {
            return columns.filter(|column| self.command.columns.contains(column.id)).all(is_newer);
        }
        // Any visible cell makes the row exist; without one, an older liveness decides.
        let is_visible = |data: &ColumnData| match data {
            ColumnData::Simple(cell) => visibility.shows_cell(&cell.into()),
            ColumnData::Complex(_) => false,
        };
        // A memtable may hold cells of a column that was dropped since; they do not make the row
        // exist.
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
