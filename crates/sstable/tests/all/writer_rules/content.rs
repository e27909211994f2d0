//! Tests the content that a writer leaves out, and the row index that it writes.

use std::{path::Path, sync::Arc};

use espalier_mutation::{
    BoundKind, Clustering, ClusteringSlice, ClusteringSlices, DeletionTime, Direction, Row,
    Unfiltered, UnfilteredStream,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ColumnSelection, PageCache, SSTableReader, SSTableWriter, WriterOptions, components::Component,
    verify::verify,
};

use super::{DIRECTORY, LIVE, header, keys, marker, row, table, values, writer};
use crate::support::{block_on, writing::descriptor};

#[test]
fn empty_rows_and_partitions_are_not_written() {
    block_on(async {
        let [first, second, third] = keys();
        let (file_system, mut writer) = writer().await;
        writer.start_partition(header(&first)).unwrap();
        writer.end_partition().await.unwrap();
        writer.start_partition(header(&second)).unwrap();
        writer.add(Unfiltered::Row(Row::empty(Clustering { values: values(1) }))).await.unwrap();
        writer.add(row(2)).await.unwrap();
        writer.end_partition().await.unwrap();
        writer.start_partition(header(&third)).unwrap();
        writer.end_partition().await.unwrap();
        let written = writer.finish().await.unwrap().unwrap();
        assert_eq!(written.partition_count, 1);
        assert_eq!(written.statistics.stats.total_rows, 1);
        assert!(verify(&file_system, &written.descriptor).await.unwrap().problems.is_empty());
    });
    block_on(async {
        let (file_system, mut writer) = writer().await;
        writer.start_partition(header(&keys()[0])).unwrap();
        writer.end_partition().await.unwrap();
        assert!(writer.finish().await.unwrap().is_none());
        assert!(file_system.read_dir(DIRECTORY).await.unwrap().is_empty());
    });
}

/// A block of the row index cannot begin inside a deletion with a negative timestamp, so it
/// continues to the end of the deletion.
#[test]
fn a_negative_range_deletion_over_many_rows_is_held() {
    block_on(async {
        let key = &keys()[0];
        let deletion = DeletionTime::new(-500, 5);
        let (file_system, mut writer) = writer().await;
        writer.start_partition(header(key)).unwrap();
        for number in 0..2000 {
            match number {
                300 => {
                    let start = marker(number, BoundKind::InclusiveStart, LIVE, deletion);
                    writer.add(start).await.unwrap();
                }
                1300 => {
                    let end = marker(number, BoundKind::ExclusiveEnd, deletion, LIVE);
                    writer.add(end).await.unwrap();
                }
                _ => {}
            }
            writer.add(row(number)).await.unwrap();
        }
        writer.end_partition().await.unwrap();
        let written = writer.finish().await.unwrap().unwrap();
        let report = verify(&file_system, &written.descriptor).await.unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
        assert!(report.blocks > 5);
        let cache = PageCache::new(1 << 20);
        let open = SSTableReader::open(&file_system, written.descriptor, Some(table()), &cache);
        let reader = open.await.unwrap();
        for direction in [Direction::Forward, Direction::Reverse] {
            let slices = ClusteringSlices { slices: vec![ClusteringSlice::prefix(values(1000))] };
            let all = ColumnSelection::All;
            let stream = reader.read_partition(key, Arc::new(slices), direction, &all).await;
            let mut stream = stream.unwrap().unwrap();
            let mut found = Vec::new();
            while let Some(unfiltered) = stream.next().await.unwrap() {
                found.push(unfiltered);
            }
            let mut expected = vec![
                marker(1000, BoundKind::InclusiveStart, LIVE, deletion),
                row(1000),
                marker(1000, BoundKind::InclusiveEnd, deletion, LIVE),
            ];
            if direction == Direction::Reverse {
                expected.reverse();
            }
            assert_eq!(found, expected);
        }
    });
}

/// Returns the length of Rows.db in bytes for a partition with this number of small rows.
async fn row_index_bytes(rows: u32, first_block_size: u32) -> u64 {
    let file_system = FileSystem::simulated(5);
    file_system.create_dir_all(DIRECTORY).await.unwrap();
    let descriptor = descriptor(Path::new(DIRECTORY), 1);
    let mut options = WriterOptions::for_table(descriptor.clone(), table()).unwrap();
    (options.column_index_size, options.first_block_size) = (1024, first_block_size);
    let mut writer = SSTableWriter::create(&file_system, options).await.unwrap();
    writer.start_partition(header(&keys()[0])).unwrap();
    for number in 0..rows {
        writer.add(row(number)).await.unwrap();
    }
    writer.end_partition().await.unwrap();
    writer.finish().await.unwrap();
    file_system.metadata(descriptor.path(&Component::Rows)).await.unwrap().length
}

#[test]
fn a_partition_of_a_page_has_no_row_index() {
    block_on(async {
        // Each row takes about ten bytes.
        assert!(row_index_bytes(200, 0).await > 0);
        assert_eq!(row_index_bytes(200, 4096).await, 0);
        // A larger partition has all its blocks except the ones within the first page.
        let (few, many) = (row_index_bytes(3000, 4096).await, row_index_bytes(3000, 0).await);
        assert!(few > many / 2 && few < many, "{few} {many}");
    });
}
