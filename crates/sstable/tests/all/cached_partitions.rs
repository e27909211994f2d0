//! Tests look-ups that use only cached pages in a table with many partitions: Partitions.db has
//! several pages, and Index.db several intervals. The file also tests an Index.db without checksums
//! in which a key leads to the partition of another key.

use crate::support;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ClusteringSlices, ColumnData, DecoratedKey, DeletionTime, Direction,
    Liveness, Lookup, PartitionHeader, Row, Unfiltered, UnfilteredStream,
    schema::{TableBuilder, TableId, TableMetadata},
    unpack_row,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ChunkFormat, ColumnSelection, Component, PageCache, PointLookup, PointScratch, SSTableReader,
    versions::{Version, VersionFeatures},
};
use espalier_types::CqlType;
use support::{
    block_on,
    broken::{DIRECTORY, Files, store, take},
    generate::Partition,
    writing::{compressed, descriptor_of, options, write, written_versions},
};

fn table() -> Arc<TableMetadata> {
    let builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(8)));
    let builder = builder.partition_key("k", CqlType::Bigint).clustering("c", CqlType::Int, true);
    Arc::new(builder.regular("v", CqlType::Int).build())
}

fn key(number: u64) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(&number.to_be_bytes()))
}

fn clustering(number: u64) -> Clustering {
    Clustering::new([Bytes::copy_from_slice(&(number as i32).to_be_bytes())])
}

/// Returns partitions of one row with these numbers, in key order.
fn partitions(table: &TableMetadata, numbers: impl Iterator<Item = u64>) -> Vec<Partition> {
    let id = table.column("v").unwrap().id;
    let partition = |number: u64| {
        let timestamp = 1_750_000_000_000_000 + number as i64;
        let value = Bytes::copy_from_slice(&(number as i32).to_be_bytes());
        let mut row = Row::empty(clustering(number));
        row.liveness = Liveness::live(timestamp);
        row.columns.push((id, ColumnData::Simple(Cell::live(timestamp, value))));
        let header =
            PartitionHeader { key: key(number), deletion: DeletionTime::LIVE, static_row: None };
        Partition { header, unfiltereds: vec![Unfiltered::Row(row)] }
    };
    let mut partitions: Vec<_> = numbers.map(partition).collect();
    partitions.sort_by(|left, right| left.header.key.cmp(&right.header.key));
    partitions
}

async fn written(
    features: &VersionFeatures,
    partitions: &[Partition],
    chunks: ChunkFormat,
) -> Files {
    let file_system = FileSystem::simulated(1);
    file_system.create_dir_all(Path::new(DIRECTORY)).await.unwrap();
    let descriptor = descriptor_of(features, Path::new(DIRECTORY), 1);
    let options = options(descriptor.clone(), &table(), partitions, chunks, 1 << 16);
    write(&file_system, options, partitions).await.unwrap().unwrap();
    Files { descriptor, components: take(&file_system).await }
}

async fn opened(files: &Files) -> SSTableReader {
    let (file_system, cache) = (store(files, None).await, PageCache::new(64 << 20));
    let opened = SSTableReader::open(&file_system, files.descriptor.clone(), Some(table()), &cache);
    opened.await.unwrap()
}

async fn read(reader: &SSTableReader, number: u64) -> espalier_sstable::Result<Option<Row>> {
    let (all, columns) = (Arc::new(ClusteringSlices::all()), ColumnSelection::All);
    let stream = reader.read_partition(&key(number), all, Direction::Forward, &columns).await?;
    let Some(mut stream) = stream else { return Ok(None) };
    match stream.next().await? {
        Some(Unfiltered::Row(row)) => Ok(Some(row)),
        other => panic!("{other:?}"),
    }
}

fn cached_pages(reader: &SSTableReader, number: u64, scratch: &mut PointScratch) -> Lookup<()> {
    let (key, clustering) = (key(number), clustering(number));
    reader.look_up(key.borrowed(), &clustering.values, &mut PointLookup::default(), scratch)
}

#[test]
fn rows_are_found_among_many_partitions() {
    const COUNT: u64 = 1500;
    let partitions = partitions(&table(), (0..COUNT).map(|number| 2 * number));
    for features in written_versions() {
        block_on(async {
            let chunks = compressed("LZ4Compressor", 4096, 0.0);
            let reader = opened(&written(features, &partitions, chunks).await).await;
            let mut scratch = PointScratch::default();
            for number in (0..COUNT).map(|number| 2 * number) {
                let expected = read(&reader, number).await.unwrap().unwrap();
                let outcome = cached_pages(&reader, number, &mut scratch);
                assert_eq!(outcome, Lookup::Row(()), "{}: {number}", features.version);
                let row = scratch.found().unwrap().row.unwrap();
                let packed = Bytes::copy_from_slice(row.bytes());
                assert_eq!(unpack_row(clustering(number), &packed), Ok(expected));
            }
            // All pages are cached at this point. The loop does not use the filter.
            for number in (0..COUNT).map(|number| 2 * number + 1) {
                if reader.spans(key(number).borrowed()) {
                    let found = cached_pages(&reader, number, &mut scratch);
                    assert_eq!(found, Lookup::Absent, "{}: {number}", features.version);
                }
            }
        });
    }
}

/// The entry of a key in Index.db gives the exact start of its partition, so another partition
/// there is damage. The cached look-up leaves the error to the general path.
#[test]
fn a_cached_lookup_is_unknown_if_the_index_position_is_wrong() {
    let partitions = partitions(&table(), 0..4);
    let number =
        |at: usize| u64::from_be_bytes(partitions[at].header.key.key[..].try_into().unwrap());
    block_on(async {
        let features = Version::NB.features().unwrap();
        let mut files =
            written(features, &partitions, ChunkFormat::PLAIN).await.without(&Component::Checksums);
        // Key length, key, position, no promoted index: 2 + 8 + 1 + 1 bytes.
        let index = files.components.get_mut(&Component::Index).unwrap();
        assert_eq!(index.len(), 4 * 12);
        let position = |at: usize| 12 * at + 10;
        index[position(1)] = index[position(2)];
        index[position(2)] += 1;
        let reader = opened(&files).await;
        let mut scratch = PointScratch::default();
        assert!(read(&reader, number(0)).await.unwrap().is_some());
        let error = read(&reader, number(1)).await.unwrap_err();
        assert!(error.to_string().contains("another partition"), "{error}");
        assert_eq!(cached_pages(&reader, number(1), &mut scratch), Lookup::Unknown);
        assert_eq!(cached_pages(&reader, number(0), &mut scratch), Lookup::Row(()));
    });
}
