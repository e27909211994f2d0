//! IN on the partition key with ORDER BY: sorts the result rows of all partitions in memory, and
//! keeps only as many as LIMIT allows.
//!
//! Memory: twice the result while its rows are joined, and at most [`MAX_SORTED_BYTES`] of
//! clusterings. The rows of a statement that fails or is cancelled are freed in steps, by a task of
//! its own.

use std::{cmp::Ordering, collections::BTreeMap, rc::Rc};

use bytes::Bytes;
use espalier_mutation::{Clustering, DecoratedKey};
use espalier_runtime::{maybe_yield, shard, spawn_local};
use espalier_storage::{PartitionRows, ReadTarget};
use espalier_types::CqlType;

use super::{
    super::{PlannedSelect, group::Output},
    Execution, Flow, Source, key_components,
    limits::CHUNK_ROWS,
};
use crate::{
    Error, Result,
    current_row::{CurrentRow, RowView},
    restrictions::Partitions,
};

/// Bytes that a row in [`SortedRows`], and a value of its clustering, take besides their content;
/// estimates.
const ROW_BYTES: usize = 80;
const VALUE_BYTES: usize = 32;

/// Maximum memory of the clusterings by which the rows are sorted. Arbitrary: as much as a result
/// may have.
const MAX_SORTED_BYTES: usize = 256 << 20;
const TOO_MANY_ROWS: &str = "The statement sorts too many rows in memory; give it a LIMIT, or read \
                             the partitions one by one";

/// Maximum number of rows that are freed in one step (arbitrary).
const FREED_AT_ONCE: usize = 256;

/// The order of the result rows.
struct SortOrder {
    is_reversed: bool,
    /// The position of each column of ORDER BY among the clustering columns, its type, and true if
    /// its order is descending.
    columns: Vec<(usize, CqlType, bool)>,
}

/// The place of a result row in the answer. Rows with equal clusterings are in the order in which
/// they were read.
struct SortKey {
    order: Rc<SortOrder>,
    clustering: Option<Clustering>,
    number: usize,
}

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.order.compare(self.clustering.as_ref(), other.clustering.as_ref());
        order.then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortKey {}

/// The first result rows in the order of the answer, each encoded.
struct SortedRows {
    order: Rc<SortOrder>,
    rows: BTreeMap<SortKey, Box<[u8]>>,
    /// The maximum number of rows.
    limit: usize,
    /// The number of rows that were added.
    added: usize,
    /// The place of the row or group that is not encoded yet.
    open: Option<SortKey>,
    /// The bytes of the encoded rows.
    bytes: usize,
    /// The memory of the clusterings in bytes; an estimate.
    clustering_bytes: usize,
    /// The number of rows of the current partition.
    of_partition: usize,
    /// The maximum number of rows of a partition.
    max_of_partition: usize,
}

impl SortedRows {
    fn new(order: SortOrder, limit: usize, max_of_partition: usize) -> Self {
        Self {
            order: Rc::new(order),
            rows: BTreeMap::new(),
            limit,
            added: 0,
            open: None,
            bytes: 0,
            clustering_bytes: 0,
            of_partition: 0,
            max_of_partition,
        }
    }

    /// Opens a row or group. Returns `false` if neither it nor a later row of the partition, whose
    /// rows come in the order of the answer, is in the answer.
    fn open(&mut self, clustering: Option<&Clustering>) -> bool {
        if self.of_partition >= self.max_of_partition {
            return false;
        }
        let (order, clustering) = (self.order.clone(), clustering.cloned());
        let key = SortKey { order, clustering, number: self.added };
        let is_full = self.rows.len() >= self.limit;
        if is_full && self.rows.last_key_value().is_some_and(|(last, _)| *last < key) {
            return false;
        }
        self.of_partition += 1;
        self.added += 1;
        self.open = Some(key);
        true
    }

    /// Takes the encoded row that is open from the output.
    fn close(&mut self, output: &mut Output<'_>) {
        let Some(key) = self.open.take() else { return };
        let row: Box<[u8]> = output.content.as_slice().into();
        output.content.clear();
        self.bytes += row.len();
        self.clustering_bytes += bytes_of(&key);
        self.rows.insert(key, row);
        if self.rows.len() > self.limit
            && let Some((key, row)) = self.rows.pop_last()
        {
            self.bytes -= row.len();
            self.clustering_bytes -= bytes_of(&key);
        }
    }

    /// Moves the rows to the output, in their order.
    async fn finish(mut self, output: &mut Output<'_>) {
        output.row_count = 0;
        output.content.reserve_exact(self.bytes);
        while let Some((_, row)) = self.rows.pop_first() {
            maybe_yield().await;
            output.append(&row);
        }
    }
}

impl Drop for SortedRows {
    /// Leaves many rows to a task that frees them in steps, because there may be a million.
    fn drop(&mut self) {
        if self.rows.len() <= FREED_AT_ONCE || shard::loop_report().is_none() {
            return;
        }
        let mut rows = std::mem::take(&mut self.rows);
        spawn_local(async move {
            while rows.pop_first().is_some() {
                maybe_yield().await;
            }
        })
        .detach();
    }
}

