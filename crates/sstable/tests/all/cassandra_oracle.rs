//! Apache Cassandra's own code reads files that Espalier wrote: Cassandra must return the written
//! rows, and its verifier must find no wrong number, not even a wrong estimate.
//!
//! The test needs Java and Cassandra in `.deps/cassandra` below the repository's root;
//! `interop/scripts/install_cassandra.sh` installs Cassandra there. Without Cassandra, the test
//! prints that it was skipped.
#![allow(clippy::disallowed_methods, reason = "the files are for another process")]

use crate::support;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use espalier_mutation::{
    ColumnData, Row, Unfiltered,
    schema::{CompressionOptions, TableMetadata},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ChunkFormat, Component, Descriptor,
    components::components_found,
    versions::{LocalDeletionTimes, Version, VersionFeatures},
};
use support::{
    assert_same_content, block_on, dump,
    generate::{Generator, Partition, Shape},
    offline_cases, open,
    slicing::Random,
    writing::{compressed, descriptor_of, options, random_chunks, write, written_versions},
};

fn oracle() -> Option<PathBuf> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/cassandra/node/oracle");
    if oracle.exists() {
        return Some(oracle);
    }
    println!("SKIPPED: no Cassandra in {}", oracle.display());
    None
}

/// Runs Cassandra's code as a node that writes the version.
fn run(oracle: &Path, version: Version, arguments: &[&str], directory: &Path) -> (bool, String) {
    let format = match version {
        Version::DA => "bti",
        Version::OA => "big",
        // A node that can still go back to Cassandra 4, whose times end in 2038.
        _ => "nb",
    };
    let mut command = Command::new(oracle);
    command.env("FORMAT", format).args(arguments).arg(directory);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text + &errors)
}

/// Granularities of the row index, in KiB; SSTable `id` uses the one at index `id % 4`.
const INDEX_KIB: [u32; 4] = [1, 4, 16, 64];

/// Writes generated SSTables, one after another, with ids from 1 on.
fn write_many(
    features: &'static VersionFeatures,
    directory: &Path,
    count: u64,
    is_plain: bool,
) -> Vec<Descriptor> {
    let written = write_some(features, directory, count, is_plain, |_| true);
    written.into_iter().map(|(_, descriptor)| descriptor).collect()
}

/// Writes only the tables whose content is `wanted`. Returns the seed of each table.
fn write_some(
    features: &'static VersionFeatures,
    directory: &Path,
    count: u64,
    is_plain: bool,
    wanted: impl Fn(&[Partition]) -> bool,
) -> Vec<(u64, Descriptor)> {
    let mut written = Vec::new();
    for seed in 0..count {
        let (table, partitions) = generated(features, seed);
        if !wanted(&partitions) {
            continue;
        }
        let mut random = Random(seed);
        let chunks = match seed {
            // Cassandra's own chunk length.
            _ if is_plain => ChunkFormat::Plain { chunk_length: 65_536 },
            0 => ChunkFormat::PLAIN,
            1 => compressed("LZ4Compressor", 16_384, 0.0),
            2 => ChunkFormat::Compressed(CompressionOptions {
                class: "ZstdCompressor".into(),
                chunk_length: 4096,
                min_compress_ratio: 0.0,
                parameters: BTreeMap::from([("compression_level".into(), "5".into())]),
            }),
            _ => random_chunks(&mut random),
        };
        let id = seed + 1;
        let size = 1024 * INDEX_KIB[id as usize % INDEX_KIB.len()];
        let descriptor = descriptor_of(features, directory, id);
        let options = options(descriptor, &table, &partitions, chunks, size);
        let sstable = block_on(write(&FileSystem::real(), options, &partitions)).unwrap();
        written.extend(sstable.map(|sstable| (seed, sstable.descriptor)));
    }
    written
}

fn generated(
    features: &'static VersionFeatures,
    seed: u64,
) -> (Arc<TableMetadata>, Vec<Partition>) {
    let mut generator = Generator::new(seed, shape(seed)).fitting(features);
    let table = generator.table();
    let partitions = generator.partitions(&table);
    (table, partitions)
}

/// Makes a directory for SSTables. A name that begins with a dot would mean a secondary index.
fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("sstables").tempdir().unwrap()
}

