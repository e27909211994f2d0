//! Checks for files without Checksums.db that a flipped bit in Rows.db does not change a
//! partition's deletion.

use crate::support;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Clustering, ClusteringSlice, ClusteringSlices, DecoratedKey, DeletionTime, Direction, Liveness,
    PartitionHeader, Row, Unfiltered, UnfilteredStream,
    schema::{TableBuilder, TableId},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{ChunkFormat, ColumnSelection, Component, PageCache, SSTableReader};
use espalier_types::CqlType;
use support::{
    block_on,
    broken::{DIRECTORY, Files, store},
    generate::Partition,
    writing::{descriptor, options, write},
};

const DELETION: DeletionTime = DeletionTime::new(0x0102_0304_0506, 0x6102_0304);

fn values(value: u32) -> Box<[Option<Bytes>]> {
    Box::new([Some(Bytes::from(value.to_be_bytes().to_vec()))])
}

fn key() -> DecoratedKey {
    DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]))
}

/// Writes one partition with a deletion and 2000 rows, without Checksums.db.
async fn files() -> Files {
    let builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false);
    let table = Arc::new(builder.build());
    let unfiltereds = (0..2000)
        .map(|number| {
            let mut row = Row::empty(Clustering { values: values(number) });
            row.liveness = Liveness::live(i64::MAX / 2);
            Unfiltered::Row(row)
        })
        .collect();
    let header = PartitionHeader { key: key(), deletion: DELETION, static_row: None };
    let partitions = [Partition { header, unfiltereds }];
    let file_system = FileSystem::simulated(3);
    file_system.create_dir_all(DIRECTORY).await.unwrap();
    let descriptor = descriptor(Path::new(DIRECTORY), 1);
    let options = options(descriptor.clone(), &table, &partitions, ChunkFormat::PLAIN, 1024);
    write(&file_system, options, &partitions).await.unwrap();
    let files = Files { descriptor, components: support::broken::take(&file_system).await };
    files.without(&Component::Checksums)
}

#[test]
fn the_deletion_of_a_partition_is_that_of_the_data() {
    block_on(async {
        let files = files().await;
        let rows = files.components[&Component::Rows].clone();
        let stored = DELETION.marked_for_delete_at.to_be_bytes();
        let at = rows.windows(8).rposition(|bytes| bytes == stored).unwrap();
        for bit in 0..96 {
            let mut broken = rows.clone();
            broken[at + bit / 8] ^= 1 << (bit % 8);
            let file_system = store(&files, Some((&Component::Rows, &broken))).await;
            let cache = PageCache::new(1 << 20);
            let reader = SSTableReader::open(&file_system, files.descriptor.clone(), None, &cache);
            let reader = reader.await.unwrap();
            for direction in [Direction::Forward, Direction::Reverse] {
                let slices = vec![ClusteringSlice::prefix(values(1500))];
                let slices = Arc::new(ClusteringSlices { slices });
                let all = ColumnSelection::All;
                // An error is acceptable too.
                let read = reader.read_partition(&key(), slices, direction, &all).await;
                if let Ok(Some(stream)) = read {
                    assert_eq!(stream.header().deletion, DELETION, "bit {bit}");
                }
            }
        }
    });
}
