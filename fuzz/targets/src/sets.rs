//! Whole SSTables in memory with exchangeable components: small ones that Cassandra wrote, and some
//! of them rewritten in every version.
//!
//! If the node reads a version but does not write it, the set is written in the next version that
//! the node writes. Its files then get the name of the version that is only read, and a
//! Statistics.db in that version's format.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use espalier_mutation::{ClusteringSlices, KeyRange, UnfilteredStream};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ChunkFormat, ColumnSelection, Component, Descriptor, PageCache, PresentColumns, SSTableId,
    SSTableReader, SSTableWriter, Statistics, WriterOptions,
    versions::{VERSIONS, Version, VersionFeatures},
};

use crate::executor::block_on;

/// The directory of the sets in the simulated file system.
pub const DIRECTORY: &str = "/t";

/// Small lengths, so that a rewritten set has several chunks, blocks and samples.
const CHUNK_LENGTH: u32 = 1024;
const BLOCK_LENGTH: u32 = 256;
const SAMPLE_INTERVAL: u32 = 2;

type Files = &'static [(&'static str, &'static [u8])];

macro_rules! files {
    ($path:literal: $($component:literal)*) => {
        &[$((
            $component,
            include_bytes!(concat!("../../../testdata/sstables/", $path, "-", $component)),
        )),*]
    };
}

