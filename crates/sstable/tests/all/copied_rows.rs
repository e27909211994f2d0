//! Tests that a copy of raw rows equals, byte for byte, the file that is written from objects, for
//! any version and baselines of the copy, and for any mix of raw rows and objects in a partition.

use crate::support;

use std::{path::Path, sync::Arc};

use espalier_mutation::{
    ClusteringSlices, KeyRange, Row, Unfiltered, UnfilteredStream, reconcile::merge_rows,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    Ahead, ChunkFormat, ColumnSelection, Component, PageCache, SSTableReader, SSTableWriter, Scan,
    WriterOptions, WrittenSSTable,
};
use support::{
    block_on,
    generate::{Generator, Shape},
    slicing::Random,
    writing::{descriptor_of, options, random_chunks, write, written_versions},
};

/// Returns the written file and the number of raw rows that were copied.
async fn copy(
    file_system: &FileSystem,
    reader: &SSTableReader,
    options: WriterOptions,
    random: &mut Random,
) -> espalier_sstable::Result<(WrittenSSTable, u64)> {
    let mut writer = SSTableWriter::create(file_system, options).await?;
    let slices = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), slices, &ColumnSelection::All).await?;
    let mut plain = 0;
    while scan.next_partition().await?.is_some() {
        writer.start_partition(scan.header().unwrap().clone())?;
        loop {
            // A caller may look at a row and then not take it.
            match scan.look().await? {
                Ahead::Raw if random.below(5) > 0 => {
                    writer.add_raw(&scan.raw_row().unwrap()).await?;
                    scan.pass();
                    plain += 1;
                }
                Ahead::End => {
                    assert!(scan.partition().unwrap().next().await?.is_none());
                    break;
                }
                _ => match scan.partition().unwrap().next().await? {
                    Some(unfiltered) => writer.add(unfiltered).await?,
                    None => break,
                },
            }
        }
        writer.end_partition().await?;
    }
    Ok((writer.finish().await?.unwrap(), plain))
}

async fn check(seed: u64) -> espalier_sstable::Result<u64> {
    let mut random = Random(seed * 31 + 7);
    let versions = written_versions();
    let mut version = || versions[random.below(versions.len())];
    let (from, to) = (version(), version());
    let shape = Shape {
        partitions: 1 + seed as usize % 7,
        rows: 3 + (seed as usize * 97) % 200,
        is_reconciled: true,
        is_odd: false,
    };
    let mut generator = Generator::new(seed, shape).fitting(from).fitting(to);
    let table = generator.table();
    let partitions = generator.partitions(&table);
    let file_system = FileSystem::simulated(seed);
    let directories = ["/data/a", "/data/b", "/data/c"].map(Path::new);
    for directory in directories {
        file_system.create_dir_all(directory).await?;
    }
    let chunks = random_chunks(&mut random);
    let original = descriptor_of(from, directories[0], 1);
    let plan = options(original.clone(), &table, &partitions, chunks, 1024);
    if write(&file_system, plan, &partitions).await?.is_none() {
        return Ok(0);
    }
    let plan = |directory, column_index_size| {
        let descriptor = descriptor_of(to, directory, 1);
        let chunks = ChunkFormat::Plain { chunk_length: 65_536 };
        let mut plan = options(descriptor, &table, &partitions, chunks, column_index_size);
        // A copy of several files has the least of their baselines.
        let mut older = Generator::new(seed + 1, shape).fitting(to);
        for partition in older.partitions(&table) {
            plan.encoding_stats.add_deletion(partition.header.deletion);
        }
        plan
    };
    let column_index_size = [512, 4096, 65_536][random.below(3)];
    let cache = PageCache::new(1 << 20);
    let reader = SSTableReader::open(&file_system, original, Some(table.clone()), &cache).await?;
    let expected =
        write(&file_system, plan(directories[1], column_index_size), &partitions).await?.unwrap();
    let options = plan(directories[2], column_index_size);
    let (copied, plain) = copy(&file_system, &reader, options, &mut random).await?;
    let mut compared = 0;
    for component in [
        Component::Data,
        Component::Partitions,
        Component::Rows,
        Component::Index,
        Component::Summary,
        Component::Filter,
        Component::Statistics,
        Component::Toc,
    ] {
        let expected = expected.descriptor.path(&component);
        if file_system.exists(&expected).await? {
            let copied = file_system.read(copied.descriptor.path(&component)).await?;
            assert!(file_system.read(expected).await? == copied, "{from:?} to {to:?}: {component}");
            compared += 1;
        }
    }
    assert!(compared > 5);
    Ok(plain)
}

