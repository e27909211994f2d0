//! Checks that a look-up of cached pages returns the result of a read of the partition, or no
//! answer. The look-up must never read from disk.

use crate::support;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Clustering, ClusteringSlice, ClusteringSlices, DecoratedKey, DeletionTime, Direction, Lookup,
    Row, Unfiltered, UnfilteredStream, murmur3, unpack_row,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ColumnSelection, PageCache, PointLookup, PointScratch, SSTableReader, versions::VersionFeatures,
};
use support::{
    block_on,
    generate::{Generator, Partition, Shape},
    slicing::Random,
    writing::{descriptor_of, options, random_chunks, write, written_versions},
};

/// The result of a read: the partition's deletion, the range deletion at the row, and the row.
type Said = Option<(DeletionTime, DeletionTime, Option<Row>)>;

async fn read(reader: &SSTableReader, key: &DecoratedKey, clustering: &Clustering) -> Said {
    let slice = if clustering.values.is_empty() {
        ClusteringSlice::all()
    } else {
        ClusteringSlice::prefix(clustering.values.clone())
    };
    let slices = Arc::new(ClusteringSlices { slices: vec![slice] });
    let direction = Direction::Forward;
    let stream = reader.read_partition(key, slices, direction, &ColumnSelection::All).await;
    let mut stream = stream.unwrap()?;
    let (mut open, mut row) = (DeletionTime::LIVE, None);
    while let Some(fragment) = stream.next().await.unwrap() {
        match fragment {
            Unfiltered::Row(found) => row = Some(found),
            Unfiltered::Marker(marker) if row.is_none() && !marker.after.is_live() => {
                open = marker.after;
            }
            Unfiltered::Marker(_) => {}
        }
    }
    Some((stream.header().deletion, open, row))
}

/// Performs one look-up with the cached pages and the pages that `pending` holds.
fn look(
    reader: &SSTableReader,
    key: &DecoratedKey,
    clustering: &Clustering,
    pending: &mut PointLookup,
    scratch: &mut PointScratch,
) -> Option<Said> {
    let hash = murmur3::hash(&key.key);
    if !reader.may_contain_hash(key.borrowed(), hash) {
        return Some(None);
    }
    match reader.look_up(key.borrowed(), &clustering.values, pending, scratch) {
        Lookup::MissingPage | Lookup::Unknown => None,
        Lookup::Absent => Some(None),
        Lookup::Row(()) => {
            let found = scratch.found().unwrap();
            let row = found.row.map(|row| {
                let packed = Bytes::copy_from_slice(row.bytes());
                unpack_row(clustering.clone(), &packed).unwrap()
            });
            Some(Some((found.partition_deletion, found.range_deletion, row)))
        }
    }
}

fn cached_pages(
    reader: &SSTableReader,
    key: &DecoratedKey,
    clustering: &Clustering,
    scratch: &mut PointScratch,
) -> Option<Said> {
    look(reader, key, clustering, &mut PointLookup::default(), scratch)
}

/// Repeats the look-up and fetches each missing page. Returns the answer and the number of pages
/// fetched.
async fn page_by_page(
    reader: &SSTableReader,
    key: &DecoratedKey,
    clustering: &Clustering,
    scratch: &mut PointScratch,
) -> (Option<Said>, usize) {
    let mut pending = PointLookup::default();
    let mut pages = 0;
    loop {
        let said = look(reader, key, clustering, &mut pending, scratch);
        let fetched = pending.fetch_page(key.borrowed(), &clustering.values).await.unwrap();
        if said.is_some() || !fetched {
            assert!(said.is_none() || !fetched, "a look-up with an answer must miss no page");
            return (said, pages);
        }
        pages += 1;
    }
}

/// Returns the number of reads of the index and of data.
fn reads_of(cache: &PageCache) -> (u64, u64) {
    let metrics = cache.metrics();
    (metrics.index.reads, metrics.data.reads)
}

/// Returns the clusterings of the rows and of the range tombstone markers.
fn clusterings(partition: &Partition) -> Vec<Clustering> {
    let mut clusterings = Vec::new();
    for unfiltered in &partition.unfiltereds {
        match unfiltered {
            Unfiltered::Row(row) => clusterings.push(row.clustering.clone()),
            Unfiltered::Marker(marker) => {
                clusterings.push(Clustering { values: marker.position.values.clone() });
            }
        }
    }
    clusterings
}

