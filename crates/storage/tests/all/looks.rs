//! Compares look-ups of one row, which answer at once or not at all, with a read of the row that
//! bypasses the row cache.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    CellRef, Clustering, ClusteringSlice, ClusteringSlices, ColumnData, DecoratedKey, DeletionTime,
    FoundRow, PackedColumn, Row,
    schema::{ColumnId, TableMetadata},
};
use espalier_storage::{Node, ReadCommand, ReadTarget, RowLookup};

use crate::support::*;

/// The cells that a reader sees of a row: column, path, value.
type Seen = Vec<(ColumnId, Option<Bytes>, Bytes)>;

/// Returns the row as a point read of CQL sees it, or `None` if it is not visible. A memtable may
/// have cells of dropped columns; these are left out.
fn seen(table: &TableMetadata, found: &FoundRow<'_>, now_s: u32) -> Option<Seen> {
    let row = found.row.as_ref()?;
    let above = found.partition_deletion.max(found.range_deletion);
    let (deletion, copy) = (row.strongest_deletion(above), Bytes::copy_from_slice);
    let is_seen = |deletion: DeletionTime, cell: &CellRef<'_>| {
        !deletion.deletes(cell.timestamp) && cell.is_live(now_s)
    };
    let mut seen = Vec::new();
    for column in row.columns() {
        let column = column.unwrap();
        let (PackedColumn::Simple(id, _) | PackedColumn::Complex(id, ..)) = column;
        if table.column_by_id(id).is_none() {
            continue;
        }
        match column {
            PackedColumn::Simple(id, cell) => {
                if is_seen(deletion, &cell) {
                    seen.push((id, None, copy(cell.value)));
                }
            }
            PackedColumn::Complex(id, own, cells) => {
                for (path, cell) in cells.map(Result::unwrap) {
                    if is_seen(deletion.max(own), &cell) {
                        seen.push((id, Some(copy(path)), copy(cell.value)));
                    }
                }
            }
        }
    }
    let liveness = row.liveness;
    let is_live = liveness.is_live(now_s) && !deletion.deletes(liveness.timestamp);
    (is_live || !seen.is_empty()).then_some(seen)
}

fn cells(row: &Row) -> Seen {
    let mut cells = Vec::new();
    for (id, data) in &row.columns {
        match data {
            ColumnData::Simple(cell) => cells.push((*id, None, cell.value.clone())),
            ColumnData::Complex(column) => {
                let column = column.cells.iter();
                cells.extend(column.map(|(path, c)| (*id, Some(path.clone()), c.value.clone())));
            }
        }
    }
    cells
}

/// Looks ahead for the row, and checks that no cache counts this as a read.
fn look_ahead(database: &Node, table: &TableMetadata, key: &DecoratedKey, clustering: &Clustering) {
    let counts =
        || (database.store().metrics().page_cache.hits, database.store().row_cache().metrics());
    let before = counts();
    for is_write in [false, true] {
        // In tests a table need not be large for a look-ahead, but must not be empty.
        let Some(mut ahead) = database.store().look_ahead(table) else { continue };
        // Each row twice, as a connection may request it.
        (0..2).for_each(|_| {
            ahead.add(table, key.borrowed(), &clustering.values);
        });
        if is_write { ahead.for_writing() } else { ahead.for_reading() }
    }
    assert_eq!(counts(), before);
}

/// Compares the look-ups of a row with a read. Returns true if the look-up through the caches has
/// an answer.
pub(crate) async fn compare_look(
    database: &Node,
    table: &Arc<TableMetadata>,
    key: DecoratedKey,
    clustering: Clustering,
    now_s: u32,
    context: &str,
) -> bool {
    let lookup = || RowLookup::new(table, key.borrowed(), &clustering.values);
    let take = |found: FoundRow<'_>| seen(table, &found, now_s);
    let look = |bypasses_cache| {
        let mut lookup = lookup().bypassing_cache(bypasses_cache);
        lookup.poll(database.store(), take).known_or(|| None)
    };
    look_ahead(database, table, &key, &clustering);
    let (in_memtable, found) = (look(true), look(false));
    let slices = if clustering.values.is_empty() {
        ClusteringSlices::all()
    } else {
        let slices = vec![ClusteringSlice::prefix(clustering.values.clone())];
        ClusteringSlices { slices }
    };
    let command = ReadCommand {
        slices: Arc::new(slices),
        bypass_cache: true,
        now_s,
        ..command(table, ReadTarget::Partition(key.clone()))
    };
    let read = database.read(command).await.unwrap();
    let row = read.partitions.first().and_then(|partition| partition.rows.first());
    let expected = row.map(cells);
    for found in [&in_memtable, &found].into_iter().flatten() {
        assert_eq!(*found, expected, "{context} {key:?} {clustering:?}");
    }
    let waited = lookup().wait(database.store(), take).await;
    if let Some(waited) = waited.known_or(|| None) {
        assert_eq!(waited, expected, "{context} {key:?} {clustering:?}, page by page");
    }
    found.is_some()
}
