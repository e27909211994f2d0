//! This module keeps SSTables in memory, so that tests can damage and read them.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use espalier_mutation::{
    ClusteringSlice, ClusteringSlices, DecoratedKey, Direction, KeyRange, UnfilteredStream,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ColumnSelection, Component, Descriptor, PageCache, SSTableError, SSTableId, SSTableReader,
    dump::Dump, versions::Version,
};

use super::{
    block_on,
    generate::{Generator, Shape},
    rows,
    slicing::Random,
    writing::{options, write},
};

pub const DIRECTORY: &str = "/data/ks/t";

/// An SSTable in memory.
pub struct Files {
    pub descriptor: Descriptor,
    pub components: BTreeMap<Component, Vec<u8>>,
}

/// Loads an SSTable from disk.
pub fn load(descriptor: &Descriptor) -> Files {
    let names = [
        Component::CompressionInfo,
        Component::Crc,
        Component::Data,
        Component::Digest,
        Component::Filter,
        Component::Index,
        Component::Partitions,
        Component::Rows,
        Component::Statistics,
        Component::Summary,
        Component::Toc,
    ];
    let components = names
        .into_iter()
        .filter_map(|name| Some((name.clone(), std::fs::read(descriptor.path(&name)).ok()?)))
        .collect();
    let descriptor = Descriptor { directory: DIRECTORY.into(), ..descriptor.clone() };
    Files { descriptor, components }
}

/// Creates a file system with the files. `broken` replaces the content of one of them.
pub async fn store(files: &Files, broken: Option<(&Component, &[u8])>) -> FileSystem {
    let file_system = FileSystem::simulated(1);
    file_system.create_dir_all(Path::new(DIRECTORY)).await.unwrap();
    for (component, content) in &files.components {
        let content = match broken {
            Some((name, content)) if name == component => content,
            _ => content,
        };
        let file = file_system.create(files.descriptor.path(component)).await.unwrap();
        if !content.is_empty() {
            file.append(content.to_vec()).await.unwrap();
        }
    }
    file_system
}

/// Reads all content by a scan. Then looks up each key, and for a sample of rows the slice of the
/// row and the slice from the row to the end, in both directions. Returns the lines of the scan,
/// the lines of the look-ups, and the keys.
pub async fn read_all(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    keys: Option<&[DecoratedKey]>,
) -> Result<(Vec<String>, Vec<String>, Vec<DecoratedKey>), SSTableError> {
    let cache = PageCache::new(1 << 20);
    let reader = SSTableReader::open(file_system, descriptor.clone(), None, &cache).await?;
    let table = reader.table();
    let all = ColumnSelection::All;
    let everything = Arc::new(ClusteringSlices::all());
    let (mut scanned, mut found_keys) = (Vec::new(), Vec::new());
    let mut scan = reader.scan(KeyRange::full(), everything.clone(), &all).await?;
    let mut positions = BTreeMap::new();
    while let Some(mut partition) = scan.next_partition().await? {
        let key = partition.header().key.clone();
        scanned.extend(Dump { table: &table, full_values: false }.header(partition.header()));
        let mut of_partition = Vec::new();
        while let Some(unfiltered) = partition.next().await? {
            scanned.push(Dump { table: &table, full_values: false }.unfiltered(&unfiltered));
            of_partition.push(unfiltered.position().to_bound(true));
        }
        positions.insert(key.clone(), of_partition);
        found_keys.push(key);
        assert!(scanned.len() < 1_000_000, "the scan does not end");
    }
    let mut looked_up = Vec::new();
    for key in keys.unwrap_or(&found_keys) {
        let mut slices = vec![everything.clone()];
        // The sample has the first row, the last one, and some between.
        let bounds = positions.get(key).map(Vec::as_slice).unwrap_or_default();
        for at in (0..bounds.len()).step_by(bounds.len() / 8 + 1).chain(bounds.len().checked_sub(1))
        {
            let one = ClusteringSlice::prefix(bounds[at].values.clone());
            let rest = ClusteringSlice { end: ClusteringSlice::all().end, ..one.clone() };
            for slice in [one, rest] {
                slices.push(Arc::new(ClusteringSlices::normalise(vec![slice], table.comparator())));
            }
        }
        for slices in slices {
            for direction in [Direction::Forward, Direction::Reverse] {
                let stream = reader.read_partition(key, slices.clone(), direction, &all).await?;
                match stream {
                    None => looked_up.push(format!("{key:?} is absent")),
                    Some(mut stream) => {
                        let dump = Dump { table: &table, full_values: false };
                        looked_up.extend(dump.header(stream.header()));
                        looked_up.extend(rows(&table, &mut stream).await?);
                    }
                }
            }
        }
    }
    Ok((scanned, looked_up, found_keys))
}

