//! Tests shadowable deletions, which only foreign files have, with rows that are written over these
//! deletions. The two meet in the row cache, and every kind of read must return the same.

use std::{path::Path, sync::Arc};

use espalier_mutation::{
    Clustering, DeletionTime, FoundRow, Liveness, PartitionHeader, Row, Unfiltered,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    Descriptor, PresentColumns, SSTableId, SSTableWriter, WriterOptions, versions::Version,
};
use espalier_storage::{Node, ReadCommand, ReadTarget, RowLookup};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::support::*;

/// Returns the table `k blob, c int, v blob, PRIMARY KEY (k, c)`.
fn view_table() -> TableMetadata {
    TableBuilder::new("ks", "view", TableId(Uuid::from_u128(0xb1)))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Blob)
        .build()
}

/// Writes a file with rows 1 to 4 of partition `a`, each with only a shadowable deletion.
async fn write_foreign(file_system: &FileSystem, directory: &Path, table: &Arc<TableMetadata>) {
    file_system.create_dir_all(directory).await.unwrap();
    let id = SSTableId::Generation(1.try_into().unwrap());
    let descriptor = Descriptor::new(directory, Version::ME.features().unwrap(), id);
    let mut options = WriterOptions::for_table(descriptor, table.clone()).unwrap();
    let deletion = DeletionTime::new(7_000_000, 200);
    options.columns = PresentColumns::none();
    options.encoding_stats.add_deletion(deletion);
    options.estimated_partitions = 1;
    let mut writer = SSTableWriter::create(file_system, options).await.unwrap();
    let header = PartitionHeader { key: key("a"), deletion: DeletionTime::LIVE, static_row: None };
    writer.start_partition(header).unwrap();
    for number in 1..=4 {
        let mut row = Row::empty(Clustering::new([int(number)]));
        row.shadowable_deletion = deletion;
        writer.add(Unfiltered::Row(row)).await.unwrap();
    }
    writer.end_partition().await.unwrap();
    writer.finish().await.unwrap().unwrap();
}

/// Looks up each row. `None` is a look-up without an answer.
fn looked_at(database: &Node, table: &TableMetadata) -> Vec<Option<bool>> {
    let look = |number| {
        let (key, clustering) = (key("a"), [Some(int(number))]);
        let visible = |found: FoundRow<'_>| found.visible_cells(NOW, |_| true, |_, _| ()).unwrap();
        let mut lookup = RowLookup::new(table, key.borrowed(), &clustering);
        lookup.poll(database.store(), visible).known_or(|| false)
    };
    (1..=4).map(look).collect()
}

#[test]
fn rows_under_a_shadowable_deletion_stay_covered_in_the_row_cache() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![view_table()]).await;
        let view = table(&database, "view");
        let directory = Path::new("foreign");
        write_foreign(&file_system, directory, &view).await;
        database.import("ks", "view", Some(directory.into())).await.unwrap();
        assert!(read_partition(&database, &view, "a").await.is_none());
        // Rows 1 and 2 are older than the deletion, and row 2 has only a cell. Row 3 is equally
        // old. Row 4 is newer, which voids the deletion.
        for (number, timestamp) in [(1, 5_000_000), (2, 5_000_000), (3, 7_000_000), (4, 8_000_000)]
        {
            let mut mutation = insert(&view, "a", Some(number), timestamp, &[("v", "new")]);
            if number == 2 {
                mutation.updates[0].rows[0].liveness = Liveness::NONE;
            }
            database.apply(mutation).await.unwrap();
        }
        let mut looks = Vec::new();
        for is_flushed in [false, true] {
            if is_flushed {
                database.flush("ks", None).await.unwrap();
            }
            for bypass_cache in [false, true] {
                let target = ReadTarget::Partition(key("a"));
                let command = ReadCommand { bypass_cache, ..command(&view, target) };
                let result = database.read(command).await.unwrap();
                assert_eq!(show(&view, &result), ["a/4 v=new"], "{is_flushed} {bypass_cache}");
            }
            looks = looked_at(&database, &view);
        }
        // The flush has added its rows to the row cache. The cache keeps no row of which only a
        // deletion is left.
        assert_eq!(looks, [None, None, None, Some(true)]);
    });
}
