//! This module checks a write before it is logged, because a write that could not be flushed must
//! not be accepted.

use espalier_mutation::{
    CellRef, ColumnRef, DeletionTime, NO_DELETION_TIME, PartitionUpdate, RowContent,
};
use espalier_sstable::{
    DeletionScope, check_deletion,
    versions::{LocalDeletionTimes, VersionFeatures},
};

use crate::{StorageError, table::Table};

/// Checks that the configured version of SSTables can hold the update.
#[inline]
pub(crate) fn check_storable(
    table: &Table,
    features: &VersionFeatures,
    update: &PartitionUpdate,
) -> Result<(), StorageError> {
    check_key(&update.key.key)?;
    check(features, DeletionScope::Partition, update.deletion)?;
    for tombstone in &update.range_tombstones {
        check(features, DeletionScope::Range, tombstone.deletion)?;
    }
    for row in update.static_row.iter().chain(&update.rows) {
        check_row(table, features, row)?;
    }
    Ok(())
}

/// Checks that an SSTable can hold a partition key of this length.
#[inline]
pub(crate) fn check_key(key: &[u8]) -> Result<(), StorageError> {
    if key.len() > usize::from(u16::MAX) || key.is_empty() {
        let length = key.len();
        return Err(StorageError::Unstorable(format!("a partition key of {length} bytes")));
    }
    Ok(())
}

/// Checks that the version of SSTables can hold the row.
#[inline]
pub(crate) fn check_row(
    table: &Table,
    features: &VersionFeatures,
    row: &impl RowContent,
) -> Result<(), StorageError> {
    check(features, DeletionScope::Row, row.deletion())?;
    let liveness = row.liveness();
    check_expiry(table, features, liveness.ttl, liveness.local_expiration)?;
    for (_, column) in row.columns() {
        match column {
            ColumnRef::Simple(cell) => check_cell(table, features, cell)?,
            ColumnRef::Complex(column) => {
                check(features, DeletionScope::Row, column.deletion)?;
                let mut cells = column.cells.iter();
                cells.try_for_each(|(_, cell)| check_cell(table, features, cell.into()))?;
            }
        }
    }
    Ok(())
}

/// Refuses a cell that expires later than files can record, because it would expire sooner.
/// Cassandra's default policy (`expiration_date_overflow_policy: REJECT`) refuses it too.
#[inline]
fn check_expiry(
    table: &Table,
    features: &VersionFeatures,
    ttl: u32,
    expiry_s: u32,
) -> Result<(), StorageError> {
    let is_too_late = ttl > 0 && expiry_s > features.local_deletion_times.maximum();
    if is_too_late { Err(expiry_too_late(table, features, ttl)) } else { Ok(()) }
}

#[cold]
fn expiry_too_late(table: &Table, features: &VersionFeatures, ttl: u32) -> StorageError {
    let metadata = table.metadata();
    StorageError::ExpiryTooLate {
        table: format!("{}.{}", metadata.keyspace, metadata.name),
        origin: if ttl == metadata.options.default_time_to_live { "default " } else { "" },
        ttl,
        latest: match features.local_deletion_times {
            LocalDeletionTimes::Signed => "2038-01-19T03:14:06+00:00",
            LocalDeletionTimes::Unsigned => "2106-02-07T06:28:13+00:00",
        },
    }
}

#[inline]
fn check_cell(
    table: &Table,
    features: &VersionFeatures,
    cell: CellRef<'_>,
) -> Result<(), StorageError> {
    check_expiry(table, features, cell.ttl, cell.local_deletion_time)?;
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