/// The file name of each SSTable without the component, and its files.
const SOURCES: &[(&str, Files)] = &[
    (
        "da-1-bti",
        files!("da/kv_one/da-1-bti": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "oa-1-big",
        files!("oa/kv_one/oa-1-big": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Index.db" "Summary.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "da-1-bti",
        files!("da/wide_range_tombstones/da-1-bti": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "oa-1-big",
        files!("oa/wide_range_tombstones/oa-1-big": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Index.db" "Summary.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "nb-1-big",
        files!("nb/wide_range_tombstones/nb-1-big": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Index.db" "Summary.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "da-1-bti",
        files!("da/static_columns/da-1-bti": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "da-1-bti",
        files!("da/collections/da-1-bti": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "da-1-bti",
        files!("da/counters/da-1-bti": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "da-2-bti",
        files!("da/udts/da-2-bti": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "da-24-bti",
        files!("da/offline_types/da-24-bti": "CRC.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "da-13-bti",
        files!("da/offline_live_complex_deletion/da-13-bti": "CRC.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "da-1-bti",
        files!("da/ttls/da-1-bti": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "da-5-bti",
        files!("da/random_ops_compacted/da-5-bti": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
    (
        "da-7-bti",
        files!("da/offline_comp_zst/da-7-bti": "CompressionInfo.db" "Data.db" "Digest.crc32" "Filter.db" "Partitions.db" "Rows.db" "Statistics.db" "TOC.txt"),
    ),
];

/// The sources that are rewritten, by their index in [`SOURCES`].
const REWRITTEN: &[usize] = &[2, 5, 6, 7, 8, 9, 11];

/// The files of one SSTable.
#[derive(Clone, Debug)]
pub struct Set {
    /// The name of the files, in [`DIRECTORY`].
    pub descriptor: Descriptor,
    /// The components of the SSTable.
    pub components: BTreeMap<Component, Bytes>,
    /// Checksums.db, if the SSTable has one. It is not in `components`, because its checksums would
    /// not match exchanged components.
    pub checksums: Bytes,
}

/// Returns the number of Cassandra's sets.
pub fn source_count() -> usize {
    SOURCES.len()
}

/// Returns the number of sets: first those of Cassandra, then, for each version, the rewritten
/// ones.
pub fn set_count() -> usize {
    SOURCES.len() + VERSIONS.len() * REWRITTEN.len()
}

/// Returns the set of a number, modulo the number of sets.
pub fn set(number: usize) -> &'static Set {
    static SETS: OnceLock<Vec<OnceLock<Set>>> = OnceLock::new();
    let sets = SETS.get_or_init(|| (0..set_count()).map(|_| OnceLock::new()).collect());
    let number = number % sets.len();
    sets[number].get_or_init(|| match number.checked_sub(SOURCES.len()) {
        None => source(number),
        Some(number) => {
            let features = &VERSIONS[number / REWRITTEN.len()];
            rewritten(REWRITTEN[number % REWRITTEN.len()], features)
        }
    })
}

fn source(number: usize) -> Set {
    let (name, files) = SOURCES[number];
    let path = PathBuf::from(format!("{DIRECTORY}/{name}-Data.db"));
    let (descriptor, _) = Descriptor::parse(&path).expect("a file name of the repository");
    let components = files
        .iter()
        .map(|(component, bytes)| (Component::parse(component), Bytes::from_static(bytes)))
        .collect();
    Set { descriptor, components, checksums: Bytes::new() }
}

/// Returns the version that is written in place of one that the node does not write.
fn next_of_kin(version: Version) -> Version {
    match &version.0 {
        b"na" => Version::NB,
        b"md" | b"mc" => Version::ME,
        b"ms" => Version::MT,
        _ => version,
    }
}

fn rewritten(number: usize, features: &VersionFeatures) -> Set {
    let kin = next_of_kin(features.version).features().expect("a version of the table");
    let name = format!("{} of set {number}", kin.version);
    let mut set = block_on(rewrite(&source(number), kin)).unwrap_or_else(|e| panic!("{name}: {e}"));
    if kin.version != features.version {
        let file = set.descriptor.name_in_errors(&Component::Statistics);
        let bytes = &set.components[&Component::Statistics];
        let statistics = Statistics::read(&file, bytes, kin).expect("our own Statistics.db");
        let bytes = statistics.to_bytes(features).expect("statistics that both versions can hold");
        set.components.insert(Component::Statistics, bytes);
        set.descriptor.version = features.version;
    }
    set.checksums = set.component(&Component::Checksums);
    set.without(&Component::Checksums)
}

async fn rewrite(source: &Set, features: &VersionFeatures) -> espalier_sstable::Result<Set> {
    let file_system = source.store(&[]).await?;
    let cache = PageCache::new(1 << 20);
    let reader = SSTableReader::open(&file_system, source.descriptor.clone(), None, &cache).await?;
    let id = SSTableId::Generation(77.try_into().expect("not zero"));
    let descriptor = Descriptor::new(DIRECTORY, features, id);
    let mut options = WriterOptions::for_table(descriptor.clone(), reader.table())?;
    options.columns = PresentColumns::All;
    options.encoding_stats = reader.statistics().header.encoding_stats();
    options.estimated_partitions = reader.partition_count();
    options.chunks = ChunkFormat::Plain { chunk_length: CHUNK_LENGTH };
    options.column_index_size = BLOCK_LENGTH;
    options.min_index_interval = SAMPLE_INTERVAL;
    let mut writer = SSTableWriter::create(&file_system, options).await?;
    let slices = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), slices, &ColumnSelection::All).await?;
    while let Some(mut partition) = scan.next_partition().await? {
        writer.start_partition(partition.header().clone())?;
        while let Some(unfiltered) = partition.next().await? {
            writer.add(unfiltered).await?;
        }
        writer.end_partition().await?;
    }
    writer.finish().await?;
    let mut components = BTreeMap::new();
    for entry in file_system.read_dir(Path::new(DIRECTORY)).await? {
        if let Ok((other, component)) = Descriptor::parse(&entry.path)
            && other == descriptor
        {
            components.insert(component, file_system.read(&entry.path).await?.into());
        }
    }
    Ok(Set { descriptor, components, checksums: Bytes::new() })
}

impl Set {
    /// Returns the features of the set's version.
    pub fn features(&self) -> &'static VersionFeatures {
        self.descriptor.features().expect("a version of the table")
    }

    /// Returns the component's bytes; empty if there is none.
    pub fn component(&self, component: &Component) -> Bytes {
        self.components.get(component).cloned().unwrap_or_default()
    }

    /// Removes a component, and its line of TOC.txt.
    pub fn without(mut self, component: &Component) -> Self {
        self.components.remove(component);
        let toc = self.component(&Component::Toc);
        let text = String::from_utf8_lossy(&toc).replace(&format!("{component}\n"), "");
        self.components.insert(Component::Toc, text.into());
        self
    }

    /// Writes the set into a file system of its own, with some components exchanged.
    pub async fn store(
        &self,
        exchanged: &[(&Component, &[u8])],
    ) -> espalier_sstable::Result<FileSystem> {
        let file_system = FileSystem::simulated(1);
        if let Some(disk) = file_system.simulated_disk() {
            disk.set_interleaving(false);
        }
        file_system.create_dir_all(Path::new(DIRECTORY)).await?;
        let exchange = |name: &Component| exchanged.iter().find(|(other, _)| *other == name);
        let ours = self.components.iter().map(|(name, bytes)| match exchange(name) {
            Some((_, bytes)) => (name, Bytes::copy_from_slice(bytes)),
            None => (name, bytes.clone()),
        });
        let added = exchanged.iter().filter(|(name, _)| !self.components.contains_key(*name));
        let added = added.map(|(name, bytes)| (*name, Bytes::copy_from_slice(bytes)));
        for (name, bytes) in ours.chain(added) {
            let file = file_system.create(self.descriptor.path(name)).await?;
            if !bytes.is_empty() {
                file.write_at(0, bytes).await?;
            }
        }
        Ok(file_system)
    }
}
