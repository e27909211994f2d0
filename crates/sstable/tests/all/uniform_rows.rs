//! Tests that uniform rows, copied without decoding their cells, equal byte for byte the rows that
//! a merge of objects writes. The rows come from one file, or from several files of which one hides
//! the rows of the others. The version of the copy and the place at which the copying ends are
//! random.

use crate::support;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Cell, ClusteringSlices, ColumnData, DecoratedKey, DeletionTime, Direction, KeyRange, Liveness,
    Row, Unfiltered, UnfilteredStream,
    reconcile::{MergedPartition, merge_headers},
    schema::TableMetadata,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    Ahead, ChunkFormat, ColumnSelection, Component, PageCache, SSTableReader, SSTableWriter, Scan,
    UniformEnd, WriterOptions, WrittenSSTable,
};
use support::{
    block_on,
    generate::{Generator, Partition, Shape},
    slicing::Random,
    writing::{descriptor_of, options, random_chunks, write, written_versions},
};

/// Numbers of uniform rows that were copied, from one file and from several, and of partitions that
/// were cached.
#[derive(Default)]
struct Counts {
    from_one: u32,
    from_several: u32,
    cached_partitions: u32,
}

/// Makes the part of these partitions that one file has. Most rows become uniform and get another
/// timestamp.
fn part_of(
    partitions: &[Partition],
    table: &TableMetadata,
    generator: &mut Generator,
    random: &mut Random,
) -> Vec<Partition> {
    let mut parts = Vec::new();
    let density = 1 + random.below(4);
    for partition in partitions {
        if random.below(4) == 0 {
            continue;
        }
        let mut part = partition.clone();
        part.header.deletion = match random.below(6) {
            0 => partition.header.deletion,
            _ => DeletionTime::LIVE,
        };
        part.header.static_row = part.header.static_row.filter(|_| random.below(2) == 0);
        let has_markers = random.below(4) == 0;
        part.unfiltereds.retain_mut(|unfiltered| match unfiltered {
            Unfiltered::Marker(_) => has_markers,
            Unfiltered::Row(row) => {
                if random.below(12) > 0 {
                    make_uniform(row, table, density, generator, random);
                }
                random.below(4) > 0
            }
        });
        if part.header.static_row.is_some() || !part.unfiltereds.is_empty() {
            parts.push(part);
        }
    }
    parts
}

fn make_uniform(
    row: &mut Row,
    table: &TableMetadata,
    density: usize,
    generator: &mut Generator,
    random: &mut Random,
) {
    let timestamp = 1_750_000_000_000_000 + random.below(300) as i64;
    row.liveness = Liveness::live(timestamp);
    row.deletion = DeletionTime::LIVE;
    row.columns.clear();
    for column in table.regular_columns() {
        if random.below(5) <= density {
            let value = Bytes::from(generator.value(&column.column_type));
            row.columns.push((column.id, ColumnData::Simple(Cell::live(timestamp, value))));
        }
    }
    row.columns.sort_by_key(|(id, _)| *id);
}

/// Merges partitions. With `random`, it copies uniform rows as far as possible, or stops at random.
async fn merge(
    file_system: &FileSystem,
    readers: &[SSTableReader],
    table: &Arc<TableMetadata>,
    options: WriterOptions,
    mut random: Option<&mut Random>,
    counts: &mut Counts,
) -> espalier_sstable::Result<Option<WrittenSSTable>> {
    let mut writer = SSTableWriter::create(file_system, options).await?;
    let slices = Arc::new(ClusteringSlices::all());
    let mut scans: Vec<Scan> = Vec::new();
    for reader in readers {
        let scan = reader.scan(KeyRange::full(), slices.clone(), &ColumnSelection::All).await?;
        scans.push(scan);
        scans.last_mut().unwrap().next_partition().await?;
    }
    let key_of = |scan: &Scan| scan.header().map(|header| header.key.clone());
    loop {
        let Some(key) = scans.iter().filter_map(key_of).min() else { break };
        let is_standing = |scan: &Scan, key: &DecoratedKey| key_of(scan).as_ref() == Some(key);
        let headers = scans.iter().filter_map(|scan| scan.header());
        let headers = headers.filter(|header| header.key == key);
        let header = merge_headers(table, headers).unwrap();
        let is_live = header.deletion.is_live();
        let is_at_key = |scan: &&Scan| is_standing(scan, &key);
        match scans.iter().filter(is_at_key).find_map(Scan::key_hash) {
            Some(hash) => writer.start_hashed_partition(header, hash)?,
            None => writer.start_partition(header)?,
        }
        let mut standing: Vec<&mut Scan> =
            scans.iter_mut().filter(|scan| is_standing(scan, &key)).collect();
        let mut is_done = false;
        if let Some(random) = random.as_deref_mut().filter(|_| is_live) {
            is_done = copy(&mut standing, &mut writer, random, counts).await?;
        }
        if !is_done {
            let sources = standing.iter_mut().filter_map(|scan| scan.partition()).collect();
            let merged = MergedPartition::new(table.clone(), Direction::Forward, sources);
            let mut merged = merged.await?.unwrap();
            while let Some(unfiltered) = merged.next().await? {
                writer.add(unfiltered).await?;
            }
        }
        writer.end_partition().await?;
        for scan in scans.iter_mut().filter(|scan| is_standing(scan, &key)) {
            let is_quick = random.as_deref_mut().is_some_and(|random| random.below(4) > 0);
            if is_quick && scan.next_cached() {
                counts.cached_partitions += 1;
                assert!(scan.key_hash().is_some());
            } else {
                _ = scan.next_partition().await?
            }
        }
    }
    writer.finish().await
}

