//! Reads the SSTables' content of a partition through the row cache.

use std::{rc::Rc, sync::Arc};

use espalier_cache::{CacheAccess, CacheView, CachedPartition, only_row_of, trace_look};
use espalier_mutation::{
    ClusteringSlices, DecoratedKey, DeletionTime, Direction, Unfiltered, schema::TableMetadata,
};
use espalier_runtime::trace;

use super::{
    shard_read::file_sources,
    source::{FileSource, Source},
    trace::record_fragment,
};
use crate::{ReadCommand, StorageError, table::TableView};

/// The view of a table that the row cache reads through.
#[derive(Clone)]
pub(crate) struct ReadView {
    view: Rc<TableView>,
    command: ReadCommand,
}

impl ReadView {
    pub(super) fn new(view: &Rc<TableView>, command: &ReadCommand) -> Self {
        Self { view: view.clone(), command: command.clone() }
    }
}

impl CacheView for ReadView {
    type Error = StorageError;
    type Stream = FileSource<'static>;

    fn table(&self) -> &Arc<TableMetadata> {
        &self.command.table
    }

    fn direction(&self) -> Direction {
        self.command.direction
    }

    fn wanted_rows(&self) -> usize {
        self.command.limits.rows.min(self.command.limits.rows_per_partition)
    }

    async fn open_files(
        &self,
        key: &DecoratedKey,
        slices: &Arc<ClusteringSlices>,
    ) -> Result<Vec<FileSource<'static>>, StorageError> {
        file_sources(&self.view, &self.command, key, slices, DeletionTime::LIVE).await
    }

    fn maximum_timestamp(&self) -> i64 {
        // SSTables are sorted by descending maximum timestamp, and all data of the cache is from
        // SSTables.
        self.view.sstables.first().map_or(i64::MAX, |newest| newest.maximum_timestamp())
    }

    fn sees_all_writes(&self) -> bool {
        !self.view.memtable.is_frozen()
    }

    fn oldest_in_memory(&self, key: &DecoratedKey) -> Option<i64> {
        self.view.oldest_in_memory(key, &mut Vec::new())
    }

    fn record(&self, fragment: &Unfiltered) {
        record_fragment(fragment);
    }
}

/// Opens the SSTables' content of a partition. The parts that are continuous in the row cache come
/// from the row cache; the rest comes from the files.
pub(super) async fn cached_source(
    access: &CacheAccess,
    view: &Rc<TableView>,
    command: &ReadCommand,
    key: &DecoratedKey,
    slices: &Arc<ClusteringSlices>,
) -> Result<Option<Source<'static>>, StorageError> {
    let table = &command.table;
    if table.clustering_columns().is_empty() && !table.has_static_columns() {
        return read_single_row(access, view, command, key).await.map(Some);
    }
    let view = ReadView::new(view, command);
    let partition = CachedPartition::open(access, view, key, slices).await?;
    Ok(partition.map(|partition| Source::Cached(Box::new(partition))))
}

/// Reads the SSTables' content of a one-row partition from the row cache. On a miss, reads the
/// SSTables, and adds the row to the cache if the read may add rows.
async fn read_single_row(
    access: &CacheAccess,
    view: &TableView,
    command: &ReadCommand,
    key: &DecoratedKey,
) -> Result<Source<'static>, StorageError> {
    let CacheAccess { cache, ticket, .. } = access;
    let known = if cache.is_valid(*ticket) { cache.single_row(&command.table, key)? } else { None };
    trace_look(&known);
    let row = match known {
        Some(row) => {
            if trace::is_on()
                && let Some(row) = &row
            {
                record_fragment(&Unfiltered::Row(row.clone()));
            }
            row
        }
        None => {
            let all = Arc::new(ClusteringSlices::all());
            let sources = file_sources(view, command, key, &all, DeletionTime::LIVE).await?;
            let row = only_row_of(sources, &command.table, command.direction).await?;
            cache.count(|metrics| {
                metrics.reads_with_misses += 1;
                metrics.row_misses += 1;
            });
            if access.may_add() {
                cache.add_single_row(key.borrowed(), row.as_ref());
            }
            row
        }
    };
    Ok(Source::only_row(key.clone(), row))
}
