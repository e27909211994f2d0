//! Tests that slices of the partitions of Cassandra's and ScyllaDB's fixtures, forward and in
//! reverse, through the row index and without it, equal the same slices of a full read. The budget
//! of the page cache varies from 0 to 4 MiB.

use crate::support;

use std::sync::Arc;

use espalier_mutation::{
    ClusteringSlice, ClusteringSlices, Direction, KeyRange, Unfiltered, UnfilteredStream,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{ColumnSelection, PageCache, SSTableReader};
use support::{
    block_on, cases_of_run,
    scylla::{open_as_it_is, readable_sstables},
    slicing::{Random, random_slices, slice},
};

async fn collect<S: UnfilteredStream>(mut stream: S) -> Result<Vec<Unfiltered>, S::Error> {
    let mut all = Vec::new();
    while let Some(unfiltered) = stream.next().await? {
        all.push(unfiltered);
    }
    Ok(all)
}

async fn check(
    reader: &SSTableReader,
    name: &str,
    tries: usize,
) -> espalier_sstable::Result<usize> {
    let table = reader.table();
    let comparator = table.comparator();
    let everything = Arc::new(ClusteringSlices::all());
    let all_columns = ColumnSelection::All;
    let mut scan = reader.scan(KeyRange::full(), everything.clone(), &all_columns).await?;
    let mut checked = 0;
    let mut random = Random(7);
    let mut partitions = 0;
    while let Some(mut partition) = scan.next_partition().await? {
        partitions += 1;
        if partitions > 60 {
            break;
        }
        let header = partition.header().clone();
        let mut all = Vec::new();
        while let Some(unfiltered) = partition.next().await? {
            all.push(unfiltered);
        }
        let read = async |slices: &Arc<ClusteringSlices>, direction| {
            let stream =
                reader.read_partition(&header.key, slices.clone(), direction, &all_columns).await?;
            let stream = stream.unwrap();
            assert_eq!(stream.header(), &header, "{name}");
            collect(stream).await
        };
        for direction in [Direction::Forward, Direction::Reverse] {
            let expected = slice(comparator, &all, &everything, direction);
            assert_eq!(read(&everything, direction).await?, expected, "{name} {direction:?}");
        }
        if all.is_empty() {
            continue;
        }
        for round in 0..espalier_testing::cases(tries as u64) {
            let slices = match round % 3 {
                0 => {
                    let at = &all[random.below(all.len())];
                    let one = ClusteringSlice::prefix(at.position().values.into());
                    ClusteringSlices::normalise(vec![one], comparator)
                }
                _ => random_slices(comparator, &all, &mut random),
            };
            let slices = Arc::new(slices);
            for direction in [Direction::Forward, Direction::Reverse] {
                let expected = slice(comparator, &all, &slices, direction);
                let found = read(&slices, direction).await?;
                assert!(
                    found == expected,
                    "{name} {direction:?} {slices:?}\n   found {found:?}\nexpected {expected:?}"
                );
                checked += 1;
            }
        }
    }
    Ok(checked)
}

#[test]
fn slices_equal_those_of_a_full_read() {
    let mut checked = 0;
    for case in cases_of_run() {
        let tries = if case.name.starts_with("wide") { 60 } else { 12 };
        for (descriptor, budget) in case.sstables.iter().zip([1 << 22, 20_000, 0].iter().cycle()) {
            let cache = PageCache::new(*budget);
            let real = FileSystem::real();
            let open = SSTableReader::open(&real, descriptor.clone(), None, &cache);
            let name = format!("{} {descriptor}", case.name);
            let reader = block_on(open).unwrap_or_else(|error| panic!("{name}: {error}"));
            checked += block_on(check(&reader, &name, tries))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(cache.metrics().used_bytes <= *budget as u64);
        }
    }
    println!("{checked} slices compared");
}

/// Compares slices of the fixtures of ScyllaDB's tests, of all versions, through the row index and
/// without it.
#[test]
fn slices_of_foreign_files_equal_those_of_a_full_read() {
    let mut checked = 0;
    for (folder, descriptor) in readable_sstables() {
        let tries = if folder.contains("large_partition") { 40 } else { 8 };
        let reader = block_on(open_as_it_is(&descriptor, None)).unwrap();
        let name = format!("{folder}/{descriptor}");
        checked += block_on(check(&reader, &name, tries))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    println!("{checked} slices compared");
}