/// Copies uniform rows of a partition. Returns true if it copied the whole partition.
async fn copy(
    standing: &mut [&mut Scan],
    writer: &mut SSTableWriter,
    random: &mut Random,
    counts: &mut Counts,
) -> espalier_sstable::Result<bool> {
    loop {
        let mut copied = 0;
        let most = 1 + random.below(20) as u32;
        let end = writer.copy_uniform(standing, most, &mut copied)?;
        assert!(copied <= most);
        match standing.len() {
            1 => counts.from_one += copied,
            _ => counts.from_several += copied,
        }
        match end {
            UniformEnd::Partition => return Ok(true),
            UniformEnd::Full => writer.make_room().await?,
            UniformEnd::Other => {
                let [scan] = standing else { return Ok(false) };
                if random.below(8) == 0 || scan.look().await? != Ahead::Raw {
                    return Ok(false);
                }
                writer.add_raw(&scan.raw_row().unwrap()).await?;
                scan.pass();
            }
        }
        if random.below(20) == 0 {
            return Ok(false);
        }
    }
}

async fn check(seed: u64, counts: &mut Counts) -> espalier_sstable::Result<()> {
    let mut random = Random(seed * 77 + 5);
    let versions = written_versions();
    let mut version = || versions[random.below(versions.len())];
    let (from, to) = (version(), version());
    let shape = Shape {
        partitions: 1 + seed as usize % 40,
        rows: 3 + (seed as usize * 97) % 200,
        is_reconciled: true,
        is_odd: seed.is_multiple_of(3),
    };
    let mut generator = Generator::new(seed, shape).fitting(from).fitting(to);
    let table = loop {
        let table = generator.table();
        let is_simple = |table: &TableMetadata| {
            table.regular_columns().iter().all(|column| !column.is_complex())
        };
        if is_simple(&table) && !table.is_counter() {
            break table;
        }
    };
    let all = generator.partitions(&table);
    let file_system = FileSystem::simulated(seed);
    let cache = PageCache::new(1 << 20);
    let (mut readers, mut parts) = (Vec::new(), Vec::new());
    for number in 1..=1 + random.below(3) as u64 {
        let part = part_of(&all, &table, &mut generator, &mut random);
        let directory = format!("/data/{number}");
        file_system.create_dir_all(&directory).await?;
        let descriptor = descriptor_of(from, Path::new(&directory), number);
        let chunks = random_chunks(&mut random);
        let plan = options(descriptor.clone(), &table, &part, chunks, 1024);
        if write(&file_system, plan, &part).await?.is_some() {
            let table = Some(table.clone());
            readers.push(SSTableReader::open(&file_system, descriptor, table, &cache).await?);
        }
        parts.extend(part);
    }
    let column_index_size = [512, 4096, 65_536][random.below(3)];
    let chunks = match random.below(2) {
        0 => ChunkFormat::Plain { chunk_length: 65_536 },
        _ => random_chunks(&mut random),
    };
    let plan = |directory: &str| {
        let descriptor = descriptor_of(to, Path::new(directory), 1);
        options(descriptor, &table, &parts, chunks.clone(), column_index_size)
    };
    let (mut written, mut random) = (Vec::new(), Some(random));
    for directory in ["/data/copied", "/data/merged"] {
        file_system.create_dir_all(directory).await?;
        let mut random = random.take();
        let plan = plan(directory);
        let merged = merge(&file_system, &readers, &table, plan, random.as_mut(), counts);
        written.extend(merged.await?);
    }
    let [copied, merged] = written.as_slice() else {
        assert!(written.is_empty());
        return Ok(());
    };
    assert_eq!(copied.components, merged.components);
    for component in merged.components.iter().filter(|component| **component != Component::Scylla) {
        let of = |written: &WrittenSSTable| file_system.read(written.descriptor.path(component));
        assert!(of(copied).await? == of(merged).await?, "{from:?} to {to:?}: {component}");
    }
    Ok(())
}

#[test]
fn copies_of_uniform_rows_equal_a_merge_of_objects() {
    let mut counts = Counts::default();
    for seed in espalier_testing::seeds(600) {
        block_on(check(seed, &mut counts)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let Counts { from_one, from_several, cached_partitions } = counts;
    assert!(
        from_one as u64 >= espalier_testing::at_least(3000),
        "only {from_one} rows of one file were copied"
    );
    assert!(
        from_several as u64 >= espalier_testing::at_least(1000),
        "only {from_several} rows of several files were copied"
    );
    assert!(
        cached_partitions as u64 >= espalier_testing::at_least(500),
        "only {cached_partitions} partitions were cached"
    );
}