/// Returns the written versions that Cassandra 5.0 reads. `make test` tests every second version,
/// because Java starts twice for each.
fn shared_versions() -> Vec<&'static VersionFeatures> {
    let is_shared = |features: &&VersionFeatures| !features.has_scylla_component;
    let shared: Vec<_> = written_versions().into_iter().filter(is_shared).collect();
    assert_eq!(shared.len(), 4);
    if espalier_testing::runs_all() {
        return shared;
    }
    let first = espalier_testing::first_seed() as usize % 2;
    shared.into_iter().skip(first).step_by(2).collect()
}

/// Returns the number of tables for each version: `TABLES` of the environment, or else 12, or 3 in
/// `make test`.
fn table_count() -> u64 {
    let wanted = std::env::var("TABLES").ok().and_then(|count| count.parse().ok());
    wanted.unwrap_or(if espalier_testing::runs_all() { 12 } else { 3 })
}

/// Splits Cassandra's dump by SSTable.
fn split_dump(text: &str) -> BTreeMap<String, String> {
    let mut dumps = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("{\"kind\":\"sstable\",\"name\":\"") {
            current = rest.trim_end_matches("\"}").to_string();
        } else {
            let dump: &mut String = dumps.entry(current.clone()).or_default();
            dump.push_str(line);
            dump.push('\n');
        }
    }
    dumps
}

fn check(oracle: &Path, directory: &Path, written: &[Descriptor]) {
    let version = written[0].version;
    let (is_right, report) = run(oracle, version, &["verify", "--strict"], directory);
    let ok = report.lines().filter(|line| line.starts_with("OK ")).count();
    assert!(is_right && ok == written.len(), "{report}");
    let (_, text) = run(oracle, version, &["dump"], directory);
    let dumps = split_dump(&text);
    assert_eq!(dumps.len(), written.len());
    for descriptor in written {
        let lines = block_on(async { dump(&open(descriptor).await?).await }).unwrap();
        let theirs = &dumps[&descriptor.to_string()];
        assert_same_content(&descriptor.to_string(), &lines, theirs);
    }
    println!("{ok} SSTables verified by Cassandra");
}

fn shape(seed: u64) -> Shape {
    match seed % 4 {
        // Wide partitions, for the row index.
        3 => Shape {
            partitions: 3,
            rows: 100 + 60 * (seed as usize % 16),
            is_reconciled: true,
            is_odd: false,
        },
        _ => Shape { partitions: 30, rows: 12, is_reconciled: true, is_odd: seed % 3 == 2 },
    }
}

#[test]
fn cassandra_verifies_and_dumps_every_version() {
    let Some(oracle) = oracle() else { return };
    for features in shared_versions() {
        let directory = directory();
        let written = write_many(features, directory.path(), table_count(), false);
        println!("{}:", features.version);
        check(&oracle, directory.path(), &written);
    }
}

/// Cassandra reads our files and writes them again. Its files must equal ours byte for byte, and
/// our reader must find the same content in them.
#[test]
fn cassandra_writes_the_same_files() {
    let Some(oracle) = oracle() else { return };
    let versions = shared_versions().into_iter().filter(|version| version.raw_chunks);
    for features in versions {
        let (ours, theirs) = (directory(), directory());
        // If Cassandra 5 writes a version of Cassandra 4, it uses the wrong number for "none"
        // (CASSANDRA-21333): if one collection of a row is deleted and another is not, it writes
        // seconds for the undeleted one, and Cassandra 4 takes them for a deletion. Espalier writes
        // the right number.
        let is_signed = features.local_deletion_times == LocalDeletionTimes::Signed;
        let wanted = |partitions: &[Partition]| !is_signed || !has_undeleted_collection(partitions);
        let count = table_count();
        let written = write_some(features, ours.path(), count, true, wanted);
        assert!(written.len() as u64 >= count / 3);
        let (version, out) = (features.version.to_string(), theirs.path().to_str().unwrap());
        let sizes = INDEX_KIB.map(|size| size.to_string()).join(",");
        let (is_right, report) =
            run(&oracle, features.version, &["rewrite", &version, &sizes, out], ours.path());
        assert!(is_right, "{report}");
        let table = theirs.path().join("k/t-00000000000000000000000000000001");
        let mut differences = Vec::new();
        for (seed, descriptor) in &written {
            let other = Descriptor { directory: table.clone(), ..descriptor.clone() };
            // Cassandra begins a block of the row index under a range deletion before 1970 even if
            // the version cannot store that timestamp, and then cannot read the index. Espalier
            // begins the block after the deletion.
            let may_cut_elsewhere = !features.has_room_for_negative_deletions()
                && has_negative_deletion(&generated(features, *seed).1);
            let is_index = |component: &Component| {
                use Component::{Index, Partitions, Rows, Summary};
                matches!(component, Partitions | Rows | Index | Summary)
            };
            differences.extend(differences_of(descriptor, &other, |component| {
                may_cut_elsewhere && is_index(component)
            }));
            let lines = block_on(async { dump(&open(&other).await?).await }).unwrap();
            let expected = block_on(async { dump(&open(descriptor).await?).await }).unwrap();
            assert_same_content(&other.to_string(), &lines, &expected.join("\n"));
        }
        assert!(differences.is_empty(), "{}", differences.join("\n"));
        println!("{version}: {} SSTables are what Cassandra writes", written.len());
    }
}

