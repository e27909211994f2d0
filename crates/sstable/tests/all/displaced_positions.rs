//! Tests rows that the comparator orders differently than their byte-comparable form: NaN with any
//! bits, and empty values inside tuples. In partitions with a row index, the writer must accept
//! each row, reads must find each row and return the rows in order, and verification must find no
//! error.

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
use espalier_types::{CqlType, collection};
use support::{
    block_on,
    writing::{descriptor_of, written_versions},
};

/// Number of rows of each first value: several blocks of the row index.
const ROWS_PER_VALUE: i32 = 60;

fn table(first: CqlType, is_reversed: bool) -> Arc<TableMetadata> {
    let builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int)
        .clustering("c", first, is_reversed)
        .clustering("d", CqlType::Int, false)
        .regular("v", CqlType::Text);
    Arc::new(builder.build())
}

fn floats() -> Vec<Bytes> {
    let bits: [u32; 6] = [0xFF80_0000, 0x8000_0000, 0, 0x7F80_0000, 0xFFC0_0000, 0x3F80_0000];
    bits.iter().map(|bits| Bytes::copy_from_slice(&bits.to_be_bytes())).collect()
}

/// Returns (null, 1), (empty, 1), (1, null), (1, empty) and (1, 1).
fn tuples() -> Vec<Bytes> {
    let one = 1i32.to_be_bytes();
    let (one, empty) = (Some(&one[..]), Some(&[][..]));
    [[None, one], [empty, one], [one, None], [one, empty], [one, one]]
        .map(collection::tuple_of)
        .to_vec()
}

fn rows(table: &TableMetadata, values: &[Bytes]) -> Vec<Row> {
    let mut rows: Vec<Row> = values
        .iter()
        .flat_map(|value| (0..ROWS_PER_VALUE).map(move |number| (value.clone(), number)))
        .map(|(value, number)| {
            let number = Bytes::copy_from_slice(&number.to_be_bytes());
            let mut row = Row::empty(Clustering::new([value, number]));
            row.liveness = Liveness::live(10);
            row
        })
        .collect();
    rows.sort_by(|left, right| {
        table.comparator().compare(left.clustering.position(), right.clustering.position())
    });
    rows
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
    if direction == Direction::Reverse {
        found.reverse();
    }
    found
}

async fn check(version: Version, table: &Arc<TableMetadata>, values: &[Bytes]) {
    let features = written_versions().into_iter().find(|of| of.version == version).unwrap();
    let file_system = FileSystem::simulated(5);
    file_system.create_dir_all("/data/ks/t").await.unwrap();
    let descriptor = descriptor_of(features, Path::new("/data/ks/t"), 1);
    let mut options = WriterOptions::for_table(descriptor.clone(), table.clone()).unwrap();
    options.column_index_size = 128;
    let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
    let rows = rows(table, values);
    let mut writer = SSTableWriter::create(&file_system, options).await.unwrap();
    let header =
        PartitionHeader { key: key.clone(), deletion: DeletionTime::LIVE, static_row: None };
    writer.start_partition(header).unwrap();
    for row in &rows {
        writer.add(Unfiltered::Row(row.clone())).await.unwrap();
    }
    writer.end_partition().await.unwrap();
    writer.finish().await.unwrap().unwrap();

    let report = verify(&file_system, &descriptor).await.unwrap();
    assert!(report.is_ok() && report.warnings == 0, "{version}: {:?}", report.problems);
    assert!(report.blocks >= 4, "{version}: only {} blocks", report.blocks);
    let cache = PageCache::new(1 << 20);
    let reader = SSTableReader::open(&file_system, descriptor, Some(table.clone()), &cache);
    let reader = reader.await.unwrap();
    let all: Vec<_> = rows.iter().map(|row| row.clustering.clone()).collect();
    for direction in [Direction::Forward, Direction::Reverse] {
        let found = read(&reader, &key, ClusteringSlice::all(), direction).await;
        assert_eq!(found, all, "{version} {direction:?}");
        for (index, clustering) in all.iter().enumerate() {
            let one = ClusteringSlice::prefix(clustering.values.clone());
            let found = read(&reader, &key, one, direction).await;
            assert_eq!(found, std::slice::from_ref(clustering), "{version} {direction:?}");
            let first = clustering.values[..1].into();
            let found = read(&reader, &key, ClusteringSlice::prefix(first), direction).await;
            assert_eq!(found.len(), ROWS_PER_VALUE as usize, "{version} {direction:?} {index}");
        }
    }
}

#[test]
fn nan_of_any_bits_sorts_after_infinity() {
    block_on(async {
        for version in [Version::DA, Version::OA] {
            for is_reversed in [false, true] {
                check(version, &table(CqlType::Float, is_reversed), &floats()).await;
            }
        }
    });
}

#[test]
fn empty_values_inside_of_tuples_are_not_null() {
    block_on(async {
        for version in [Version::DA, Version::OA] {
            for is_reversed in [false, true] {
                let pair = CqlType::Tuple([CqlType::Int, CqlType::Int].into());
                check(version, &table(pair, is_reversed), &tuples()).await;
            }
        }
    });
}
