//! Tests that scans and private reads leave the page cache as it is, however much they read, and
//! that the upper pages of the index stay cached during look-ups.

use crate::support;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ClusteringSlices, DecoratedKey, DeletionTime, Direction, KeyRange, Liveness,
    PartitionHeader, Row, Unfiltered, UnfilteredStream,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ColumnSelection, PageCache, SSTableReader,
    versions::{VERSIONS, VersionFeatures},
};
use espalier_types::CqlType;
use support::{
    block_on,
    generate::Partition,
    slicing::Random,
    writing::{descriptor_of, options, write},
};

const KEYS: u32 = 20_000;

fn table() -> Arc<TableMetadata> {
    let builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(7)));
    let builder = builder.partition_key("k", CqlType::Blob).regular("v", CqlType::Blob);
    Arc::new(builder.build())
}

fn key(number: u32) -> DecoratedKey {
    DecoratedKey::new(Bytes::from(number.to_be_bytes().repeat(4)))
}

/// Writes partitions of some 120 bytes: 2.4 MB of data.
async fn open(features: &'static VersionFeatures, cache: &PageCache) -> SSTableReader {
    let table = table();
    let value = table.regular_columns()[0].id;
    let mut keys: Vec<_> = (0..KEYS).map(key).collect();
    keys.sort();
    let partitions: Vec<_> = keys
        .into_iter()
        .map(|key| {
            let mut row = Row::empty(Clustering::empty());
            row.liveness = Liveness::live(5);
            row.set_cell(value, Cell::live(5, key.key.repeat(5).into()));
            let header = PartitionHeader { key, deletion: DeletionTime::LIVE, static_row: None };
            Partition { header, unfiltereds: vec![Unfiltered::Row(row)] }
        })
        .collect();
    let file_system = FileSystem::simulated(1);
    let directory = Path::new("/t");
    file_system.create_dir_all(directory).await.unwrap();
    let descriptor = descriptor_of(features, directory, 1);
    let chunks = espalier_sstable::ChunkFormat::PLAIN;
    let options = options(descriptor.clone(), &table, &partitions, chunks, 1024);
    write(&file_system, options, &partitions).await.unwrap().unwrap();
    SSTableReader::open(&file_system, descriptor, Some(table), cache).await.unwrap()
}

async fn look_up(reader: &SSTableReader, number: u32, is_private: bool) {
    let (key, slices) = (key(number), Arc::new(ClusteringSlices::all()));
    let (forward, all) = (Direction::Forward, &ColumnSelection::All);
    let stream = reader.read_partition_by(&key, slices, forward, all, is_private).await;
    let mut stream = stream.unwrap().unwrap();
    let Some(Unfiltered::Row(row)) = stream.next().await.unwrap() else { panic!("no row") };
    let value = &row.columns[0].1;
    let espalier_mutation::ColumnData::Simple(cell) = value else { panic!("{value:?}") };
    assert_eq!(cell.value[..], key.key.repeat(5)[..]);
}

async fn scan(reader: &SSTableReader) -> u32 {
    let slices = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), slices, &ColumnSelection::All).await.unwrap();
    let mut partitions = 0;
    while let Some(mut partition) = scan.next_partition().await.unwrap() {
        while partition.next().await.unwrap().is_some() {}
        partitions += 1;
    }
    partitions
}

fn versions() -> impl Iterator<Item = &'static VersionFeatures> {
    VERSIONS.iter().filter(|features| features.is_written)
}

#[test]
fn private_reads_and_scans_leave_the_cache_as_it_is() {
    block_on(async {
        for features in versions() {
            let cache = PageCache::new(300_000);
            let reader = open(features, &cache).await;
            let mut random = Random(3);
            for _ in 0..500 {
                look_up(&reader, random.below(KEYS as usize) as u32, false).await;
            }
            let before = cache.metrics();
            assert!(before.evictions > 0, "the cache is full");
            for _ in 0..500 {
                look_up(&reader, random.below(KEYS as usize) as u32, true).await;
            }
            assert_eq!(scan(&reader).await, KEYS);
            let after = cache.metrics();
            let state = |metrics: &espalier_sstable::PageCacheMetrics| {
                (metrics.pages, metrics.used_bytes, metrics.evictions)
            };
            assert_eq!(state(&after), state(&before), "{}", features.version);
            assert!(after.misses > before.misses, "private reads read");
        }
    });
}

/// Returns the hits per 1,000 reads of the hot set, with a scan after every `scans_every` look-ups.
async fn hit_rate(features: &'static VersionFeatures, scans_every: usize) -> u64 {
    let cache = PageCache::new(600_000);
    let reader = open(features, &cache).await;
    let mut random = Random(5);
    let (mut hits, mut misses) = (0, 0);
    for number in 0..6000 {
        let before = cache.metrics();
        look_up(&reader, random.below(60) as u32 * 300, false).await;
        let after = cache.metrics();
        if number >= 1000 {
            hits += after.hits - before.hits;
            misses += after.misses - before.misses;
        }
        if number % scans_every == scans_every - 1 {
            assert_eq!(scan(&reader).await, KEYS);
        }
    }
    1000 * hits / (hits + misses)
}

