//! Which compaction is the next one.

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ColumnData, DecoratedKey, Liveness, Mutation, PartitionUpdate, Row,
    schema::{TableBuilder, TableId, TableMetadata, TableOptions},
};
use espalier_runtime::{block_on, file::FileSystem};
use espalier_types::CqlType;
use uuid::Uuid;

use super::{next_job, within};
use crate::{
    Database,
    compaction::strategy::{Pick, Split},
    test_database::{create, open},
};

const DAY_US: i64 = 86_400_000_000;

/// `k blob PRIMARY KEY, v blob`.
fn metadata(name: &str, id: u128, class: &str) -> TableMetadata {
    let mut metadata = TableBuilder::new("ks", name, TableId(Uuid::from_u128(id)))
        .partition_key("k", CqlType::Blob)
        .regular("v", CqlType::Blob)
        .build();
    let compaction = [("class".to_owned(), format!("{class}CompactionStrategy"))].into();
    metadata.options = TableOptions { compaction, ..TableOptions::default() };
    metadata
}

/// Two partitions with values of this timestamp, in a file of their own.
async fn write_file(database: &Database, table: &TableMetadata, timestamp: i64) {
    for name in ["a", "b"] {
        let mut row = Row::empty(Clustering::new([]));
        row.liveness = Liveness::live(timestamp);
        let cell = Cell::live(timestamp, Bytes::from_static(b"1"));
        row.column_or_insert(table.column("v").unwrap().id, || ColumnData::Simple(cell));
        let key = DecoratedKey::new(Bytes::copy_from_slice(name.as_bytes()));
        let mut update = PartitionUpdate::new(table.id, key);
        update.rows.push(row);
        database.apply(Mutation { updates: vec![update] }).await.unwrap();
    }
    database.flush("ks", Some(&table.name)).await.unwrap();
}

#[test]
fn a_table_of_many_windows_that_are_over_does_not_come_first() {
    let file_system = FileSystem::simulated(1);
    block_on(async {
        let database = open(file_system).await;
        let windows = create(&database, metadata("windows", 0xa1, "TimeWindow")).await;
        let tiers = create(&database, metadata("tiers", 0xa2, "SizeTiered")).await;
        // One window has two files, so there is something to be done.
        for day in [1, 2, 3, 4, 5, 6, 7, 8, 8] {
            write_file(&database, &windows, day * DAY_US).await;
        }
        for number in 0..6 {
            write_file(&database, &tiers, number).await;
        }
        let (table, job) = next_job(&database, u64::MAX).unwrap();
        assert_eq!((&*table.metadata().name, job.guard.running.inputs.len()), ("tiers", 6));
        let (table, job) = next_job(&database, u64::MAX).unwrap();
        assert_eq!((&*table.metadata().name, job.guard.running.inputs.len()), ("windows", 2));
    });
}

#[test]
fn what_is_too_large_for_the_disk_is_cut_but_for_the_garbage_it_is_for() {
    let bytes = [10, 50, 20, 5];
    let cut = |garbage, level, available_bytes| {
        let pick = Pick { files: vec![0, 1, 2, 3], level, split: Split::Never, garbage };
        within(pick, |index| bytes[index], available_bytes).files
    };
    assert_eq!(cut(None, 0, 85), [0, 1, 2, 3]);
    assert_eq!(cut(None, 0, 84), [0, 2, 3]);
    assert_eq!(cut(None, 0, 30), [0, 3]);
    assert!(cut(None, 1, 84).is_empty());
    // The largest goes first, and the garbage only with all.
    assert_eq!(cut(Some(2), 0, 84), [0, 2, 3]);
    assert!(cut(Some(2), 0, 30).is_empty());
    assert!(cut(Some(1), 0, 84).is_empty());
}
