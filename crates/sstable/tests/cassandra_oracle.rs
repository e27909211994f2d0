//! Files of ours before Apache Cassandra itself: its code reads them to what we wrote, its verifier finds nothing wrong in
//! any number, not even in estimates.
//!
//! Needs Java and the peer in `.deps/cassandra` below the repository's root; `shared/peers/cassandra/install.sh
//! .deps/cassandra` puts it there. Without it the test says that it was skipped.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the files are for another process")]

mod support;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use espalier_mutation::schema::CompressionOptions;
use espalier_runtime::file::FileSystem;
use espalier_sstable::{ChunkFormat, Descriptor};
use support::{
    assert_same_content, block_on, dump,
    generate::{Generator, Shape},
    offline_cases, open,
    slicing::Random,
    writing::{compressed, descriptor, options, random_chunks, write},
};

fn oracle() -> Option<PathBuf> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/cassandra/node/oracle");
    if oracle.exists() {
        return Some(oracle);
    }
    println!("SKIPPED: no Cassandra in {}", oracle.display());
    None
}

fn run(oracle: &Path, arguments: &[&str], directory: &Path) -> (bool, String) {
    let output = Command::new(oracle).args(arguments).arg(directory).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text + &errors)
}

/// Writes generated SSTables, one after another, with ids from 1 on.
fn write_many(directory: &Path, count: u64, shape: impl Fn(u64) -> Shape) -> Vec<Descriptor> {
    let mut written = Vec::new();
    for seed in 0..count {
        let mut generator = Generator::new(seed, shape(seed));
        let table = generator.table();
        let partitions = generator.partitions(&table);
        let mut random = Random(seed);
        let chunks = match seed {
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
        let size = [1024, 4096, 16 * 1024][random.below(3)];
        let options = options(descriptor(directory, seed + 1), &table, &partitions, chunks, size);
        let sstable = block_on(write(&FileSystem::real(), options, &partitions)).unwrap();
        written.extend(sstable.map(|sstable| sstable.descriptor));
    }
    written
}

/// Cassandra's dump, by SSTable.
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
    let (is_right, report) = run(oracle, &["verify", "--strict"], directory);
    let ok = report.lines().filter(|line| line.starts_with("OK ")).count();
    assert!(is_right && ok == written.len(), "{report}");
    let (_, text) = run(oracle, &["dump"], directory);
    let dumps = split_dump(&text);
    assert_eq!(dumps.len(), written.len());
    for descriptor in written {
        let lines = block_on(async { dump(&open(descriptor).await?).await }).unwrap();
        let theirs = &dumps[&descriptor.to_string()];
        assert_same_content(&descriptor.to_string(), &lines, theirs);
    }
    println!("{ok} SSTables verified by Cassandra");
}

#[test]
fn cassandra_verifies_and_dumps_small_tables() {
    let Some(oracle) = oracle() else { return };
    // A name that begins with a dot would mean a secondary index.
    let directory = tempfile::Builder::new().prefix("sstables").tempdir().unwrap();
    let shape =
        |seed| Shape { partitions: 30, rows: 12, is_reconciled: true, is_odd: seed % 3 == 2 };
    let written = write_many(directory.path(), 24, shape);
    check(&oracle, directory.path(), &written);
}

#[test]
fn cassandra_verifies_and_dumps_wide_partitions() {
    let Some(oracle) = oracle() else { return };
    // A name that begins with a dot would mean a secondary index.
    let directory = tempfile::Builder::new().prefix("sstables").tempdir().unwrap();
    let shape = |seed| Shape {
        partitions: 4,
        rows: 100 + 120 * seed as usize,
        is_reconciled: true,
        is_odd: false,
    };
    let written = write_many(directory.path(), 8, shape);
    check(&oracle, directory.path(), &written);
}

/// The offline writer's files have no dump of this form beside them; Cassandra makes one here.
#[test]
fn cassandra_dumps_its_own_offline_files_alike() {
    let Some(oracle) = oracle() else { return };
    let cases = offline_cases();
    let Some(root) = cases.first().and_then(|case| case.directory.parent()) else { return };
    for case in &cases {
        let (is_right, text) = run(&oracle, &["dump"], &root.join(&case.name));
        assert!(is_right, "{text}");
        let lines = block_on(async { dump(&open(&case.sstables[0]).await?).await }).unwrap();
        assert_same_content(&case.name, &lines, &text);
    }
}
