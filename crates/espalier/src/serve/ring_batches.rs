//! The batch log of a member of a ring: rows of `system.batches` with Cassandra's content. Each of
//! these rows has a `version`; the rows of this node's own logged batches have none.

use std::sync::Arc;

use bytes::Bytes;
use espalier_internode::payload::Batch;
use espalier_internode::ring::BatchPage;
use espalier_mutation::schema::TableMetadata;
use espalier_mutation::{
    Cell, Clustering, ColumnData, ComplexColumn, DecoratedKey, DeletionTime, KeyRange, Liveness,
    Mutation, PartitionUpdate, Row,
};
use espalier_runtime::{random, time};
use espalier_storage::{Node, ReadCommand, ReadLimits, ReadPosition, ReadTarget};
use uuid::Uuid;

const TABLE: (&str, &str) = ("system", "batches");
const MUTATIONS: &str = "mutations";
const VERSION_COLUMN: &str = "version";
/// Messaging version in whose form the mutations are stored: that of Cassandra 5.0.
const VERSION: i32 = 13;
/// Limit of the bytes of one page of batches. Arbitrary.
const PAGE_BYTES: usize = 16 << 20;

/// The minimum time in µs from the time in a batch's id to the timestamp of the batch's deletion.
/// The coordinator dates the batch after it makes the id. Arbitrary, because an id is used once.
const REMOVED_AFTER_US: i64 = 3_600_000_000;

/// Stores a batch. The returned future completes when the commit log has synced the batch.
///
/// # Errors
/// Fails if storage refuses the write.
pub async fn store(database: &Node, batch: Batch) -> Result<(), String> {
    let table = table(database)?;
    let timestamp = batch.created_us;
    let cell = |value| Cell::live(timestamp, value);
    let mut row = Row::empty(Clustering::empty());
    row.liveness = Liveness::live(timestamp);
    if let Some(column) = table.column(MUTATIONS) {
        let path = || Bytes::copy_from_slice(random::timeuuid_now().as_bytes());
        let mut cells: Vec<_> =
            batch.parts().into_iter().map(|part| (path(), cell(part))).collect();
        cells.sort_by(|left, right| table.compare_paths(column.id, &left.0, &right.0));
        let complex = ComplexColumn { deletion: DeletionTime::LIVE, cells };
        row.columns.push((column.id, ColumnData::Complex(complex)));
    }
    if let Some(column) = table.column(VERSION_COLUMN) {
        let version = Bytes::copy_from_slice(&VERSION.to_be_bytes());
        row.columns.push((column.id, ColumnData::Simple(cell(version))));
    }
    row.columns.sort_by_key(|(id, _)| *id);
    let mut update = PartitionUpdate::new(table.id, key(batch.id));
    update.rows.push(row);
    apply(database, update).await
}

/// Removes a batch.
///
/// # Errors
/// Fails if storage refuses the write.
pub async fn remove(database: &Node, id: Uuid) -> Result<(), String> {
    let table = table(database)?;
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let mut update = PartitionUpdate::new(table.id, key(id));
    // The clock of the coordinator may be ahead.
    let least = created_us(id).unwrap_or(i64::MIN);
    let timestamp = time::next_timestamp_micros().max(least.saturating_add(REMOVED_AFTER_US));
    update.deletion = DeletionTime::new(timestamp, now_s);
    apply(database, update).await
}

/// Returns one page, about [`PAGE_BYTES`], of the stored batches after a position.
///
/// # Errors
/// Fails if storage cannot read the batches.
pub async fn page(database: &Node, after: Option<ReadPosition>) -> Result<BatchPage, String> {
    let table = table(database)?;
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let target = ReadTarget::Range(KeyRange::full());
    let limits = ReadLimits { bytes: PAGE_BYTES, ..ReadLimits::NONE };
    let all = ReadCommand::of_all(Arc::clone(&table), target, now_s);
    let command = ReadCommand { limits, resume: after, ..all };
    let read = database.read(command).await.map_err(|error| error.to_string())?;
    let batches = read.partitions.into_iter().filter_map(|partition| {
        let row = partition.rows.first()?;
        row.column(table.column(VERSION_COLUMN)?.id)?;
        let id = Uuid::from_slice(&partition.key.key).ok()?;
        let parts = match row.column(table.column(MUTATIONS)?.id) {
            Some(ColumnData::Complex(complex)) => {
                complex.cells.iter().map(|(_, cell)| cell.value.clone()).collect()
            }
            _ => Vec::new(),
        };
        Some(Batch::of_parts(id, row.liveness.timestamp, &parts))
    });
    Ok((batches.collect(), read.next))
}

fn table(database: &Node) -> Result<Arc<TableMetadata>, String> {
    let schema = database.store().schema();
    let table = schema.table(TABLE.0, TABLE.1).cloned();
    table.ok_or_else(|| "there is no table system.batches".to_owned())
}

fn key(id: Uuid) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(id.as_bytes()))
}

/// Returns the time in the id of a batch, in µs since 1970; `None` if the id has no time.
fn created_us(id: Uuid) -> Option<i64> {
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    let us = seconds.checked_mul(1_000_000)?.checked_add(u64::from(nanoseconds) / 1000)?;
    i64::try_from(us).ok()
}

async fn apply(database: &Node, update: PartitionUpdate) -> Result<(), String> {
    let applied = database.apply(Mutation { updates: vec![update] }).await;
    applied.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use espalier_runtime::file::FileSystem;
    use espalier_runtime::{ShardContext, block_on};
    use espalier_storage::{SharedStorage, StorageConfiguration};
    use uuid::Timestamp;

    use super::*;

    #[test]
    fn a_batch_of_a_clock_that_is_ahead_is_removed() {
        block_on(async {
            let configuration = Arc::new(StorageConfiguration::new("node"));
            let context = ShardContext { index: 0, count: 1 };
            let file_system = FileSystem::simulated(1);
            let opened = Node::open(context, file_system, configuration, SharedStorage::new());
            let database = opened.await.unwrap();
            // The id is a minute ahead, and the batch is dated a moment later.
            let at_us = time::now_micros() + 60_000_000;
            let (seconds, us) = ((at_us / 1_000_000) as u64, (at_us % 1_000_000) as u32);
            let id = Uuid::new_v1(Timestamp::from_unix_time(seconds, us * 1000, 0, 0), &[1; 6]);
            let part = Bytes::from_static(b"a write");
            store(&database, Batch::of_parts(id, at_us + 1500, &[part])).await.unwrap();
            assert_eq!(page(&database, None).await.unwrap().0.len(), 1);
            remove(&database, id).await.unwrap();
            assert_eq!(page(&database, None).await.unwrap().0, []);
            database.shutdown().await.unwrap();
        });
    }
}