/// Writes an SSTable of generated content, with a checksum for every file and blocks of 1 KiB. If a
/// seed gives at most half of the partitions (keys may be booleans), the next seed is used.
pub fn generated(seed: u64, shape: Shape, chunks: espalier_sstable::ChunkFormat) -> Files {
    generated_as(Version::DA, seed, shape, chunks)
}

/// Works like [`generated`] for any version that can be written.
pub fn generated_as(
    version: Version,
    seed: u64,
    shape: Shape,
    chunks: espalier_sstable::ChunkFormat,
) -> Files {
    let (table, partitions) = (seed..)
        .map(|seed| {
            let mut generator = Generator::new(seed, shape);
            let table = generator.table();
            let partitions = generator.partitions(&table);
            (table, partitions)
        })
        .find(|(_, partitions)| 2 * partitions.len() > shape.partitions)
        .unwrap();
    block_on(async {
        let file_system = FileSystem::simulated(seed);
        file_system.create_dir_all(Path::new(DIRECTORY)).await.unwrap();
        let id = SSTableId::parse("1").unwrap();
        let descriptor = Descriptor::new(DIRECTORY, version.writable_features().unwrap(), id);
        let options = options(descriptor.clone(), &table, &partitions, chunks, 1024);
        write(&file_system, options, &partitions).await.unwrap();
        Files { descriptor, components: take(&file_system).await }
    })
}

/// Reads all files in [`DIRECTORY`], which must belong to one SSTable.
pub async fn take(file_system: &FileSystem) -> BTreeMap<Component, Vec<u8>> {
    let mut components = BTreeMap::new();
    for entry in file_system.read_dir(Path::new(DIRECTORY)).await.unwrap() {
        let (_, component) = Descriptor::parse(&entry.path).unwrap();
        let file = file_system.open_read(&entry.path).await.unwrap();
        let length = file.length().await.unwrap() as usize;
        let content = match length {
            0 => Vec::new(),
            _ => file.read_exact_at(0, length).await.unwrap().into_bytes().to_vec(),
        };
        components.insert(component, content);
    }
    components
}

impl Files {
    /// Removes a component and its line of TOC.txt.
    pub fn without(mut self, component: &Component) -> Self {
        self.components.remove(component);
        let toc = self.components.get_mut(&Component::Toc).unwrap();
        let text = String::from_utf8(std::mem::take(toc)).unwrap();
        *toc = text.replace(&format!("{component}\n"), "").into_bytes();
        self
    }
}

/// Returns the content with a random change, as damage or a forger causes it.
pub fn change(content: &[u8], random: &mut Random) -> Vec<u8> {
    let mut changed = content.to_vec();
    if changed.is_empty() {
        return vec![random.below(256) as u8; 1 + random.below(9)];
    }
    let at = random.below(changed.len());
    match random.below(6) {
        0 => changed[at] ^= 1 << random.below(8),
        1 => changed[at] = [0, 1, 0x7F, 0x80, 0xFE, 0xFF][random.below(6)],
        2 => changed[at] = random.below(256) as u8,
        3 => {
            let end = (at + 1 + random.below(9)).min(changed.len());
            changed[at..end].fill([0, 0xFF][random.below(2)]);
        }
        4 => drop(changed.drain(at..(at + 1 + random.below(3)).min(content.len()))),
        _ => {
            let count = 1 + random.below(3);
            let inserted = (0..count).map(|_| random.below(256) as u8).collect::<Vec<_>>();
            changed.splice(at..at, inserted);
        }
    }
    changed
}