#[test]
fn scans_do_not_lower_the_hit_rate_of_a_hot_set() {
    block_on(async {
        for features in
            versions().filter(|f| ["da", "oa"].contains(&f.version.to_string().as_str()))
        {
            let (alone, with_scans) =
                (hit_rate(features, usize::MAX).await, hit_rate(features, 600).await);
            println!("{}: {alone} of 1000 alone, {with_scans} with scans", features.version);
            assert!(alone > 950, "{alone}");
            assert!(alone.abs_diff(with_scans) <= 10, "{alone} {with_scans}");
        }
    });
}

#[test]
fn a_cold_key_takes_one_page_of_the_index_when_its_upper_pages_are_known() {
    block_on(async {
        // The cache has room for a fifth of the index's pages beside the data.
        let cache = PageCache::new(160_000);
        let reader = open(&VERSIONS[0], &cache).await;
        let mut random = Random(11);
        let mut most = 0;
        for number in 0..4000 {
            let before = cache.metrics().misses;
            look_up(&reader, random.below(KEYS as usize) as u32, false).await;
            if number > 1000 {
                most = most.max(cache.metrics().misses - before);
            }
        }
        // The four pages: one of the index, up to two of the data, and the page with the checksum.
        assert!(most <= 4, "{most} pages were read for one key");
    });
}

/// Writes a partition of rows with 300 bytes each.
async fn open_wide(rows: i32, column_index_size: u32, cache: &PageCache) -> SSTableReader {
    let builder = TableBuilder::new("ks", "wide", TableId(uuid::Uuid::from_u128(8)));
    let builder = builder
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Blob);
    let table = Arc::new(builder.build());
    let value = table.regular_columns()[0].id;
    let unfiltereds = (0..rows)
        .map(|number| {
            let values = [Some(Bytes::copy_from_slice(&number.to_be_bytes()))];
            let mut row = Row::empty(Clustering { values: values.into() });
            row.liveness = Liveness::live(5);
            row.set_cell(value, Cell::live(5, number.to_be_bytes().repeat(75).into()));
            Unfiltered::Row(row)
        })
        .collect();
    let key = DecoratedKey::new(Bytes::copy_from_slice(&[0, 0, 0, 0]));
    let header = PartitionHeader { key, deletion: DeletionTime::LIVE, static_row: None };
    let partitions = [Partition { header, unfiltereds }];
    let file_system = FileSystem::simulated(1);
    let directory = Path::new("/t");
    file_system.create_dir_all(directory).await.unwrap();
    let descriptor = descriptor_of(&VERSIONS[0], directory, 1);
    let chunks = espalier_sstable::ChunkFormat::PLAIN;
    let options = options(descriptor.clone(), &table, &partitions, chunks, column_index_size);
    write(&file_system, options, &partitions).await.unwrap().unwrap();
    SSTableReader::open(&file_system, descriptor, Some(table), cache).await.unwrap()
}

/// Returns the largest number of disk reads for one row of a wide partition of which no page is
/// cached.
async fn reads_of_a_cold_row(rows: i32, column_index_size: u32) -> u64 {
    let cache = PageCache::new(1 << 20);
    let reader = open_wide(rows, column_index_size, &cache).await;
    cache.set_budget(0);
    cache.set_budget(1 << 20);
    let (key, mut most) = (DecoratedKey::new(Bytes::copy_from_slice(&[0, 0, 0, 0])), 0);
    for number in (0..rows).step_by(997) {
        let values = [Some(Bytes::copy_from_slice(&number.to_be_bytes()))];
        let slice = espalier_mutation::ClusteringSlice::prefix(values.into());
        let slices = Arc::new(ClusteringSlices { slices: vec![slice] });
        let before = cache.metrics().misses;
        let (forward, all) = (Direction::Forward, &ColumnSelection::All);
        let stream = reader.read_partition_by(&key, slices, forward, all, true).await;
        let mut stream = stream.unwrap().unwrap();
        let Some(Unfiltered::Row(row)) = stream.next().await.unwrap() else { panic!("no row") };
        assert_eq!(row.clustering.values[0].as_deref(), Some(&number.to_be_bytes()[..]));
        assert!(stream.next().await.unwrap().is_none());
        most = most.max(cache.metrics().misses - before);
    }
    most
}

#[test]
fn a_cold_row_of_a_wide_partition_takes_few_reads() {
    block_on(async {
        let fine = reads_of_a_cold_row(40_000, 1024).await;
        let coarse = reads_of_a_cold_row(40_000, 65_536).await;
        println!("at most {fine} reads by blocks of 1 KiB, {coarse} of 64 KiB");
        // Beside the index pages, this allows the page of checksums, and a row across two chunks.
        assert!(fine <= 5 + 1 + 2, "{fine} reads");
        assert!(coarse <= 3 + 1 + 2, "{coarse} reads");
    });
}
