//! Partitions of one row: the partitions of a table without clustering and static columns.
//!
//! A partition has one entry, which is at the row's position. An entry without a row says that the
//! partition has no row. A partition deletion is kept as the deletion of the row.

use std::sync::Arc;

use espalier_mutation::{
    Clustering, DecoratedKey, DecoratedKeyRef, Direction, FoundRow, Row, Unfiltered,
    UnfilteredStream, path, reconcile::MergedPartition, schema::TableMetadata,
};

use crate::{CacheError, Inner, TableCache, entry::Entry, populate::min_bytes};

/// Merges the sources of a partition of one row into that row. A partition deletion becomes the
/// deletion of the row.
///
/// # Errors
///
/// Returns the errors of the sources.
pub async fn only_row_of<S: UnfilteredStream>(
    sources: Vec<S>,
    table: &Arc<TableMetadata>,
    direction: Direction,
) -> Result<Option<Row>, S::Error> {
    let Some(mut merged) = MergedPartition::new(table.clone(), direction, sources).await? else {
        return Ok(None);
    };
    let deletion = merged.header().deletion;
    let mut found = None;
    while let Some(fragment) = merged.next().await? {
        if let Unfiltered::Row(row) = fragment {
            found = Some(row);
        }
    }
    if !deletion.is_live() {
        let row = found.get_or_insert_with(|| Row::empty(Clustering::empty()));
        row.deletion = row.deletion.max(deletion);
    }
    Ok(found)
}

/// Adds the result of a look-up that read cached pages. The row is in one file only, or in none.
pub fn add_cached_row<V: AsRef<[u8]>>(
    cache: &TableCache,
    table: &TableMetadata,
    key: DecoratedKeyRef<'_>,
    clustering: &[Option<V>],
    found: &FoundRow<'_>,
) {
    let format = cache.format();
    // Without an exact format, the path does not give the clustering values back, and the entry
    // would need their written form.
    if !format.is_exact || table.has_static_columns() {
        return;
    }
    let mut buffer = cache.path.borrow_mut();
    cache.put_partition(cache.ticket().number, key, &mut buffer);
    let length = buffer.len();
    path::put_row(table.comparator(), clustering, &mut buffer);
    let (prefix, place) = buffer.split_at(length);
    let inner = &mut *cache.cache.0.borrow_mut();
    inner.metrics.reads_with_misses += 1;
    inner.metrics.row_misses += 1;
    let row = found.row.map(|row| row.bytes());
    let FoundRow { partition_deletion, range_deletion, .. } = *found;
    if format.is_single_row {
        if partition_deletion.is_live() && range_deletion.is_live() {
            inner.add_only_row(prefix, row);
        }
    } else if let Some(row) = row
        && inner.add_header(prefix, partition_deletion, &[])
    {
        inner.add_row(prefix, place, range_deletion, row);
    }
}

impl TableCache {
    /// Returns the row of a partition of one row. Returns `None` if the cache does not know the
    /// partition, and `Some(None)` if there is no row.
    ///
    /// # Errors
    ///
    /// Fails if the row is damaged.
    pub fn single_row(
        &self,
        table: &TableMetadata,
        key: &DecoratedKey,
    ) -> Result<Option<Option<Row>>, CacheError> {
        let format = self.format();
        let row_of = |found: FoundRow<'_>| {
            found.row.map(|row| format.row_of(table, &[], row.bytes())).transpose()
        };
        let found = self.look_up::<&[u8], _>(table, key.borrowed(), &[], row_of);
        Ok(found.known_or(|| Ok(None)).transpose()?)
    }

    /// Adds a partition of one row, unless the row is too large. Returns the length in bytes of
    /// path and row; for a row that is too large, a lower bound.
    pub fn add_single_row(&self, key: DecoratedKeyRef<'_>, row: Option<&Row>) -> usize {
        let mut buffer = self.path.borrow_mut();
        self.put_partition(self.ticket().number, key, &mut buffer);
        let least = row.map_or(0, min_bytes);
        if self.cache.0.borrow().is_too_large(least) {
            return least + buffer.len();
        }
        let mut bytes = Vec::new();
        if let Some(row) = row {
            self.format().store_row(row, &mut bytes);
        }
        self.cache.0.borrow_mut().add_only_row(&buffer, row.map(|_| bytes.as_slice()));
        bytes.len() + buffer.len()
    }
}

impl Inner {
    /// Adds a partition of one row, unless it has an entry already. Returns `false` if there is no
    /// room or the row is too large.
    pub(super) fn add_only_row(&mut self, prefix: &[u8], row: Option<&[u8]>) -> bool {
        let place = &[path::FIRST_ROW];
        if self.get(prefix, place).is_some() {
            return true;
        }
        self.make_room();
        self.add(prefix, place, Entry::only(row))
    }
}
