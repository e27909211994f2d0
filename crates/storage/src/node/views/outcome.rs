//! Turns a change of a view's row into a write after which the view has the wanted row, whatever
//! timestamps the row had before.
//!
//! The cells of a view have the timestamps of the base table's cells. But the view may hold greater
//! timestamps: those of a deleted row that comes back, or of tombstones that compactions have
//! removed from the base table and not yet from the view. The write must win over them. So the
//! shard that owns the view's row checks if it stores anything newer than the write. Usually it
//! stores nothing newer, as the timestamps of memtables and SSTables show. Otherwise the shard
//! merges the write with the stored row. If the result is not the wanted row, the write gets later
//! timestamps.
//!
//! If a regular column of the base row is in the view's key, the view's row comes and goes while
//! the other cells of the base row stay, with their timestamps. So a shadowable deletion deletes
//! it, as in earlier versions of Cassandra; a later liveness makes that deletion void. If all
//! columns of the key are in the base table's key, the view's row lives as long as the base row,
//! and an ordinary deletion deletes it. A view has only one kind of deletion, because Cassandra
//! cannot read a row with both.

use std::sync::Arc;

use espalier_memtable::MemtablePartition;
use espalier_mutation::{
    Cell, ClusteringSlice, ClusteringSlices, ColumnData, ComplexColumn, DecoratedKey, DeletionTime,
    Direction, PartitionHeader, PartitionUpdate, Row, Unfiltered, UnfilteredStream,
    reconcile::MergedPartition, schema::TableMetadata,
};

use super::{
    change::{ViewChange, timestamps_of},
    plan::ViewRow,
};
use crate::{
    ColumnSelection, Node, ReadCommand, ReadTarget, StorageError,
    read::{FileSource, Source, keep_live, may_hold, sources_of},
    shard::{newest_of, newest_of_row, timestamp_of},
    table::TableView,
};

/// Returns the write that makes a change of a view's row, on the shard that owns the row;
/// `None` if the view was dropped. `moves` is true if a regular column of the base table is in
/// the view's key. The caller holds a turn on the base row.
pub(super) async fn view_write(
    node: &Node,
    table: &Arc<TableMetadata>,
    moves: bool,
    change: ViewChange,
    now_s: u32,
) -> Result<Option<PartitionUpdate>, StorageError> {
    let Ok(found) = node.store().tables.get(table.id) else { return Ok(None) };
    let stored = found.view();
    let (key, row) = match change {
        ViewChange::Delete { row: ViewRow { key, row }, newest } => {
            let mut newest = newest;
            if newest_of(&stored) > newest {
                let stored = newest_stored(&stored, table, &key, &row, newest).await?;
                newest = newest.max(stored.of_all);
            }
            let deletion = DeletionTime::new(newest, now_s);
            let mut deleted = Row::empty(row.clustering);
            if moves {
                deleted.shadowable_deletion = deletion;
            } else {
                deleted.deletion = deletion;
            }
            (key, deleted)
        }
        ViewChange::Put { row: ViewRow { key, row }, change, appears } => {
            let place = Place { stored: &stored, table, key: &key, now_s };
            let oldest = timestamps_of(&change).min().unwrap_or(i64::MAX);
            let floor = oldest.saturating_sub(1);
            // A liveness makes a shadowable deletion void, and brings back older cells.
            let revives = moves && appears && !has_all_columns(table, &change);
            let change = if newest_of(&stored) <= floor && !revives {
                change
            } else {
                place.put(change, row, floor, revives, moves).await?
            };
            (key, change)
        }
    };
    Ok(Some(update_of(table, key, row)))
}

/// Returns the write that gives a view the row, or `None` if the view has exactly this row or
/// was dropped. The stored row may have content that does not follow from the base row, so the
/// shard checks the write against all of it, whatever its timestamps.
pub(super) async fn view_repair(
    node: &Node,
    table: &Arc<TableMetadata>,
    moves: bool,
    wanted: ViewRow,
    now_s: u32,
) -> Result<Option<PartitionUpdate>, StorageError> {
    let Ok(found) = node.store().tables.get(table.id) else { return Ok(None) };
    let stored = found.view();
    let nothing = Row::empty(wanted.row.clustering.clone());
    let place = Place { stored: &stored, table, key: &wanted.key, now_s };
    if place.has_outcome(&nothing, &wanted.row).await? {
        return Ok(None);
    }
    let change = wanted.row.clone();
    let revives = moves && !has_all_columns(table, &change);
    let row = place.put(change, wanted.row, i64::MIN, revives, moves).await?;
    Ok(Some(update_of(table, wanted.key, row)))
}

/// A partition of a view as it is stored.
struct Place<'v> {
    stored: &'v TableView,
    table: &'v Arc<TableMetadata>,
    key: &'v DecoratedKey,
    now_s: u32,
}

