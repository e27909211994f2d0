//! Support for the tests of the BIG index: small SSTables of the repository, and real ones of the
//! shared fixtures.
#![allow(dead_code, unused_imports, clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "fixtures are read before anything runs")]

pub mod data_walk;

use std::{
    cell::Cell,
    future::Future,
    path::{Path, PathBuf},
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::bti_support;
pub use crate::bti_support::key_at;
use bytes::Bytes;
use espalier_mutation::ClusteringComparator;
use espalier_sstable::{
    FileName, Result, Statistics,
    index::big::{
        BigIndex, IndexFile, MemoryFile, partition_index::IndexEntry,
        promoted_index::PositionFormat,
    },
    statistics::SerializationHeader,
    versions::{DeletionTimeForm, Version, VersionFeatures},
};
use espalier_types::CqlType;

/// Polls a future until it is ready. Files are in memory, so the future is pending only after it
/// yields.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

/// The index of one SSTable, and its decompressed data.
pub struct BigFixture {
    /// Path of Index.db below the fixtures, for messages.
    pub name: String,
    pub features: &'static VersionFeatures,
    pub index: Bytes,
    pub summary: Option<Bytes>,
    /// `None` if the fixture has no data, or if this test does not know the compressor.
    pub data: Option<Vec<u8>>,
    /// The length of the uncompressed data; the largest number if there is no data.
    pub data_length: u64,
    /// The types of the clustering columns.
    pub types: Vec<(CqlType, bool)>,
    pub header: SerializationHeader,
}

impl BigFixture {
    pub fn file(&self) -> MemoryFile {
        file(&self.name, &self.index)
    }

    pub fn open(&self) -> Result<BigIndex<MemoryFile>> {
        let name = FileName::new(Path::new("Summary.db"));
        let summary = self.summary.as_ref().map(|summary| (&name, summary));
        block_on(BigIndex::open(self.file(), summary, self.data_length, 128))
    }

    pub fn format(&self) -> Arc<PositionFormat> {
        let comparator = ClusteringComparator { types: self.types.clone().into() };
        Arc::new(PositionFormat::new(&self.types, comparator))
    }

    pub fn form(&self) -> DeletionTimeForm {
        self.features.deletion_time
    }

    /// Returns true if Cassandra wrote the fixture.
    pub fn is_cassandras(&self) -> bool {
        self.name.starts_with("cassandra") || self.name.starts_with("testdata")
    }
}

pub fn file(name: &str, bytes: &Bytes) -> MemoryFile {
    MemoryFile::new(FileName::new(Path::new(name)), bytes.clone())
}

/// Returns the small SSTables of the repository.
pub fn own_fixtures() -> Vec<BigFixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for version in ["oa", "nb"] {
        collect(&root.join("testdata/sstables").join(version), &mut found);
    }
    found.sort();
    let fixtures: Vec<_> = found.iter().filter_map(|path| load(&root, path)).collect();
    assert!(fixtures.len() >= 2);
    fixtures
}

/// Returns the SSTables of the repository and of the shared fixtures. Without shared fixtures, the
/// function prints that they were skipped.
pub fn fixtures() -> Vec<BigFixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let mut found = Vec::new();
    for directory in ["cassandra-5.0.9/big-oa", "cassandra-5.0.9/big-nb", "cassandra-5.0.9-offline"]
    {
        collect(&root.join(directory), &mut found);
    }
    collect(&root.join("scylla/sstables"), &mut found);
    let mut fixtures = own_fixtures();
    if found.is_empty() {
        let count = fixtures.len();
        println!("SKIPPED all but {count} SSTables: no fixtures in {}", root.display());
    }
    found.sort();
    fixtures.extend(found.iter().filter_map(|path| load(&root, path)));
    fixtures
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.to_string_lossy().ends_with("-Index.db") {
            found.push(path);
        }
    }
}

/// Loads a fixture; `None` if its version is not supported.
fn load(root: &Path, index: &Path) -> Option<BigFixture> {
    let component = |name: &str| {
        let path = index.to_string_lossy().replace("Index.db", name);
        std::fs::read(path).ok()
    };
    let name = index.strip_prefix(root).unwrap().to_string_lossy().into_owned();
    let file_name = index.file_name().unwrap().to_string_lossy();
    let features = Version::parse(&file_name[..2])?.features()?;
    let (data, data_length) = match (component("Data.db"), component("CompressionInfo.db")) {
        // One fixture has an index and no data.
        (None, _) => (None, u64::MAX),
        (Some(data), None) => {
            let length = data.len() as u64;
            (Some(data), length)
        }
        (Some(data), Some(info)) => {
            let length = data_length(&info, features.raw_chunks);
            (bti_support::decompress(&data, &info, features.raw_chunks), length)
        }
    };
    let statistics = Bytes::from(component("Statistics.db").unwrap());
    let header = match Statistics::read(&FileName::new(index), &statistics, features) {
        Ok(statistics) => statistics.header,
        Err(error) => panic!("{name}: {error}"),
    };
    Some(BigFixture {
        name,
        features,
        index: component("Index.db").unwrap().into(),
        summary: component("Summary.db").map(Bytes::from),
        data,
        data_length,
        types: header.clustering_types.clone(),
        header,
    })
}

/// Returns the length of the uncompressed data, which CompressionInfo.db states.
fn data_length(info: &[u8], has_max_length: bool) -> u64 {
    let number = |at: usize, length: usize| {
        info[at..at + length].iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let mut at = 2 + number(0, 2) as usize;
    let options = number(at, 4);
    at += 4;
    for _ in 0..2 * options {
        at += 2 + number(at, 2) as usize;
    }
    at += if has_max_length { 8 } else { 4 };
    number(at, 8)
}

/// Reads all entries, up to the first error.
pub fn entries(index: &BigIndex<impl IndexFile + Clone>) -> Result<Vec<IndexEntry>> {
    let mut entries = index.entries();
    let mut found = Vec::new();
    while let Some(entry) = block_on(entries.next())? {
        found.push(entry);
    }
    Ok(found)
}

/// A file that counts its reads.
#[derive(Clone)]
pub struct CountingFile {
    pub inner: MemoryFile,
    pub pages: Rc<Cell<u64>>,
    pub pieces: Rc<Cell<u64>>,
}

impl CountingFile {
    pub fn new(inner: MemoryFile) -> Self {
        Self { inner, pages: Rc::default(), pieces: Rc::default() }
    }

    /// Returns the numbers of pages and pieces that were read since the last call.
    pub fn take_counts(&self) -> (u64, u64) {
        (self.pages.take(), self.pieces.take())
    }
}

impl IndexFile for CountingFile {
    fn name(&self) -> &FileName {
        self.inner.name()
    }

    fn length(&self) -> u64 {
        self.inner.length()
    }

    fn page(&self, number: u64) -> impl Future<Output = Result<Bytes>> {
        self.pages.set(self.pages.get() + 1);
        self.inner.page(number)
    }

    fn piece(&self, offset: u64, length: usize) -> impl Future<Output = Result<Bytes>> {
        self.pieces.set(self.pieces.get() + 1);
        self.inner.piece(offset, length)
    }
}