/// Returns true if a row has one multi-cell column with a deletion and another without.
fn has_undeleted_collection(partitions: &[Partition]) -> bool {
    let mixes = |row: &Row| {
        let deletions = row.columns.iter().filter_map(|(_, data)| match data {
            ColumnData::Complex(column) => Some(column.deletion.is_live()),
            ColumnData::Simple(_) => None,
        });
        let (live, deleted): (Vec<bool>, Vec<bool>) = deletions.partition(|is_live| *is_live);
        !live.is_empty() && !deleted.is_empty()
    };
    partitions.iter().any(|partition| {
        let rows = partition.unfiltereds.iter().filter_map(|unfiltered| match unfiltered {
            Unfiltered::Row(row) => Some(row),
            Unfiltered::Marker(_) => None,
        });
        partition.header.static_row.iter().chain(rows).any(mixes)
    })
}

/// Returns true if a range deletion has a timestamp before 1970.
fn has_negative_deletion(partitions: &[Partition]) -> bool {
    partitions.iter().flat_map(|partition| &partition.unfiltereds).any(|unfiltered| {
        matches!(unfiltered, Unfiltered::Marker(marker)
            if !marker.after.is_live() && marker.after.marked_for_delete_at < 0)
    })
}

/// Lists the differences between the files of an SSTable of ours and of one of Cassandra's, except
/// for components that `may_differ`.
fn differences_of(
    ours: &Descriptor,
    theirs: &Descriptor,
    may_differ: impl Fn(&Component) -> bool,
) -> Vec<String> {
    let files = block_on(components_found(&FileSystem::real(), theirs)).unwrap();
    let mut differences = Vec::new();
    for component in files {
        let read = |descriptor: &Descriptor| std::fs::read(descriptor.path(&component));
        let (our, their) = (read(ours).unwrap_or_default(), read(theirs).unwrap());
        let is_same = match component {
            // Ours also lists Checksums.db.
            Component::Toc => {
                let our = String::from_utf8(our.clone()).unwrap().replace("Checksums.db\n", "");
                our.as_bytes() == their
            }
            _ => our == their || may_differ(&component),
        };
        if !is_same {
            let at = our.iter().zip(&their).take_while(|(a, b)| a == b).count();
            let lengths = (our.len(), their.len());
            differences.push(format!("{theirs}-{component} differs at {at} of {lengths:?}"));
        }
    }
    differences
}

/// The fixtures have no dump of this form for the files of the offline writer, so Cassandra makes
/// the dump here.
#[test]
fn cassandra_dumps_its_own_offline_files_alike() {
    let Some(oracle) = oracle() else { return };
    let cases = offline_cases();
    let mut arguments = vec!["dump".to_string()];
    arguments.extend(cases.iter().map(|case| case.directory.to_str().unwrap().to_string()));
    let Some(last) = arguments.pop().filter(|_| !cases.is_empty()) else { return };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (is_right, text) = run(&oracle, Version::DA, &arguments, Path::new(&last));
    assert!(is_right, "{text}");
    let dumps = split_dump(&text);
    assert_eq!(dumps.len(), cases.len(), "identifiers differ");
    for case in &cases {
        let descriptor = &case.sstables[0];
        let lines = block_on(async { dump(&open(descriptor).await?).await }).unwrap();
        assert_same_content(&case.name, &lines, &dumps[&descriptor.to_string()]);
    }
}