impl Place<'_> {
    /// Returns the stored row merged with a change.
    async fn merged(&self, change: &Row) -> Result<Option<Row>, StorageError> {
        let Self { stored, table, key, now_s } = *self;
        let command = command_of(table, key, change, now_s);
        let mut sources = sources_of(stored, &command, key, &command.slices).await?;
        let header =
            PartitionHeader { key: key.clone(), deletion: DeletionTime::LIVE, static_row: None };
        sources.push(Source::Row(header, Some(change.clone())));
        let merged = MergedPartition::new(table.clone(), command.direction, sources).await?;
        let mut found = None;
        if let Some(mut merged) = merged {
            while let Some(fragment) = merged.next().await? {
                if let Unfiltered::Row(row) = fragment {
                    found = Some(row);
                }
            }
        }
        Ok(found)
    }

    /// Returns whether the stored row, merged with a change, is the wanted row. Timestamps may
    /// differ.
    async fn has_outcome(&self, change: &Row, wanted: &Row) -> Result<bool, StorageError> {
        let Some(mut found) = self.merged(change).await? else { return Ok(false) };
        let exists = keep_live(&mut found, self.table, &ColumnSelection::All, self.now_s);
        Ok(exists && is_same(&found, wanted))
    }

    /// Returns a write after which the row is the wanted one. This is the change itself, or, if
    /// that does not suffice, a write with later timestamps. `revives` is true if the write may
    /// bring back data that a deletion hides.
    async fn put(
        &self,
        change: Row,
        wanted: Row,
        floor: i64,
        revives: bool,
        moves: bool,
    ) -> Result<Row, StorageError> {
        let Self { stored, table, key, now_s } = *self;
        let floor = if revives { i64::MIN } else { floor };
        let newest = newest_stored(stored, table, key, &wanted, floor).await?;
        if newest.of_all <= floor {
            return Ok(change);
        }
        let change = above(change, newest.of_shadowable);
        if !revives && self.has_outcome(&change, &wanted).await? {
            return Ok(change);
        }
        let newest = newest_stored(stored, table, key, &wanted, i64::MIN).await?.of_all;
        let Some(later_us) = newest.checked_add(1) else {
            return Err(StorageError::Unstorable(format!(
                "a row of the materialized view {}.{} that has the greatest possible timestamp",
                table.keyspace, table.name
            )));
        };
        if !moves {
            let deletion = DeletionTime::new(newest, now_s);
            return Ok(Row { deletion, ..raised_to(wanted, later_us) });
        }
        // Caches and compactions decide if data under a shadowable deletion comes back, so the
        // write has all columns.
        let mut row = with_tombstones(table, wanted.clone(), newest, now_s);
        row.liveness.timestamp = row.liveness.timestamp.max(later_us);
        if self.has_outcome(&row, &wanted).await? {
            return Ok(row);
        }
        Ok(with_tombstones(table, raised_to(wanted, later_us), newest, now_s))
    }
}

fn command_of(
    table: &Arc<TableMetadata>,
    key: &DecoratedKey,
    row: &Row,
    now_s: u32,
) -> ReadCommand {
    let slice = ClusteringSlice::prefix(row.clustering.values.clone());
    let slices = Arc::new(ClusteringSlices::normalise(vec![slice], table.comparator()));
    let target = ReadTarget::Partition(key.clone());
    ReadCommand { slices, ..ReadCommand::of_all(table.clone(), target, now_s) }
}

fn update_of(table: &TableMetadata, key: DecoratedKey, row: Row) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.id, key);
    update.rows.push(row);
    update
}

/// The greatest stored timestamps at the place of a row, in µs; `i64::MIN` for none.
struct Newest {
    /// Timestamp of everything, deletions included.
    of_all: i64,
    /// Timestamp of the shadowable deletions, void ones included.
    of_shadowable: i64,
}

/// Returns the greatest stored timestamps at the place of a row. Ignores timestamps up to
/// `floor_us`.
async fn newest_stored(
    stored: &TableView,
    table: &Arc<TableMetadata>,
    key: &DecoratedKey,
    row: &Row,
    floor_us: i64,
) -> Result<Newest, StorageError> {
    let command = command_of(table, key, row, 0);
    let mut sources = Vec::new();
    for memtable in stored.memtables().filter(|memtable| memtable.maximum_timestamp() > floor_us) {
        let opened =
            MemtablePartition::open(memtable, table, key, &command.slices, Direction::Forward, 1)?;
        sources.extend(opened.map(|opened| Source::Memtable(Box::new(opened))));
    }
    // SSTables are sorted by descending maximum timestamp.
    let newer = stored.sstables.iter().take_while(|file| file.maximum_timestamp() > floor_us);
    for sstable in newer.filter(|sstable| may_hold(sstable, &command, key, &command.slices)) {
        let opened = sstable
            .read_partition(key, &command.slices, command.direction, command.bypass_cache)
            .await?;
        sources.extend(opened.map(|opened| Source::File(FileSource::SSTable(Box::new(opened)))));
    }
    let mut newest = Newest { of_all: i64::MIN, of_shadowable: i64::MIN };
    for mut source in sources {
        newest.of_all = newest.of_all.max(timestamp_of(&source.header().deletion));
        while let Some(fragment) = source.next().await? {
            newest.of_all = newest.of_all.max(match fragment {
                Unfiltered::Row(row) => {
                    let shadowable = timestamp_of(&row.shadowable_deletion);
                    newest.of_shadowable = newest.of_shadowable.max(shadowable);
                    newest_of_row(&row)
                }
                Unfiltered::Marker(marker) => {
                    timestamp_of(&marker.before).max(timestamp_of(&marker.after))
                }
            });
        }
    }
    Ok(newest)
}

