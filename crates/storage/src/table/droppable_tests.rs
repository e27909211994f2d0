//! These tests check the estimates of droppable data against files with known contents.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnData, ComplexColumn, DecoratedKey,
    DeletionTime, Liveness, Mutation, PartitionUpdate, RangeTombstone, Row,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{block_on, file::FileSystem};
use espalier_sstable::Droppable;
use espalier_types::CqlType;
use uuid::Uuid;

use crate::test_database::{create, open, table};

const THEN: u32 = 1_700_000_000;
const PARTITIONS: u64 = 40;

/// `k blob, c int, m map<int, blob>, v blob, PRIMARY KEY (k, c)`.
fn metadata() -> TableMetadata {
    let (key, value) = (Arc::new(CqlType::Int), Arc::new(CqlType::Blob));
    TableBuilder::new("ks", "wide", TableId(Uuid::from_u128(0xa1)))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Int, false)
        .regular("m", CqlType::Map { key, value, frozen: false })
        .regular("v", CqlType::Blob)
        .build()
}

fn int(value: i32) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&value.to_be_bytes()))
}

fn row(clustering: i32) -> Row {
    Row::empty(Clustering::new([Bytes::copy_from_slice(&clustering.to_be_bytes())]))
}

/// Returns the estimate for a file in which `change` was applied to each partition.
fn written(change: impl Fn(&TableMetadata, &mut PartitionUpdate)) -> Droppable {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let node = open(file_system).await;
        let metadata = create(&node, metadata()).await;
        for number in 0..PARTITIONS {
            let key = DecoratedKey::new(Bytes::copy_from_slice(&number.to_be_bytes()));
            let mut update = PartitionUpdate::new(metadata.id, key);
            change(&metadata, &mut update);
            node.apply(Mutation { updates: vec![update] }).await.unwrap();
        }
        node.flush("ks", None).await.unwrap();
        let view = table(&node, &metadata).view();
        let droppable = view.sstables[0].droppable(THEN + 1000);
        node.shutdown().await.unwrap();
        droppable
    })
}

fn deletions(droppable: &Droppable) -> (u64, u64) {
    (droppable.row_deletions, droppable.partition_deletions)
}

#[test]
fn deleted_partitions_are_no_cells() {
    let deleted = written(|_, update| update.deletion = DeletionTime::new(2, THEN));
    assert_eq!((deleted.cells, deleted.ratio), (PARTITIONS, 1.0));
    assert_eq!(deletions(&deleted), (0, PARTITIONS));
}

#[test]
fn a_deleted_row_in_each_partition_is_no_cell() {
    let deleted = written(|_, update| {
        let mut row = row(7);
        row.deletion = DeletionTime::new(2, THEN);
        update.rows.push(row);
    });
    assert_eq!((deleted.cells, deleted.ratio), (PARTITIONS, 1.0));
    assert_eq!(deletions(&deleted), (PARTITIONS, 0));
}

#[test]
fn a_range_is_no_partition() {
    let deleted = written(|_, update| {
        let bound = |kind, value| ClusteringBound { kind, values: [int(value)].into() };
        update.range_tombstones.push(RangeTombstone {
            start: bound(BoundKind::InclusiveStart, 0),
            end: bound(BoundKind::InclusiveEnd, 9),
            deletion: DeletionTime::new(2, THEN),
        });
    });
    assert_eq!(deletions(&deleted), (PARTITIONS, 0));
}

#[test]
fn expired_rows_and_cells_are_not_row_deletions() {
    let expired = written(|table, update| {
        let mut row = row(7);
        row.liveness = Liveness { timestamp: 2, ttl: 60, local_expiration: THEN };
        let cell = Cell::expiring(2, 60, THEN, Bytes::from_static(b"1"));
        let column = table.column("v").unwrap().id;
        row.column_or_insert(column, || ColumnData::Simple(cell));
        update.rows.push(row);
    });
    assert_eq!(expired.ratio, 1.0);
    assert_eq!(deletions(&expired), (0, 0));
}

#[test]
fn a_collection_without_anything_deletes_no_row() {
    let emptied = written(|table, update| {
        let mut row = row(7);
        let column = ComplexColumn { deletion: DeletionTime::new(2, THEN), cells: Vec::new() };
        row.column_or_insert(table.column("m").unwrap().id, || ColumnData::Complex(column));
        update.rows.push(row);
    });
    assert_eq!(deletions(&emptied), (0, 0));
}
