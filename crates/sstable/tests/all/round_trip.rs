//! Checks that written SSTables can be read again, in every version and shape: by scans, by keys,
//! by slices in both directions, and by ranges of keys. Verification must agree with every number.

use crate::support;

use std::{path::Path, sync::Arc};

use espalier_mutation::{
    ClusteringSlices, DecoratedKey, Direction, KeyBound, KeyRange, Token, UnfilteredStream,
    schema::TableMetadata,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{ColumnSelection, PageCache, SSTableReader, verify::verify};
use proptest::prelude::*;
use support::{
    block_on,
    generate::{Generator, Partition, Shape},
    slicing::{Random, random_slices, slice},
    writing::{descriptor_of, options, random_chunks, write, written_versions},
};

async fn check_slices(
    reader: &SSTableReader,
    table: &TableMetadata,
    partition: &Partition,
    random: &mut Random,
) -> espalier_sstable::Result<()> {
    let key = &partition.header.key;
    for round in 0..8 {
        let slices = if partition.unfiltereds.is_empty() || round == 0 {
            ClusteringSlices::all()
        } else {
            random_slices(table.comparator(), &partition.unfiltereds, random)
        };
        let slices = Arc::new(slices);
        for direction in [Direction::Forward, Direction::Reverse] {
            let all = ColumnSelection::All;
            let stream = reader.read_partition(key, slices.clone(), direction, &all).await?;
            let mut stream = stream.expect("a key is lost");
            assert_eq!(stream.header(), &partition.header);
            let mut found = Vec::new();
            while let Some(unfiltered) = stream.next().await? {
                found.push(unfiltered);
            }
            let expected = slice(table.comparator(), &partition.unfiltereds, &slices, direction);
            assert!(
                found == expected,
                "{direction:?} {slices:?}\n   found {found:?}\nexpected {expected:?}"
            );
        }
    }
    Ok(())
}

async fn check_scan(
    reader: &SSTableReader,
    partitions: &[Partition],
    range: KeyRange,
    random: &mut Random,
) -> espalier_sstable::Result<()> {
    let expected = partitions.iter().filter(|partition| range.contains(&partition.header.key));
    let slices = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(range.clone(), slices, &ColumnSelection::All).await?;
    for expected in expected {
        let mut partition = scan.next_partition().await?.expect("a partition is lost");
        assert_eq!(partition.header(), &expected.header);
        // Some streams of partitions are dropped before their end.
        let stop = match random.below(3) {
            0 => random.below(expected.unfiltereds.len() + 1),
            _ => usize::MAX,
        };
        let mut read = 0;
        while read < stop {
            let Some(unfiltered) = partition.next().await? else { break };
            assert_eq!(Some(&unfiltered), expected.unfiltereds.get(read));
            read += 1;
        }
        assert_eq!(read, stop.min(expected.unfiltereds.len()));
    }
    assert!(scan.next_partition().await?.is_none());
    Ok(())
}

fn random_range(partitions: &[Partition], random: &mut Random) -> KeyRange {
    let mut bound = || {
        let key = match random.below(4) {
            0 => DecoratedKey::new(vec![random.below(256) as u8; 1 + random.below(5)].into()),
            _ => partitions[random.below(partitions.len())].header.key.clone(),
        };
        match random.below(6) {
            0 => KeyBound::Unbounded,
            1 => KeyBound::BeforeToken(key.token),
            2 => KeyBound::AfterToken(key.token),
            3 => KeyBound::BeforeToken(Token(key.token.0.wrapping_add(1))),
            4 => KeyBound::BeforeKey(key),
            _ => KeyBound::AfterKey(key),
        }
    };
    KeyRange { start: bound(), end: bound() }
}

/// Writes and reads one generated table. Returns the number of row index blocks that verification
/// has read.
async fn round_trip(
    seed: u64,
    shape: Shape,
    column_index_size: u32,
) -> espalier_sstable::Result<u64> {
    let versions = written_versions();
    let features = versions[seed as usize % versions.len()];
    let mut generator = Generator::new(seed, shape).fitting(features);
    let table = generator.table();
    let partitions = generator.partitions(&table);
    let mut random = Random(seed);
    let file_system = FileSystem::simulated(seed);
    let directory = Path::new("/data/ks/t");
    file_system.create_dir_all(directory).await?;
    let chunks = random_chunks(&mut random);
    let descriptor = descriptor_of(features, directory, 1);
    let options = options(descriptor.clone(), &table, &partitions, chunks, column_index_size);
    let written = write(&file_system, options, &partitions).await?;
    if partitions.is_empty() {
        assert!(written.is_none());
        assert!(file_system.read_dir(directory).await?.is_empty());
        return Ok(0);
    }
    let written = written.unwrap();
    assert_eq!(written.partition_count, partitions.len() as u64);
    let cache = PageCache::new([0, 30_000, 1 << 22][random.below(3)]);
    let table_of_reader = Some(table.clone());
    let reader =
        SSTableReader::open(&file_system, descriptor.clone(), table_of_reader, &cache).await?;
    assert_eq!(reader.data_length(), written.data_length);
    check_scan(&reader, &partitions, KeyRange::full(), &mut Random(1)).await?;
    for _ in 0..10 {
        let range = random_range(&partitions, &mut random);
        check_scan(&reader, &partitions, range, &mut random).await?;
    }
    for partition in &partitions {
        check_slices(&reader, &table, partition, &mut random).await?;
    }
    for absent in 0..50u32 {
        let key = DecoratedKey::new(absent.to_le_bytes().to_vec().into());
        let slices = Arc::new(ClusteringSlices::all());
        let all = ColumnSelection::All;
        let found = reader.read_partition(&key, slices, Direction::Forward, &all).await?;
        assert_eq!(found.is_some(), partitions.iter().any(|p| p.header.key == key));
    }
    let report = verify(&file_system, &descriptor).await?;
    // Intentionally odd values are reported; the report must have no other problem.
    let is_expected = |what: &str| shape.is_odd && what.contains("column ");
    let problems: Vec<_> = report.problems.iter().filter(|p| !is_expected(&p.what)).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    assert_eq!(report.partitions, partitions.len() as u64);
    Ok(report.blocks)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..espalier_testing::properties(96) })]

    #[test]
    fn small_tables(seed: u64, partitions in 1usize..30, rows in 0usize..12, is_reconciled: bool, is_odd: bool) {
        let shape = Shape { partitions, rows, is_reconciled, is_odd };
        block_on(round_trip(seed, shape, 16 * 1024)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn wide_partitions() {
    let mut blocks = 0;
    for seed in espalier_testing::seeds(80) {
        let rows = 50 + (seed as usize * 97) % 900;
        let shape = Shape { partitions: 4, rows, is_reconciled: true, is_odd: seed % 3 == 0 };
        let column_index_size = [1024, 1024, 4096, 16 * 1024][seed as usize % 4];
        blocks += block_on(round_trip(seed, shape, column_index_size))
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(
        blocks > 500 || !espalier_testing::runs_all(),
        "only {blocks} blocks: the partitions were not wide"
    );
}
