//! Consumes the rows of a chunk: filters, groups and encodes them up to the limits of the page.

use bytes::Bytes;
use espalier_mutation::{DecoratedKey, Row};
use espalier_runtime::maybe_yield;
use espalier_storage::{FlatRows, PartitionRows, ReadPosition};

use super::{Execution, Flow, key_components};
use crate::{
    Result,
    current_row::{CurrentRow, FlatRow, RowView},
};

/// Maximum number of flat rows between two calls of `maybe_yield`, if the statement calls no
/// functions and reads no static column, which may be large (arbitrary).
const FLAT_ROWS_AT_ONCE: usize = 64;
/// Bytes of flat rows between two calls of `maybe_yield`. Arbitrary: a copy of them takes some
/// microseconds.
const FLAT_BYTES_AT_ONCE: usize = 32 * 1024;

/// A partition of a chunk, without its rows.
struct Found<'p> {
    key: &'p DecoratedKey,
    components: &'p [Bytes],
    static_row: Option<&'p Row>,
    /// True if the partition is the last one of the chunk.
    is_last: bool,
    /// True if rows may follow the partition.
    more: bool,
    /// True if an earlier chunk or page has a result row of the partition.
    is_continued: bool,
}

impl Execution<'_> {
    /// Consumes the rows of a chunk. `more` is true if rows may follow the chunk.
    pub(super) async fn consume(
        &mut self,
        partitions: Vec<PartitionRows>,
        more: bool,
    ) -> Result<Flow> {
        let count = partitions.len();
        for (index, partition) in partitions.into_iter().enumerate() {
            let PartitionRows { key, static_row, rows } = partition;
            let components = key_components(&self.select.table, &key)?;
            let is_last = index + 1 == count;
            let found = self.enter(&key, &components, static_row.as_ref(), is_last, more);
            if self.select.shows_partitions() || rows.is_empty() {
                if self.show_partition(&found, rows.first()).await? == Flow::Done {
                    return Ok(Flow::Done);
                }
                maybe_yield().await;
                continue;
            }
            let row_count = rows.len();
            for (index, row) in rows.into_iter().enumerate() {
                maybe_yield().await;
                let more = found.more || index + 1 < row_count;
                let view = Some(RowView::Object(&row));
                if self.tests_rows() && !self.accepts(&found, view).await? {
                    continue;
                }
                match self.take_row(&found, view, more)? {
                    Flow::More => {}
                    Flow::SkipPartition(_) if !found.is_last => break,
                    flow => return Ok(flow),
                }
            }
        }
        Ok(Flow::More)
    }

    /// Consumes flat rows as [`Self::consume`] consumes `Row` objects.
    pub(super) async fn consume_flat(&mut self, flat: FlatRows, more: bool) -> Result<Flow> {
        let Some(planned) = &self.select.flat else { return Ok(Flow::More) };
        let columns = &planned.columns;
        let FlatRows { partitions, ends, values } = flat;
        let buffer = Bytes::from(values);
        let (mut start, mut row_at, count) = (0, 0, partitions.len());
        let may_take_long = planned.reads_static || self.output.calls_functions();
        let rows_at_once = if may_take_long { 1 } else { FLAT_ROWS_AT_ONCE };
        let (mut rows_left, mut batch_end) = (rows_at_once, FLAT_BYTES_AT_ONCE);
        // The loop frees each partition after its rows. Freeing many partitions together would
        // block the core.
        for (index, partition) in partitions.into_iter().enumerate() {
            let components = key_components(&self.select.table, &partition.key)?;
            let (static_row, is_last) = (partition.static_row.as_ref(), index + 1 == count);
            let found = self.enter(&partition.key, &components, static_row, is_last, more);
            let rows = ends.get(row_at..partition.rows_end).unwrap_or_default();
            if rows.is_empty() {
                if self.show_partition(&found, None).await? == Flow::Done {
                    return Ok(Flow::Done);
                }
                maybe_yield().await;
                continue;
            }
            row_at = partition.rows_end;
            let mut is_skipped = false;
            for (index, &end) in rows.iter().enumerate() {
                rows_left -= 1;
                if rows_left == 0 || end > batch_end {
                    (rows_left, batch_end) = (rows_at_once, end + FLAT_BYTES_AT_ONCE);
                    maybe_yield().await;
                }
                let values = buffer.get(start..end).unwrap_or_default();
                start = end;
                if is_skipped {
                    continue;
                }
                let row = Some(RowView::Flat(FlatRow { columns, values, buffer: &buffer }));
                if self.tests_rows() && !self.accepts(&found, row).await? {
                    continue;
                }
                match self.take_row(&found, row, found.more || index + 1 < rows.len())? {
                    Flow::More => {}
                    Flow::SkipPartition(_) if !found.is_last => is_skipped = true,
                    flow => return Ok(flow),
                }
            }
        }
        Ok(Flow::More)
    }

    fn enter<'p>(
        &mut self,
        key: &'p DecoratedKey,
        components: &'p [Bytes],
        static_row: Option<&'p Row>,
        is_last: bool,
        more: bool,
    ) -> Found<'p> {
        // If a page ended among tombstones, it may have returned no row of the partition at which
        // this page begins.
        let has_shown = |from: &ReadPosition| from.rows_of_partition > 0 && from.key == *key;
        self.output.frozen.get_mut().leave_partition();
        let is_continued = self.last_key.as_ref().is_some_and(|last| last == key)
            || self.resumed.as_ref().is_some_and(has_shown);
        if !is_continued {
            self.partition_rows = 0;
        }
        Found { key, components, static_row, is_last, more: more || !is_last, is_continued }
    }

    /// Consumes a partition that may count as one row: with DISTINCT, in a compact table without
    /// clustering columns, or if it has only a static row.
    async fn show_partition(&mut self, found: &Found<'_>, first: Option<&Row>) -> Result<Flow> {
        let select = self.select;
        let shows_partitions = select.shows_partitions();
        // A partition with only a static row counts as a row only if the statement does not
        // restrict the clustering.
        let is_shown = if select.table.is_static_compact() {
            found.static_row.is_some()
        } else {
            shows_partitions || select.restrictions.clustering.is_empty()
        };
        if !is_shown || found.is_continued {
            return Ok(Flow::More);
        }
        let row = first.filter(|_| shows_partitions).map(RowView::Object);
        if !self.accepts(found, row).await? {
            return Ok(Flow::More);
        }
        self.row(found, row, found.more)
    }

    /// Returns whether the filters must test the next row. [`Self::take_row`] drops the row without
    /// a test if the partition has enough rows.
    #[inline]
    fn tests_rows(&self) -> bool {
        !self.filters.is_empty() && !self.has_enough_rows()
    }

    /// Returns whether the partition has reached PER PARTITION LIMIT. For aggregates, [`Self::row`]
    /// checks the limit where a group begins.
    #[inline]
    fn has_enough_rows(&self) -> bool {
        !self.select.is_aggregate && self.partition_rows >= self.per_partition_limit
    }

    /// Returns whether the filters accept a row.
    async fn accepts(&mut self, found: &Found<'_>, row: Option<RowView<'_>>) -> Result<bool> {
        let current = CurrentRow {
            table: &self.select.table,
            partition_key: found.components,
            static_row: found.static_row,
            row: row.filter(|_| !self.select.shows_partitions()),
        };
        self.filters.accepts(&current, self.output.frozen.get_mut()).await
    }

    /// Consumes a row that the filters accept, unless the partition has enough rows.
    fn take_row(
        &mut self,
        found: &Found<'_>,
        row: Option<RowView<'_>>,
        more: bool,
    ) -> Result<Flow> {
        if self.has_enough_rows() {
            return Ok(Flow::SkipPartition(found.key.clone()));
        }
        self.row(found, row, more)
    }

    /// Consumes a row that the filters accept.
    fn row(&mut self, found: &Found<'_>, row: Option<RowView<'_>>, more: bool) -> Result<Flow> {
        let row = row.filter(|_| !self.select.shows_partitions());
        let current = CurrentRow {
            table: &self.select.table,
            partition_key: found.components,
            static_row: found.static_row,
            row,
        };
        let position = |rows_of_partition| ReadPosition {
            key: found.key.clone(),
            clustering: row.and_then(RowView::clustering),
            rows_of_partition,
        };
        if self.select.is_aggregate {
            if self.output.begins_group(&current)? {
                self.output.finish_group()?;
                self.rows_left -= 1;
                if self.rows_left == 0 {
                    self.next = None;
                    // The limit is reached with a complete group, so the result ends here.
                    return Ok(Flow::Done);
                }
                if self.page_is_full()? {
                    self.next = self.last_grouped.clone();
                    return Ok(Flow::Done);
                }
            }
            if !self.output.has_group() {
                if self.partition_rows >= self.per_partition_limit {
                    return Ok(Flow::SkipPartition(found.key.clone()));
                }
                self.partition_rows += 1;
            }
            self.output.accumulate(current)?;
            if !self.select.groups_partitions() {
                let is_grouped = self.select.group_by.is_some();
                self.last_grouped = is_grouped.then(|| position(self.partition_rows));
            } else if self.last_key.as_ref() != Some(found.key) {
                // A full page ends after this partition.
                let at = position(self.partition_rows);
                self.last_grouped = Some(ReadPosition { clustering: None, ..at });
            }
            self.set_last_key(found.key);
            return Ok(Flow::More);
        }
        self.output.emit(current)?;
        self.partition_rows += 1;
        self.rows_left -= 1;
        if self.rows_left == 0 {
            return Ok(Flow::Done);
        }
        if self.page_is_full()? {
            self.next = more.then(|| position(self.partition_rows));
            return Ok(Flow::Done);
        }
        self.set_last_key(found.key);
        Ok(Flow::More)
    }

    #[inline]
    fn set_last_key(&mut self, key: &DecoratedKey) {
        if self.last_key.as_ref() != Some(key) {
            self.last_key = Some(key.clone());
        }
    }
}
