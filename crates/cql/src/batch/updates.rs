//! Collects the changes of a batch's statements as one mutation, in which each row occurs once.
//!
//! Many statements may write one row. If the mutation had the row once for each statement, the
//! commit log and the memtable would take quadratic time without a yield, because each occurrence
//! costs time proportional to the row. Here, the rows are merged in pairs, then the results in
//! pairs, and so on. That takes O(n log n), and yields. The range deletions of a partition are made
//! disjoint (`range_deletions`), for the same reason.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use espalier_mutation::{
    ColumnData, DecoratedKey, Mutation, PartitionUpdate, Row, counter, path,
    reconcile::merge_rows,
    schema::{TableId, TableMetadata},
};
use espalier_runtime::maybe_yield;
use smallvec::SmallVec;

use super::range_deletions::disjoint;
use crate::{
    Result,
    guard::Guard,
    modify::{Clocks, CurrentRows, PlannedModification, WrittenRows},
    read_budget::check_changes,
    term::Evaluation,
};

/// Collects the partition updates of a batch's statements.
#[derive(Debug, Default)]
pub struct BatchUpdates {
    updates: BTreeMap<(TableId, DecoratedKey), CollectedUpdate>,
    /// Bytes of the rows of all statements ([`bytes_of`]).
    bytes: usize,
}

/// The changes of one partition. A row may occur more than once.
#[derive(Debug)]
struct CollectedUpdate {
    table: Arc<TableMetadata>,
    /// The changes without the static row.
    update: PartitionUpdate,
    static_rows: Vec<Row>,
}

impl BatchUpdates {
    /// Adds the changes of one statement.
    ///
    /// # Errors
    /// As [`PlannedModification::guarded_updates_at`], or the statements so far write too much.
    pub fn add(
        &mut self,
        statement: &PlannedModification,
        written: &WrittenRows,
        evaluation: &Evaluation<'_>,
        clocks: Clocks,
        current: CurrentRows<'_>,
        guard: Guard<'_>,
    ) -> Result<()> {
        let updates = statement.guarded_updates_at(written, evaluation, clocks, current, guard)?;
        for mut update in updates {
            let static_row = update.static_row.take();
            let rows = update.rows.iter().chain(&static_row);
            self.bytes += rows.map(bytes_of).sum::<usize>();
            match self.updates.entry((update.table, update.key.clone())) {
                Entry::Vacant(entry) => {
                    let table = statement.table.clone();
                    let static_rows = static_row.into_iter().collect();
                    entry.insert(CollectedUpdate { table, update, static_rows });
                }
                Entry::Occupied(mut entry) => {
                    let CollectedUpdate { update: collected, static_rows, .. } = entry.get_mut();
                    collected.deletion = collected.deletion.max(update.deletion);
                    collected.rows.append(&mut update.rows);
                    collected.range_tombstones.append(&mut update.range_tombstones);
                    static_rows.extend(static_row);
                }
            }
        }
        check_changes(self.bytes)
    }

    /// Returns all collected updates as one mutation, in which each row occurs once. Only rows of
    /// counter tables may occur more than once: the storage adds up their changes, but merging them
    /// would keep only the last change.
    pub async fn into_mutation(self) -> Mutation {
        let mut updates = Vec::with_capacity(self.updates.len());
        for CollectedUpdate { table, mut update, static_rows } in self.updates.into_values() {
            maybe_yield().await;
            if table.is_counter() {
                update.static_row = counted(static_rows).await;
            } else {
                update.static_row = merged(&table, static_rows.into()).await;
                update.rows = distinct(&table, update.rows).await;
                update.range_tombstones =
                    disjoint(table.comparator(), update.range_tombstones).await;
            }
            updates.push(update);
        }
        updates.retain(|update| !update.is_empty());
        Mutation { updates }
    }
}

/// Returns the bytes that the values, columns and cells of a row take in memory. A null has no
/// value, but takes as much memory as another cell.
fn bytes_of(row: &Row) -> usize {
    let cells = row.columns.iter().map(|(_, data)| match data {
        ColumnData::Simple(_) => 0,
        ColumnData::Complex(column) => size_of_val(&column.cells[..]),
    });
    row.page_bytes() + size_of_val(&row.columns[..]) + cells.sum::<usize>()
}

/// Adds up the changes of counters in static rows. Returns `None` if there are none.
async fn counted(static_rows: Vec<Row>) -> Option<Row> {
    let mut rows = static_rows.into_iter();
    let mut sum = rows.next()?;
    for row in rows {
        maybe_yield().await;
        counter::join_changes(&mut sum, row);
    }
    Some(sum)
}

/// Merges rows with equal clusterings (1 and 1.0 are equal).
async fn distinct(table: &TableMetadata, rows: Vec<Row>) -> Vec<Row> {
    if rows.len() < 2 {
        return rows;
    }
    let comparator = table.comparator();
    let mut is_ascending = true;
    for pair in rows.windows(2) {
        maybe_yield().await;
        let [earlier, later] = pair else { continue };
        let (earlier, later) = (earlier.clustering.position(), later.clustering.position());
        is_ascending = comparator.compare(earlier, later).is_lt();
        if !is_ascending {
            break;
        }
    }
    if is_ascending {
        return rows;
    }
    let mut groups: BTreeMap<Vec<u8>, SmallVec<[Row; 1]>> = BTreeMap::new();
    for row in rows {
        maybe_yield().await;
        let mut path = Vec::new();
        path::put_row(comparator, &row.clustering.values, &mut path);
        groups.entry(path).or_default().push(row);
    }
    let mut distinct = Vec::with_capacity(groups.len());
    for group in groups.into_values() {
        maybe_yield().await;
        distinct.extend(merged(table, group).await);
    }
    distinct
}

/// Merges rows with the same clustering. Returns `None` if there are none.
async fn merged(table: &TableMetadata, mut rows: SmallVec<[Row; 1]>) -> Option<Row> {
    while rows.len() > 1 {
        let mut pairs = SmallVec::with_capacity(rows.len().div_ceil(2));
        let mut unmerged = rows.into_iter();
        while let Some(left) = unmerged.next() {
            maybe_yield().await;
            pairs.push(match unmerged.next() {
                Some(right) => merge_rows(table, left, right),
                None => left,
            });
        }
        rows = pairs;
    }
    rows.pop()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use espalier_mutation::{Cell, Clustering, ComplexColumn, schema::ColumnId};

    use super::*;

    #[test]
    fn nulls_count_with_the_memory_of_their_cells() {
        let null = |number| (ColumnId(number), ColumnData::Simple(Cell::tombstone(1, 1)));
        let mut row = Row::empty(Clustering::default());
        row.columns = (0..1000).map(null).collect();
        assert!(bytes_of(&row) >= size_of_val(&row.columns[..]));
    }

    #[test]
    fn elements_of_a_collection_count_with_the_memory_of_their_cells() {
        let cell = |number: u16| {
            (Bytes::copy_from_slice(&number.to_be_bytes()), Cell::live(1, Bytes::new()))
        };
        let column = ComplexColumn { cells: (0..1000).map(cell).collect(), ..Default::default() };
        let bytes = size_of_val(&column.cells[..]);
        let mut row = Row::empty(Clustering::default());
        row.columns = vec![(ColumnId(0), ColumnData::Complex(column))];
        assert!(bytes_of(&row) >= bytes);
    }
}
