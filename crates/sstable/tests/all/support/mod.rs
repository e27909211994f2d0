//! Support for the tests: real SSTables with their content, tables built from headers, and content
//! as lines.
#![allow(dead_code, clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "fixtures are read before anything runs")]

pub mod broken;
pub mod dice;
pub mod generate;
pub mod scylla;
pub mod slicing;
pub mod sstabledump;
pub mod writing;

use std::{
    collections::BTreeMap,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use espalier_mutation::{
    ClusteringSlices, KeyRange, PartitionHeader, Unfiltered, UnfilteredStream,
    schema::{TableBuilder, TableId, TableMetadata},
};
pub use espalier_runtime::block_on;
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ColumnSelection, Component, Descriptor, PageCache, SSTableReader, dump::Dump,
};
use serde_json::Value;

/// A directory of SSTables made by Cassandra, and the place of their expected content.
pub struct Case {
    pub name: String,
    pub directory: PathBuf,
    /// The folder of the case for files that all formats share.
    pub common: PathBuf,
    pub sstables: Vec<Descriptor>,
}

pub fn fixtures_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures")
}

/// Versions of the fixtures that were made with Cassandra, and their folders in
/// `shared/fixtures/cassandra-5.0.9`.
const VERSIONS: [(&str, &str); 3] = [("da", "bti-da"), ("oa", "big-oa"), ("nb", "big-nb")];

/// Returns the small cases that are part of the repository.
pub fn own_cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sstables");
    let mut cases = Vec::new();
    for (version, _) in VERSIONS {
        let root = root.join(version);
        collect(&root, version, Path::new(""), &root, &mut cases);
    }
    assert!(!cases.is_empty());
    cases
}

/// Returns the repository's cases and all other cases that a server wrote. Prints a line if the
/// other cases are missing.
pub fn cases() -> Vec<Case> {
    let root = fixtures_root().join("cassandra-5.0.9");
    let mut cases = own_cases();
    let own = cases.len();
    for (version, folder) in VERSIONS {
        collect(&root.join(folder), version, Path::new(""), &root.join("common"), &mut cases);
    }
    if cases.len() == own {
        println!("SKIPPED all but {own} cases: no fixtures in {}", root.display());
    }
    cases
}

/// Returns the cases that a run reads whole: all of them in a full run; in `make test` the
/// repository's own cases and a third of the others, which the first seed chooses.
pub fn cases_of_run() -> Vec<Case> {
    let (all, own) = (cases(), own_cases().len());
    let is_read = |number: usize| {
        espalier_testing::runs_all()
            || number < own
            || number as u64 % 3 == espalier_testing::first_seed() % 3
    };
    let numbered = all.into_iter().enumerate();
    numbered.filter(|(number, _)| is_read(*number)).map(|(_, case)| case).collect()
}

/// Returns the SSTables of the offline writer. Prints a line and returns none if the fixtures are
/// missing.
pub fn offline_cases() -> Vec<Case> {
    let root = fixtures_root().join("cassandra-5.0.9-offline");
    let mut cases = Vec::new();
    for (version, _) in VERSIONS {
        let expected = root.join("expected-sstabledump").join(version);
        collect(&root.join(version), version, Path::new(""), &expected, &mut cases);
    }
    if cases.is_empty() {
        println!("SKIPPED: no fixtures in {}", root.display());
    }
    cases
}

fn collect(root: &Path, version: &str, below: &Path, common: &Path, cases: &mut Vec<Case>) {
    let Ok(entries) = std::fs::read_dir(root.join(below)) else { return };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut sstables = Vec::new();
    for path in paths {
        if path.is_dir() {
            collect(root, version, &below.join(path.file_name().unwrap()), common, cases);
        } else if let Ok((descriptor, Component::Data)) = Descriptor::parse(&path) {
            sstables.push(descriptor);
        }
    }
    if !sstables.is_empty() {
        cases.push(Case {
            name: format!("{version}/{}", below.display()),
            directory: root.join(below),
            common: common.join(below),
            sstables,
        });
    }
}

/// Reads a text file or its gzipped form.
pub fn read_text(path: &Path) -> Option<String> {
    if let Ok(text) = std::fs::read_to_string(path) {
        return Some(text);
    }
    let file = std::fs::File::open(format!("{}.gz", path.display())).ok()?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    Some(text)
}

impl Case {
    /// Reads a file of the case, from its own folder or from the shared one.
    pub fn text(&self, name: &str) -> Option<String> {
        read_text(&self.directory.join(name)).or_else(|| read_text(&self.common.join(name)))
    }

    /// Returns the expected content of one of several SSTables, or of the only one.
    pub fn expected_of(&self, descriptor: &Descriptor) -> String {
        let name = match self.sstables.len() {
            1 => "expected.jsonl".to_string(),
            _ => format!("expected-{}.jsonl", descriptor.id),
        };
        self.text(&name).unwrap_or_else(|| panic!("{}: no {name}", self.name))
    }
}