/// Compares look-ups of cached pages with reads. Returns the number of look-ups with an answer, and
/// without one.
async fn compare(
    seed: u64,
    features: &'static VersionFeatures,
    (partitions, rows): (usize, usize),
    is_wide: bool,
) -> (usize, usize) {
    let mut random = Random(seed);
    let shape = Shape { partitions, rows, is_reconciled: true, is_odd: seed.is_multiple_of(3) };
    let mut generator = Generator::new(seed, shape).fitting(features);
    let table = generator.table();
    if table.is_counter() {
        return (0, 0);
    }
    let partitions = generator.partitions(&table);
    if partitions.is_empty() {
        return (0, 0);
    }
    let file_system = FileSystem::simulated(seed);
    let directory = Path::new("/t");
    file_system.create_dir_all(directory).await.unwrap();
    let descriptor = descriptor_of(features, directory, 1);
    let index_size = if is_wide { 64 } else { 1 << 20 };
    let chunks = random_chunks(&mut random);
    let options = options(descriptor.clone(), &table, &partitions, chunks, index_size);
    write(&file_system, options, &partitions).await.unwrap().unwrap();
    let cache = PageCache::new(64 << 20);
    let open =
        |cache| SSTableReader::open(&file_system, descriptor.clone(), Some(table.clone()), cache);
    let reader = open(&cache).await.unwrap();
    // The other cache keeps nothing, or only pages of data, which the test drops before each read.
    let other_cache = PageCache::new(if seed.is_multiple_of(2) { 0 } else { 64 << 20 });
    other_cache.keep_index_pages(seed.is_multiple_of(4));
    let other_reader = open(&other_cache).await.unwrap();
    let mut scratch = PointScratch::default();
    let (mut reported, mut unreported) = (0, 0);
    for partition in &partitions {
        let key = &partition.header.key;
        for clustering in clusterings(partition) {
            if clustering.values.len() != table.clustering_columns().len() {
                continue;
            }
            let expected = read(&reader, key, &clustering).await;
            let pages = cache.metrics();
            match cached_pages(&reader, key, &clustering, &mut scratch) {
                None => unreported += 1,
                Some(said) => {
                    assert_eq!(said, expected, "{key:?} {clustering:?} seed {seed}");
                    reported += 1;
                    other_cache.forget_pages().await;
                    let before = reads_of(&other_cache);
                    let (said, pages) =
                        page_by_page(&other_reader, key, &clustering, &mut scratch).await;
                    let after = reads_of(&other_cache);
                    // Behind the last row of a block, a look-up reads the item that follows.
                    let more = u64::from(expected.as_ref().is_some_and(|(.., row)| row.is_none()));
                    assert_eq!(said, Some(expected), "{key:?} {clustering:?} seed {seed}");
                    other_cache.forget_pages().await;
                    read(&other_reader, key, &clustering).await;
                    let general = reads_of(&other_cache);
                    let reads = (after.0 - before.0, after.1 - before.1);
                    let general = (general.0 - after.0, general.1 - after.1);
                    let context =
                        format!("{reads:?} {general:?} {key:?} {clustering:?} seed {seed}");
                    assert!(pages as u64 <= reads.0 + reads.1, "{context}");
                    // A cache that keeps nothing loses the pages that one read fetches together.
                    assert!(reads.0 <= general.0, "{context}");
                    assert!(seed.is_multiple_of(2) || reads.1 <= general.1 + more, "{context}");
                }
            }
            assert_eq!(cache.metrics().misses, pages.misses, "a cached look-up must not read");
        }
    }
    // These keys do not exist. Some of them pass the filter and share their prefix with an existing
    // key.
    for number in 0..200u32 {
        let key = DecoratedKey::new(Bytes::from(number.to_be_bytes().repeat(2)));
        if partitions.iter().any(|partition| partition.header.key == key) {
            continue;
        }
        let nowhere = Clustering { values: vec![None; table.clustering_columns().len()].into() };
        let expected = read(&reader, &key, &nowhere).await;
        if let Some(said) = cached_pages(&reader, &key, &nowhere, &mut scratch) {
            assert_eq!(said, expected);
        }
    }
    // With an empty cache there is no answer, even for an existing key.
    cache.set_budget(0);
    if let Some(partition) = partitions.first() {
        let columns = table.clustering_columns().len();
        let nowhere = Clustering { values: vec![None; columns].into() };
        assert_eq!(cached_pages(&reader, &partition.header.key, &nowhere, &mut scratch), None);
    }
    (reported, unreported)
}

#[test]
fn lookups_in_cached_pages_agree_with_reads() {
    block_on(async {
        for features in written_versions() {
            let (mut reported, mut unreported) = (0, 0);
            for seed in espalier_testing::seeds(60) {
                let counted = compare(seed, features, (12, 60), seed % 2 == 1).await;
                reported += counted.0;
                unreported += counted.1;
            }
            println!("{}: {reported} answered, {unreported} not", features.version);
            assert!(
                reported > 300 || !espalier_testing::runs_all(),
                "{}: {reported} of {} answered",
                features.version,
                reported + unreported
            );
        }
    });
}

/// The tries of row indexes cross the ends of pages, each in another way.
#[test]
fn rows_are_found_where_a_row_index_spans_pages() {
    block_on(async {
        for features in written_versions().into_iter().filter(|features| features.has_trie_index())
        {
            let mut reported = 0;
            for seed in espalier_testing::seeds(24) {
                reported += compare(seed, features, (60, 400), true).await.0;
            }
            println!("{}: {reported} answered", features.version);
            assert!(
                reported > 5_000 || !espalier_testing::runs_all(),
                "{}: only {reported} answered",
                features.version
            );
        }
    });
}