impl Execution<'_> {
    /// Collects the result rows of all partitions, sorts them and applies the limit.
    pub(super) async fn read_sorted(
        &mut self,
        source: &Source<'_>,
        partitions: Partitions,
    ) -> Result<()> {
        let Partitions::Keys(keys) = partitions else { return Ok(()) };
        let max_of_partition = self.per_partition_limit.min(self.rows_left);
        let order = SortOrder::of(self.select);
        let mut sorted = SortedRows::new(order, self.rows_left, max_of_partition);
        let collected = self.collect_sorted(source, keys, &mut sorted).await;
        // Without GROUP BY, all rows of an aggregate form one group, which the caller finishes.
        let is_one_group = self.select.is_aggregate && self.select.group_by.is_none();
        if collected.is_err() || is_one_group {
            return collected;
        }
        sorted.finish(&mut self.output).await;
        Ok(())
    }

    async fn collect_sorted(
        &mut self,
        source: &Source<'_>,
        keys: Vec<DecoratedKey>,
        sorted: &mut SortedRows,
    ) -> Result<()> {
        for key in keys {
            sorted.of_partition = 0;
            self.collect_partition(source, key, sorted).await?;
        }
        if self.select.group_by.is_some() && self.output.has_group() {
            self.output.finish_group()?;
            self.close_row(sorted)?;
        }
        Ok(())
    }

    async fn collect_partition(
        &mut self,
        source: &Source<'_>,
        key: DecoratedKey,
        sorted: &mut SortedRows,
    ) -> Result<()> {
        let mut resume = None;
        loop {
            let target = ReadTarget::Partition(key.clone());
            let mut command = self.command(source, target.clone(), resume.take());
            command.limits.rows = CHUNK_ROWS;
            let result = source.database.read(command).await?;
            self.count_tombstones(&result, &target)?;
            for partition in result.partitions {
                if self.collect_rows(partition, sorted).await? != Flow::More {
                    return Ok(());
                }
            }
            match result.next {
                Some(next) => resume = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn collect_rows(
        &mut self,
        partition: PartitionRows,
        sorted: &mut SortedRows,
    ) -> Result<Flow> {
        let select = self.select;
        let components = key_components(&select.table, &partition.key)?;
        self.output.frozen.get_mut().leave_partition();
        // A partition with only a static row counts as a row only if the statement does not
        // restrict the clustering.
        let alone = partition.rows.is_empty()
            && sorted.of_partition == 0
            && select.restrictions.clustering.is_empty();
        let rows = partition.rows.into_iter().map(Some);
        for row in rows.chain(alone.then_some(None)) {
            maybe_yield().await;
            let current = CurrentRow {
                table: &select.table,
                partition_key: &components,
                static_row: partition.static_row.as_ref(),
                row: row.as_ref().map(RowView::Object),
            };
            if !self.filters.accepts(&current, self.output.frozen.get_mut()).await? {
                continue;
            }
            if self.output.begins_group(&current)? {
                self.output.finish_group()?;
                self.close_row(sorted)?;
            }
            if !self.output.has_group() && !sorted.open(row.as_ref().map(|row| &row.clustering)) {
                return Ok(Flow::SkipPartition(partition.key));
            }
            if select.is_aggregate {
                self.output.accumulate(current)?;
            } else {
                self.output.emit(current)?;
                self.close_row(sorted)?;
            }
        }
        Ok(Flow::More)
    }

    /// Takes the encoded row from the output, and checks the size of the rows so far.
    fn close_row(&mut self, sorted: &mut SortedRows) -> Result<()> {
        sorted.close(&mut self.output);
        if sorted.clustering_bytes > MAX_SORTED_BYTES {
            return Err(Error::invalid(TOO_MANY_ROWS));
        }
        self.page.check_unpaged(sorted.bytes)
    }
}

/// Returns the memory of a row besides its content; an estimate.
fn bytes_of(key: &SortKey) -> usize {
    let values = key.clustering.iter().flat_map(|clustering| &clustering.values);
    let of_value = |value: &Option<Bytes>| VALUE_BYTES + value.as_ref().map_or(0, Bytes::len);
    ROW_BYTES + values.map(of_value).sum::<usize>()
}

impl SortOrder {
    /// Returns the order of a sorted SELECT.
    fn of(select: &PlannedSelect) -> Self {
        let types = select.table.clustering_columns();
        let column = |(position, is_descending): &(usize, bool)| {
            let column_type = types.get(*position)?.column_type.clone();
            Some((*position, column_type, *is_descending))
        };
        let columns = select.sort.iter().filter_map(column).collect();
        Self { is_reversed: select.is_reversed, columns }
    }

    /// Compares two result rows. A row without a clustering (of a partition with only a static row)
    /// comes before all others in the table's order.
    fn compare(&self, left: Option<&Clustering>, right: Option<&Clustering>) -> Ordering {
        let against = |order: Ordering| if self.is_reversed { order.reverse() } else { order };
        match (left, right) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => against(Ordering::Less),
            (Some(_), None) => against(Ordering::Greater),
            (Some(left), Some(right)) => self.compare_clusterings(left, right),
        }
    }

    fn compare_clusterings(&self, left: &Clustering, right: &Clustering) -> Ordering {
        for (position, column_type, is_descending) in &self.columns {
            let [left, right] = [left, right].map(|row| {
                row.values.get(*position).and_then(Option::as_deref).unwrap_or_default()
            });
            let order = column_type.compare(left, right);
            let order = if *is_descending { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{block_on, yield_now};

    use super::*;

    #[test]
    fn the_rows_of_a_cancelled_statement_are_freed_later() {
        const ROWS: usize = 10 * FREED_AT_ONCE;
        block_on(async {
            let order = SortOrder { is_reversed: false, columns: Vec::new() };
            let mut sorted = SortedRows::new(order, usize::MAX, usize::MAX);
            let order = sorted.order.clone();
            for number in 0..ROWS {
                let key = SortKey { order: order.clone(), clustering: None, number };
                sorted.rows.insert(key, Box::default());
            }
            drop(sorted);
            // Each row holds the order.
            assert_eq!(Rc::strong_count(&order), ROWS + 1);
            while Rc::strong_count(&order) > 1 {
                yield_now().await;
            }
        });
    }
}