/// Returns whether a change has a cell of each column of a view, and no column is a collection.
fn has_all_columns(table: &TableMetadata, change: &Row) -> bool {
    let columns = table.regular_columns();
    columns.len() == change.columns.len() && columns.iter().all(|column| !column.is_complex())
}

/// Returns whether two live rows have equal content, whatever their timestamps.
fn is_same(left: &Row, right: &Row) -> bool {
    let expiry = |row: &Row| (!row.liveness.is_none()).then_some(row.liveness.local_expiration);
    let same_cell = |left: &Cell, right: &Cell| {
        left.value == right.value && left.local_deletion_time == right.local_deletion_time
    };
    let same_data =
        |left: &ColumnData, right: &ColumnData| match (left, right) {
            (ColumnData::Simple(left), ColumnData::Simple(right)) => same_cell(left, right),
            (ColumnData::Complex(left), ColumnData::Complex(right)) => {
                left.cells.len() == right.cells.len()
                    && left.cells.iter().zip(&right.cells).all(|((path, left), (other, right))| {
                        path == other && same_cell(left, right)
                    })
            }
            _ => false,
        };
    expiry(left) == expiry(right)
        && left.columns.len() == right.columns.len()
        && left
            .columns
            .iter()
            .zip(&right.columns)
            .all(|((id, left), (other, right))| id == other && same_data(left, right))
}

/// Returns a change whose cells are all later than a shadowable deletion, unless the change itself
/// has a liveness that makes the deletion void.
///
/// A liveness in another file may make the deletion void. A compaction without that file does not
/// see the liveness, and would remove older cells for good. A cell that is later than the deletion
/// is safe.
fn above(change: Row, shadowable_us: i64) -> Row {
    let is_void = !change.liveness.is_none() && change.liveness.timestamp > shadowable_us;
    match shadowable_us.checked_add(1) {
        Some(later_us) if shadowable_us > i64::MIN && !is_void => cells_raised_to(change, later_us),
        _ => change,
    }
}

/// Returns the row with timestamps of at least `later_us`.
fn raised_to(mut row: Row, later_us: i64) -> Row {
    if !row.liveness.is_none() {
        row.liveness.timestamp = row.liveness.timestamp.max(later_us);
    }
    cells_raised_to(row, later_us)
}

fn cells_raised_to(mut row: Row, later_us: i64) -> Row {
    let raise = |timestamp: &mut i64| *timestamp = (*timestamp).max(later_us);
    for (_, data) in &mut row.columns {
        match data {
            ColumnData::Simple(cell) => raise(&mut cell.timestamp),
            ColumnData::Complex(column) => {
                column.cells.iter_mut().for_each(|(_, cell)| raise(&mut cell.timestamp));
            }
        }
    }
    row
}

/// Returns the row of a view with tombstones of all columns and elements that it lacks. The
/// tombstones have the timestamp `newest`. An element that the tombstone of its column would delete
/// gets a later timestamp.
fn with_tombstones(table: &TableMetadata, mut row: Row, newest: i64, now_s: u32) -> Row {
    let deletion = DeletionTime::new(newest, now_s);
    for column in table.regular_columns() {
        let place = row.columns.binary_search_by_key(&column.id, |(id, _)| *id);
        match place.map(|index| row.columns.get_mut(index)) {
            Ok(Some((_, ColumnData::Complex(present)))) => {
                present.deletion = deletion;
                for (_, cell) in &mut present.cells {
                    cell.timestamp = cell.timestamp.max(newest.saturating_add(1));
                }
            }
            Ok(_) => {}
            Err(index) => {
                let data = if column.is_complex() {
                    ColumnData::Complex(ComplexColumn { deletion, cells: Vec::new() })
                } else {
                    ColumnData::Simple(Cell::tombstone(newest, now_s))
                };
                row.columns.insert(index, (column.id, data));
            }
        }
    }
    row
}
