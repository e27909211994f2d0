//! The plain model: all writes, which each read evaluates anew.

use std::collections::BTreeMap;

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ClusteringSlice, ColumnData, ComplexColumn, DecoratedKey, Direction,
    Liveness, PartitionUpdate, Row,
    reconcile::cell_wins,
    schema::{ColumnId, TableMetadata},
};
use espalier_storage::{ColumnSelection, PartitionRows, ReadCommand, ReadTarget};

use crate::support::*;

/// All writes, which each read evaluates anew.
pub(crate) struct Model {
    pub(crate) writes: Vec<PartitionUpdate>,
    /// Time of the reads, in seconds since 1970.
    pub(crate) now_s: u32,
}

impl Default for Model {
    fn default() -> Self {
        Self { writes: Vec::new(), now_s: NOW }
    }
}

impl Model {
    fn of<'a>(
        &'a self,
        key: &'a DecoratedKey,
    ) -> impl Iterator<Item = &'a PartitionUpdate> + Clone {
        self.writes.iter().filter(move |update| update.key == *key)
    }

    /// Returns the timestamp of the strongest deletion over a row. `clustering` is `None` for the
    /// static row, which range deletions do not reach.
    fn deletion(
        &self,
        table: &TableMetadata,
        key: &DecoratedKey,
        clustering: Option<&Clustering>,
    ) -> i64 {
        let mut strongest = i64::MIN;
        for update in self.of(key) {
            strongest = strongest.max(update.deletion.marked_for_delete_at);
            let Some(clustering) = clustering else { continue };
            for range in &update.range_tombstones {
                let slice = ClusteringSlice { start: range.start.clone(), end: range.end.clone() };
                if slice.contains(table.comparator(), clustering.position()) {
                    strongest = strongest.max(range.deletion.marked_for_delete_at);
                }
            }
            for row in update.rows.iter().filter(|row| row.clustering == *clustering) {
                strongest = strongest.max(row.deletion.marked_for_delete_at);
            }
        }
        strongest
    }

    /// Merges rows, all with the same clustering. Returns the visible content, or `None` if there
    /// is none.
    fn reconcile<'a>(
        &self,
        table: &TableMetadata,
        rows: impl Iterator<Item = &'a Row>,
        deletion: i64,
        clustering: Clustering,
    ) -> Option<Row> {
        let mut liveness = Liveness::NONE;
        let mut cells: BTreeMap<(ColumnId, Option<Bytes>), Cell> = BTreeMap::new();
        let mut complex: BTreeMap<ColumnId, i64> = BTreeMap::new();
        for row in rows {
            if row.liveness.supersedes(&liveness) {
                liveness = row.liveness;
            }
            let mut add = |id: ColumnId, path: Option<Bytes>, cell: &Cell| {
                let place = cells.entry((id, path)).or_insert_with(|| cell.clone());
                if !cell_wins(place, cell) {
                    *place = cell.clone();
                }
            };
            for (id, data) in &row.columns {
                match data {
                    ColumnData::Simple(cell) => add(*id, None, cell),
                    ColumnData::Complex(column) => {
                        let at = complex.entry(*id).or_insert(i64::MIN);
                        *at = (*at).max(column.deletion.marked_for_delete_at);
                        column
                            .cells
                            .iter()
                            .for_each(|(path, cell)| add(*id, Some(path.clone()), cell));
                    }
                }
            }
        }
        let mut result = Row::empty(clustering);
        if liveness.is_live(self.now_s) && liveness.timestamp > deletion {
            result.liveness = liveness;
        }
        for ((id, path), cell) in cells {
            let deletion = deletion.max(complex.get(&id).copied().unwrap_or(i64::MIN));
            if cell.timestamp <= deletion || !cell.is_live(self.now_s) {
                continue;
            }
            match path {
                None => result.columns.push((id, ColumnData::Simple(cell))),
                Some(path) => {
                    let empty = || ColumnData::Complex(ComplexColumn::default());
                    if let ColumnData::Complex(column) = result.column_or_insert(id, empty) {
                        column.cells.push((path, cell));
                        column.cells.sort_by(|(a, _), (b, _)| table.compare_paths(id, a, b));
                    }
                }
            }
        }
        (!result.is_empty()).then_some(result)
    }

    fn partition(&self, table: &TableMetadata, key: &DecoratedKey) -> (Option<Row>, Vec<Row>) {
        let statics = self.of(key).filter_map(|update| update.static_row.as_ref());
        let deletion = self.deletion(table, key, None);
        let deletion =
            statics.clone().fold(deletion, |d, row| d.max(row.deletion.marked_for_delete_at));
        let static_row = self.reconcile(table, statics, deletion, Clustering::empty());
        let mut clusterings: Vec<Clustering> = self
            .of(key)
            .flat_map(|update| &update.rows)
            .map(|row| row.clustering.clone())
            .collect();
        clusterings.sort_by(|a, b| table.comparator().compare(a.position(), b.position()));
        clusterings.dedup();
        let rows = clusterings.into_iter().filter_map(|clustering| {
            let rows = self.of(key).flat_map(|update| &update.rows);
            let rows = rows.filter(|row| row.clustering == clustering);
            let deletion = self.deletion(table, key, Some(&clustering));
            self.reconcile(table, rows, deletion, clustering.clone())
        });
        (static_row, rows.collect())
    }

    pub(crate) fn read(&self, command: &ReadCommand) -> Vec<PartitionRows> {
        let mut keys: Vec<DecoratedKey> =
            self.writes.iter().map(|write| write.key.clone()).collect();
        keys.sort();
        keys.dedup();
        let mut partitions = Vec::new();
        for key in keys {
            let wanted = match &command.target {
                ReadTarget::Partition(wanted) => *wanted == key,
                ReadTarget::Range(range) => range.contains(&key),
            };
            if !wanted {
                continue;
            }
            let (static_row, mut rows) = self.partition(&command.table, &key);
            let comparator = command.table.comparator();
            rows.retain(|row| command.slices.contains(comparator, row.clustering.position()));
            if command.direction == Direction::Reverse {
                rows.reverse();
            }
            rows.truncate(command.limits.rows_per_partition);
            if rows.is_empty() && (static_row.is_none() || !command.slices.is_all()) {
                continue;
            }
            let mut partition = PartitionRows { key, static_row, rows };
            if let ColumnSelection::Only(_) = command.columns {
                let all = partition.rows.iter_mut().chain(&mut partition.static_row);
                all.for_each(|row| row.columns.retain(|(id, _)| command.columns.contains(*id)));
            }
            partitions.push(partition);
        }
        partitions
    }
}
