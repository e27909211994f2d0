//! This module finds the SSTables of ScyllaDB's tests, if the fixtures exist.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use espalier_mutation::schema::TableMetadata;
use espalier_runtime::file::FileSystem;
use espalier_sstable::{Component, Descriptor, PageCache, Result, SSTableReader};

use super::fixtures_root;

pub fn scylla_root() -> PathBuf {
    fixtures_root().join("scylla")
}

/// Returns the folder below `sstables/` and the name of each SSTable. An SSTable counts if the name
/// of its Data.db can be parsed. Prints a line and returns none if the fixtures are missing.
pub fn sstables() -> Vec<(String, Descriptor)> {
    let root = scylla_root().join("sstables");
    let mut found = Vec::new();
    collect(&root, &root, &mut found);
    if found.is_empty() {
        println!("SKIPPED: no fixtures in {}", root.display());
    }
    found
}

/// Folders of the SSTables that must be rejected; see `scylla_broken.rs`.
pub const BROKEN: [&str; 5] = [
    "3.x/lz4/integrity_check/invalid_checksums",
    "3.x/uncompressed/random_partitioner",
    "broken_close_tombstone",
    "empty_index",
    "invalid_boundary",
];

/// Returns the SSTables of supported versions that are not broken.
pub fn readable_sstables() -> Vec<(String, Descriptor)> {
    let mut sstables = sstables();
    sstables.retain(|(folder, descriptor)| {
        descriptor.features().is_ok() && !BROKEN.contains(&folder.as_str())
    });
    sstables
}

/// Returns one SSTable. Prints a line and returns `None` if the fixture is missing.
pub fn sstable(folder: &str, name: &str) -> Option<Descriptor> {
    let path = scylla_root().join("sstables").join(folder).join(format!("{name}-Data.db"));
    if !path.exists() {
        println!("SKIPPED: no {}", path.display());
        return None;
    }
    Some(Descriptor::parse(&path).unwrap().0)
}

fn collect(root: &Path, directory: &Path, found: &mut Vec<(String, Descriptor)>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(root, &path, found);
        } else if let Ok((descriptor, Component::Data)) = Descriptor::parse(&path) {
            let below = directory.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            found.push((below, descriptor));
        }
    }
}

/// Opens an SSTable by its TOC.txt if this file and a file with the checksums of Data.db exist.
/// Otherwise opens it by the files that exist.
pub async fn open_as_it_is(
    descriptor: &Descriptor,
    table: Option<Arc<TableMetadata>>,
) -> Result<SSTableReader> {
    let (file_system, cache) = (FileSystem::real(), PageCache::new(1 << 22));
    let is_there = |component| descriptor.path(&component).exists();
    let is_checked = is_there(Component::Crc) || is_there(Component::CompressionInfo);
    if is_there(Component::Toc) && is_checked {
        SSTableReader::open(&file_system, descriptor.clone(), table, &cache).await
    } else {
        SSTableReader::open_unlisted(&file_system, descriptor.clone(), table, &cache).await
    }
}