#[test]
fn copied_rows_equal_rows_written_from_objects() {
    let mut plain = 0;
    for seed in espalier_testing::seeds(300) {
        plain += block_on(check(seed)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(plain > espalier_testing::at_least(3000), "only {plain} rows were taken as they lie");
}

/// One of two rows with the same clustering hides the other only if it is the result of their
/// merge.
#[test]
fn a_row_hides_another_only_if_it_equals_their_merge() {
    let mut hidden = 0;
    for seed in espalier_testing::seeds(400) {
        hidden += block_on(check_hiding(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    assert!(hidden >= espalier_testing::at_least(100), "only {hidden} rows hid another");
}

async fn whole(reader: &SSTableReader) -> espalier_sstable::Result<Scan> {
    let slices = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), slices, &ColumnSelection::All).await?;
    scan.next_partition().await?;
    Ok(scan)
}

/// Returns the next raw row of the partition as an object. `ahead` looks at it, and `objects` reads
/// it.
async fn next_raw(ahead: &mut Scan, objects: &mut Scan) -> espalier_sstable::Result<Option<Row>> {
    loop {
        let seen = ahead.look().await?;
        let object = match objects.partition() {
            Some(mut partition) => partition.next().await?,
            None => None,
        };
        match (seen, object) {
            (Ahead::Raw, Some(Unfiltered::Row(row))) => return Ok(Some(row)),
            (_, None) => return Ok(None),
            (_, Some(_)) => drop(ahead.partition().unwrap().next().await?),
        }
    }
}

async fn check_hiding(seed: u64) -> espalier_sstable::Result<u64> {
    let versions = written_versions();
    let features = versions[seed as usize % versions.len()];
    let shape =
        Shape { partitions: 1, rows: 40, is_reconciled: true, is_odd: seed.is_multiple_of(2) };
    let mut generator = Generator::new(seed, shape).fitting(features);
    let table = generator.table();
    let file_system = FileSystem::simulated(seed);
    let cache = PageCache::new(1 << 20);
    let mut readers = Vec::new();
    for directory in ["/data/a", "/data/b"].map(Path::new) {
        let partitions = generator.partitions(&table);
        file_system.create_dir_all(directory).await?;
        let descriptor = descriptor_of(features, directory, 1);
        let plan = options(descriptor.clone(), &table, &partitions, ChunkFormat::PLAIN, 1024);
        if write(&file_system, plan, &partitions).await?.is_none() {
            return Ok(0);
        }
        let table = Some(table.clone());
        readers.push(SSTableReader::open(&file_system, descriptor, table, &cache).await?);
    }
    let mut hidden = 0;
    // Any two rows will do, because `hides` does not depend on their positions.
    let (mut left, mut left_objects) = (whole(&readers[0]).await?, whole(&readers[0]).await?);
    while let Some(mine) = next_raw(&mut left, &mut left_objects).await? {
        let (mut right, mut right_objects) = (whole(&readers[1]).await?, whole(&readers[1]).await?);
        while let Some(mut theirs) = next_raw(&mut right, &mut right_objects).await? {
            if left.raw_row().unwrap().hides(&right.raw_row().unwrap()) {
                hidden += 1;
                theirs.clustering = mine.clustering.clone();
                for merged in [
                    merge_rows(&table, mine.clone(), theirs.clone()),
                    merge_rows(&table, theirs, mine.clone()),
                ] {
                    assert_eq!(merged, mine, "seed {seed}");
                }
            }
            right.pass();
        }
        left.pass();
    }
    Ok(hidden)
}
