//! What cannot be flushed must not be accepted: the checks before a write is logged.

use espalier_mutation::{
    CellRef, ColumnRef, DeletionTime, NO_DELETION_TIME, PartitionUpdate, RowContent,
};
use espalier_sstable::{DeletionScope, check_deletion, versions::VersionFeatures};

use crate::StorageError;

/// Whether the configured version of SSTables can hold the update.
#[inline]
pub(super) fn check_storable(
    features: &VersionFeatures,
    update: &PartitionUpdate,
) -> Result<(), StorageError> {
    check_key(&update.key.key)?;
    check(features, DeletionScope::Partition, update.deletion)?;
    for tombstone in &update.range_tombstones {
        check(features, DeletionScope::Range, tombstone.deletion)?;
    }
    for row in update.static_row.iter().chain(&update.rows) {
        check_row(features, row)?;
    }
    Ok(())
}

/// Whether files have room for the length of the partition key.
#[inline]
pub(super) fn check_key(key: &[u8]) -> Result<(), StorageError> {
    if key.len() > usize::from(u16::MAX) || key.is_empty() {
        let length = key.len();
        return Err(StorageError::Unstorable(format!("a partition key of {length} bytes")));
    }
    Ok(())
}

/// Whether the version of SSTables can hold the row.
#[inline]
pub(super) fn check_row(
    features: &VersionFeatures,
    row: &impl RowContent,
) -> Result<(), StorageError> {
    check(features, DeletionScope::Row, row.deletion())?;
    let liveness = row.liveness();
    check_expiry(features, liveness.ttl, liveness.local_expiration)?;
    for (_, column) in row.columns() {
        match column {
            ColumnRef::Simple(cell) => check_cell(features, cell)?,
            ColumnRef::Complex(column) => {
                check(features, DeletionScope::Row, column.deletion)?;
                column.cells.iter().try_for_each(|(_, cell)| check_cell(features, cell.into()))?;
            }
        }
    }
    Ok(())
}

/// What expires later than files can say must not be accepted: it would expire sooner.
#[inline]
fn check_expiry(features: &VersionFeatures, ttl: u32, expiry_s: u32) -> Result<(), StorageError> {
    let latest_s = features.local_deletion_times.maximum();
    match ttl > 0 && expiry_s > latest_s {
        true => Err(StorageError::Unstorable(format!(
            "an expiry at second {expiry_s}: version {} has room until {latest_s}",
            features.version
        ))),
        false => Ok(()),
    }
}

#[inline]
fn check_cell(features: &VersionFeatures, cell: CellRef<'_>) -> Result<(), StorageError> {
    check_expiry(features, cell.ttl, cell.local_deletion_time)?;
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
