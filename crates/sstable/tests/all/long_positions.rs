//! Tests rows whose positions share more bytes than a separator of a row index can have. The writer
//! must put them into one block, and reads must find each row.

use crate::support;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Clustering, ClusteringSlice, ClusteringSlices, DecoratedKey, DeletionTime, Direction, Liveness,
    PartitionHeader, Row, Unfiltered, UnfilteredStream,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ColumnSelection, PageCache, SSTableReader, SSTableWriter, WriterOptions, verify::verify,
    versions::Version,
};
use espalier_types::CqlType;
use support::{
    block_on,
    writing::{descriptor_of, written_versions},
};

/// The number of columns before the last one. With the longest values, they take more than 2 MiB of
/// a byte-comparable position.
const SHARED_COLUMNS: usize = 32;
const MAX_VALUE_BYTES: usize = 65_535;

fn table() -> Arc<TableMetadata> {
    let mut builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int);
    for number in 0..=SHARED_COLUMNS {
        builder = builder.clustering(&format!("c{number:02}"), CqlType::Text, false);
    }
    Arc::new(builder.regular("v", CqlType::Text).build())
}

/// Returns the positions in order: short ones, three that differ in their last value only, and
/// short ones.
fn positions() -> Vec<Clustering> {
    let long = Bytes::from(vec![b'm'; MAX_VALUE_BYTES]);
    let position = |shared: &Bytes, last: &'static str| {
        let shared = std::iter::repeat_n(shared.clone(), SHARED_COLUMNS);
        Clustering::new(shared.chain([Bytes::from_static(last.as_bytes())]))
    };
    let groups = [Bytes::from_static(b"first"), long, Bytes::from_static(b"second")];
    groups.iter().flat_map(|shared| ["a", "b", "c"].map(|last| position(shared, last))).collect()
}

async fn read(
    reader: &SSTableReader,
    key: &DecoratedKey,
    slice: ClusteringSlice,
    direction: Direction,
) -> Vec<Clustering> {
    let slices = Arc::new(ClusteringSlices { slices: vec![slice] });
    let columns = ColumnSelection::All;
    let mut stream =
        reader.read_partition(key, slices, direction, &columns).await.unwrap().unwrap();
    let mut found = Vec::new();
    while let Some(unfiltered) = stream.next().await.unwrap() {
        match unfiltered {
            Unfiltered::Row(row) => found.push(row.clustering),
            Unfiltered::Marker(marker) => panic!("{marker:?}"),
        }
    }
    found
}

/// Compares without printing positions of megabytes.
fn assert_same(found: &[Clustering], expected: &[Clustering], context: &str) {
    let is_same = found.iter().map(|one| &one.values).eq(expected.iter().map(|one| &one.values));
    assert!(is_same, "{context}: {} of {} rows", found.len(), expected.len());
}

async fn check(version: Version) {
    let features = written_versions().into_iter().find(|of| of.version == version).unwrap();
    let file_system = FileSystem::simulated(5);
    file_system.create_dir_all("/data/ks/t").await.unwrap();
    let descriptor = descriptor_of(features, Path::new("/data/ks/t"), 1);
    let mut options = WriterOptions::for_table(descriptor.clone(), table()).unwrap();
    options.column_index_size = 128;
    let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
    let mut writer = SSTableWriter::create(&file_system, options).await.unwrap();
    let header =
        PartitionHeader { key: key.clone(), deletion: DeletionTime::LIVE, static_row: None };
    writer.start_partition(header).unwrap();
    let mut positions = positions();
    for position in &positions {
        let mut row = Row::empty(position.clone());
        row.liveness = Liveness::live(10);
        writer.add(Unfiltered::Row(row)).await.unwrap();
    }
    writer.end_partition().await.unwrap();
    writer.finish().await.unwrap().unwrap();

    let report = verify(&file_system, &descriptor).await.unwrap();
    assert!(report.is_ok() && report.warnings == 0, "{version}: {:?}", report.problems);
    let cache = PageCache::new(1 << 20);
    let reader = SSTableReader::open(&file_system, descriptor, Some(table()), &cache);
    let reader = reader.await.unwrap();
    for direction in [Direction::Forward, Direction::Reverse] {
        let found = read(&reader, &key, ClusteringSlice::all(), direction).await;
        assert_same(&found, &positions, &format!("{version} {direction:?}"));
        for position in &positions {
            let one = ClusteringSlice::prefix(position.values.clone());
            let found = read(&reader, &key, one, direction).await;
            assert_same(&found, std::slice::from_ref(position), &format!("{version} one"));
        }
        positions.reverse();
    }
}

#[test]
fn rows_with_a_long_common_prefix_share_a_block() {
    block_on(async {
        for version in [Version::DA, Version::MT, Version::OA] {
            check(version).await;
        }
    });
}