/// A line of a dump. The fields that only make it readable are left out, because they may be
/// numbers that a float cannot hold.
#[derive(Debug, PartialEq, serde::Deserialize)]
pub struct Line {
    pub kind: String,
    pub key: Option<Value>,
    pub token: Option<i64>,
    pub ck: Option<Value>,
    pub live: Option<Value>,
    pub deleted: Option<Value>,
    pub shadowable: Option<bool>,
    pub bound: Option<String>,
    pub closes: Option<Value>,
    pub opens: Option<Value>,
    pub cells: Option<Vec<CellOfLine>>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub struct CellOfLine {
    pub n: String,
    pub p: Option<Value>,
    pub v: Option<Value>,
    pub ts: Option<i64>,
    pub ttl: Option<u32>,
    pub ldt: Option<u32>,
    pub dead: Option<bool>,
    pub deleted: Option<Value>,
}

pub fn normalise(line: &str, has_tokens: bool) -> Line {
    let mut parsed: Line = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    if !has_tokens {
        parsed.token = None;
    }
    parsed
}

/// Compares our lines with expected ones, and shows the first difference.
pub fn assert_same_content(name: &str, ours: &[String], expected: &str) {
    let has_tokens = expected.contains("\"token\"");
    let mut expected = expected.lines().filter(|line| !line.is_empty());
    let mut ours_left = ours.iter();
    let mut number = 0;
    loop {
        number += 1;
        let (our, their) = (ours_left.next(), expected.next());
        let equal = match (our, their) {
            (None, None) => break,
            (Some(our), Some(their)) => normalise(our, has_tokens) == normalise(their, has_tokens),
            _ => false,
        };
        let cut = |line: Option<&str>| line.map(|line| line.chars().take(1500).collect::<String>());
        assert!(
            equal,
            "{name}, line {number}\n    ours: {:?}\nexpected: {:?}",
            cut(our.map(String::as_str)),
            cut(their)
        );
    }
    assert!(number > 1, "{name}: nothing was compared");
}

pub async fn open(descriptor: &Descriptor) -> espalier_sstable::Result<SSTableReader> {
    let cache = PageCache::new(1 << 22);
    SSTableReader::open(&FileSystem::real(), descriptor.clone(), None, &cache).await
}

/// Returns all lines of an SSTable, by a scan.
pub async fn dump(reader: &SSTableReader) -> espalier_sstable::Result<Vec<String>> {
    let table = reader.table();
    let dump = Dump { table: &table, full_values: false };
    let slices = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), slices, &ColumnSelection::All).await?;
    let mut lines = Vec::new();
    while let Some(mut partition) = scan.next_partition().await? {
        lines.extend(dump.header(partition.header()));
        while let Some(unfiltered) = partition.next().await? {
            lines.push(dump.unfiltered(&unfiltered));
        }
    }
    Ok(lines)
}

/// Returns all content of an SSTable, by a scan.
pub async fn content(
    reader: &SSTableReader,
) -> espalier_sstable::Result<Vec<(PartitionHeader, Vec<Unfiltered>)>> {
    let slices = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), slices, &ColumnSelection::All).await?;
    let mut partitions = Vec::new();
    while let Some(mut partition) = scan.next_partition().await? {
        let header = partition.header().clone();
        let mut unfiltereds = Vec::new();
        while let Some(unfiltered) = partition.next().await? {
            unfiltereds.push(unfiltered);
        }
        partitions.push((header, unfiltereds));
    }
    Ok(partitions)
}

/// Returns the lines of a stream after its header.
pub async fn rows<S: UnfilteredStream>(
    table: &TableMetadata,
    stream: &mut S,
) -> Result<Vec<String>, S::Error> {
    let dump = Dump { table, full_values: false };
    let mut lines = Vec::new();
    while let Some(unfiltered) = stream.next().await? {
        lines.push(dump.unfiltered(&unfiltered));
    }
    Ok(lines)
}

/// Builds a table with the columns of all headers.
pub fn union_table(readers: &[SSTableReader]) -> Arc<TableMetadata> {
    let first = readers[0].table();
    let mut builder = TableBuilder::new("", "union", TableId(uuid::Uuid::nil()));
    for column in first.partition_key_columns() {
        builder = builder.partition_key(&column.name, column.column_type.clone());
    }
    for column in first.clustering_columns() {
        builder = builder.clustering(&column.name, column.column_type.clone(), column.reversed);
    }
    let (mut statics, mut regulars) = (BTreeMap::new(), BTreeMap::new());
    for reader in readers {
        let header = &reader.statistics().header;
        for column in &header.static_columns {
            statics.insert(column.name.clone(), column.column_type.clone());
        }
        for column in &header.regular_columns {
            regulars.insert(column.name.clone(), column.column_type.clone());
        }
    }
    for (name, column_type) in statics {
        builder = builder.static_column(&name, column_type);
    }
    for (name, column_type) in regulars {
        builder = builder.regular(&name, column_type);
    }
    Arc::new(builder.build())
}
