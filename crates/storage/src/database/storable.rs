//! What cannot be flushed must not be accepted: the checks before a write is logged.

use espalier_mutation::{Cell, ColumnData, DeletionTime, NO_DELETION_TIME, PartitionUpdate, Row};
use espalier_sstable::{DeletionScope, check_deletion, versions::VersionFeatures};

use crate::StorageError;

/// Whether the configured version of SSTables can hold the update.
#[inline]
pub(super) fn check_storable(
    features: &VersionFeatures,
    update: &PartitionUpdate,
) -> Result<(), StorageError> {
    if update.key.key.len() > usize::from(u16::MAX) || update.key.key.is_empty() {
        let length = update.key.key.len();
        return Err(StorageError::Unstorable(format!("a partition key of {length} bytes")));
    }
    check(features, DeletionScope::Partition, update.deletion)?;
    for tombstone in &update.range_tombstones {
        check(features, DeletionScope::Range, tombstone.deletion)?;
    }
    for row in update.static_row.iter().chain(&update.rows) {
        check_row(features, row)?;
    }
    Ok(())
}

fn check_row(features: &VersionFeatures, row: &Row) -> Result<(), StorageError> {
    check(features, DeletionScope::Row, row.deletion)?;
    for (_, data) in &row.columns {
        match data {
            ColumnData::Simple(cell) => check_cell(features, cell)?,
            ColumnData::Complex(column) => {
                check(features, DeletionScope::Row, column.deletion)?;
                column.cells.iter().try_for_each(|(_, cell)| check_cell(features, cell))?;
            }
        }
    }
    Ok(())
}

#[inline]
fn check_cell(features: &VersionFeatures, cell: &Cell) -> Result<(), StorageError> {
    match cell.local_deletion_time {
        NO_DELETION_TIME => Ok(()),
        time => check(features, DeletionScope::Row, DeletionTime::new(cell.timestamp, time)),
    }
}

#[inline]
fn check(
    features: &VersionFeatures,
    scope: DeletionScope,
    deletion: DeletionTime,
) -> Result<(), StorageError> {
    if deletion.is_live() {
        return Ok(());
    }
    check_deletion(features, scope, deletion)
        .map_err(|error| StorageError::Unstorable(error.to_string()))
}
