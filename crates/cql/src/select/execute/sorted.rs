//! IN on the partition key with ORDER BY: sorts the result rows of all partitions in memory.
//!
//! Memory: the result, and at most [`MAX_SORTED_BYTES`] of clusterings.

use std::{cmp::Ordering, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{Clustering, ClusteringSlices, DecoratedKey};
use espalier_runtime::maybe_yield;
use espalier_storage::{Node, PartitionRows, ReadTarget};

use super::{super::PlannedSelect, Execution, Flow, key_components, limits::CHUNK_ROWS};
use crate::{
    Error, Result,
    current_row::{CurrentRow, RowView},
    restrictions::Partitions,
};

/// Bytes that a row in [`RowsToSort`], and a value of its clustering, take besides their content;
/// estimates.
const ROW_BYTES: usize = 48;
const VALUE_BYTES: usize = 32;

/// Maximum memory of the clusterings by which the rows are sorted. Arbitrary: as much as a result
/// may have.
const MAX_SORTED_BYTES: usize = 256 << 20;
const TOO_MANY_ROWS: &str = "The statement sorts too many rows in memory; give it a LIMIT, or read \
                             the partitions one by one";

/// The result rows in the order in which they were read.
#[derive(Default)]
struct RowsToSort {
    /// The clustering of each row, and the offset of its content in the output.
    rows: Vec<(Option<Clustering>, usize)>,
    /// The number of rows of the current partition.
    of_partition: usize,
    /// The number of rows of each partition that may be in the answer. A partition's rows come in
    /// the order of the answer.
    max_of_partition: usize,
    /// The memory of the clusterings in bytes; an estimate.
    clustering_bytes: usize,
}

impl Execution<'_> {
    /// Collects the result rows of all partitions, sorts them and applies the limit.
    pub(super) async fn read_sorted(
        &mut self,
        database: &Node,
        partitions: Partitions,
        slices: Arc<ClusteringSlices>,
        now_s: u32,
    ) -> Result<()> {
        let Partitions::Keys(keys) = partitions else { return Ok(()) };
        let select = self.select;
        let limit = self.rows_left;
        let max_of_partition = self.per_partition_limit.min(limit);
        let mut found = RowsToSort { max_of_partition, ..RowsToSort::default() };
        for key in keys {
            found.of_partition = 0;
            self.collect_partition(database, key, &slices, now_s, &mut found).await?;
        }
        if select.is_aggregate && select.group_by.is_none() {
            return Ok(()); // All rows form one group, which the caller finishes.
        }
        if self.output.has_group() {
            self.output.finish_group()?;
        }
        self.output.sort(found.rows, limit, |left, right| compare(select, left, right));
        Ok(())
    }

    async fn collect_partition(
        &mut self,
        database: &Node,
        key: DecoratedKey,
        slices: &Arc<ClusteringSlices>,
        now_s: u32,
        found: &mut RowsToSort,
    ) -> Result<()> {
        let mut resume = None;
        loop {
            let target = ReadTarget::Partition(key.clone());
            let mut command = self.command(target.clone(), slices.clone(), resume.take(), now_s);
            command.limits.rows = CHUNK_ROWS;
            let result = database.read(command).await?;
            self.count_tombstones(&result, &target)?;
            for partition in result.partitions {
                if self.collect_rows(partition, found).await? != Flow::More {
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
        found: &mut RowsToSort,
    ) -> Result<Flow> {
        let select = self.select;
        let components = key_components(&select.table, &partition.key)?;
        self.output.frozen.get_mut().leave_partition();
        // A partition with only a static row counts as a row only if the statement does not
        // restrict the clustering.
        let alone = partition.rows.is_empty()
            && found.of_partition == 0
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
            if self.output.begins_group(&current) {
                self.output.finish_group()?;
            }
            if !self.output.has_group() {
                if found.of_partition >= found.max_of_partition {
                    return Ok(Flow::SkipPartition(partition.key));
                }
                found.of_partition += 1;
                let clustering = row.as_ref().map(|row| row.clustering.clone());
                found.clustering_bytes += clustering.as_ref().map_or(0, bytes_of) + ROW_BYTES;
                found.rows.push((clustering, self.output.content.len()));
            }
            if select.is_aggregate {
                self.output.accumulate(current)?
            } else {
                self.output.emit(current)?
            }
            self.page_is_full()?;
            if found.clustering_bytes > MAX_SORTED_BYTES {
                return Err(Error::invalid(TOO_MANY_ROWS));
            }
        }
        Ok(Flow::More)
    }
}

/// Returns the bytes of a clustering; an estimate.
fn bytes_of(clustering: &Clustering) -> usize {
    let values = clustering.values.iter();
    values.map(|value| VALUE_BYTES + value.as_ref().map_or(0, Bytes::len)).sum()
}

/// Compares two result rows of a sorted SELECT. A row without a clustering (of a partition with
/// only a static row) comes before all others in the table's order.
fn compare(
    select: &PlannedSelect,
    left: Option<&Clustering>,
    right: Option<&Clustering>,
) -> Ordering {
    let against = |order: Ordering| if select.is_reversed { order.reverse() } else { order };
    match (left, right) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => against(Ordering::Less),
        (Some(_), None) => against(Ordering::Greater),
        (Some(left), Some(right)) => compare_clusterings(select, left, right),
    }
}

fn compare_clusterings(select: &PlannedSelect, left: &Clustering, right: &Clustering) -> Ordering {
    let columns = select.table.clustering_columns();
    for (position, descending) in &select.sort {
        let value =
            |row: &Clustering| row.values.get(*position).cloned().flatten().unwrap_or_default();
        let order = columns.get(*position).map_or(Ordering::Equal, |column| {
            column.column_type.compare(&value(left), &value(right))
        });
        let order = if *descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
