//! Checks that broken and foreign SSTables of ScyllaDB's tests are rejected with an error that
//! names the file, the position and the reason.
#![allow(clippy::disallowed_methods, reason = "copies are made before anything runs")]

use crate::support;

use std::path::{Path, PathBuf};

use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    Component, Descriptor, FileName, PageCache, SSTableReader, compression::CompressionInfo,
    verify::verify, versions::Version,
};
use support::{
    block_on, dump,
    scylla::{BROKEN, open_as_it_is, scylla_root, sstable, sstables},
};
use tempfile::TempDir;

/// Opens an SSTable, reads it from front to back, and returns the error. Returns `None` if the
/// fixture is missing.
fn error(folder: &str, name: &str) -> Option<String> {
    assert!(BROKEN.contains(&folder));
    let descriptor = sstable(folder, name)?;
    Some(read(&descriptor).expect_err(folder))
}

fn read(descriptor: &Descriptor) -> Result<Vec<String>, String> {
    let read = async { dump(&open_as_it_is(descriptor, None).await?).await };
    block_on(read).map_err(|error| error.to_string())
}

/// Copies an SSTable into a new directory, without some components.
fn copy(descriptor: &Descriptor, without: &[Component]) -> (TempDir, Descriptor) {
    let directory = TempDir::new().unwrap();
    let copied = Descriptor { directory: directory.path().into(), ..descriptor.clone() };
    for entry in std::fs::read_dir(&descriptor.directory).unwrap() {
        let path = entry.unwrap().path();
        let Ok((of, component)) = Descriptor::parse(&path) else { continue };
        if of == *descriptor && !without.contains(&component) {
            std::fs::copy(&path, copied.path(&component)).unwrap();
        }
    }
    (directory, copied)
}

fn assert_says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
}

#[test]
fn an_index_that_ends_in_the_middle() {
    let Some(error) = error("empty_index", "mc-36-big") else { return };
    assert_says(&error, &["mc-36-big-Index.db is corrupt at byte 0: an entry is cut short"]);
}

#[test]
fn another_partitioner() {
    let Some(error) = error("3.x/uncompressed/random_partitioner", "mc-1-big") else { return };
    assert_says(&error, &["mc-1-big-Statistics.db", "RandomPartitioner' is not supported"]);
}

#[test]
fn a_chunk_with_another_checksum() {
    let folder = "3.x/lz4/integrity_check/invalid_checksums";
    let Some(error) = error(folder, "me-1-big") else { return };
    assert_says(
        &error,
        &["me-1-big-Data.db is corrupt at byte 8192: chunk 2 at 7851 has the checksum"],
    );
}

#[test]
fn another_digest() {
    let Some(descriptor) = sstable("3.x/uncompressed/integrity_check/invalid_digest", "me-1-big")
    else {
        return;
    };
    let report = block_on(verify(&FileSystem::real(), &descriptor)).unwrap();
    let failures = report.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert_says(&failures, &["failure: ", "me-1-big-Digest.crc32 at byte 0: the digest says"]);
}

/// The content was changed by hand, so the checksums show the fault. Without checksums, the reader
/// finds the fault itself.
#[test]
fn markers_that_cannot_be() {
    for (folder, name, offset, reason) in [
        ("invalid_boundary", "mc-33-big", 31, "a marker of unknown kind"),
        (
            "broken_close_tombstone",
            "mc-122-big",
            72,
            "a marker ends another deletion than was open",
        ),
    ] {
        let Some(error) = error(folder, name) else { return };
        assert_says(
            &error,
            &[&format!("{name}-Data.db is corrupt at byte 0: chunk 0 at 0"), "checksum"],
        );
        let (_directory, copied) = copy(
            &sstable(folder, name).unwrap(),
            &[Component::Toc, Component::Crc, Component::Digest],
        );
        let error = read(&copied).unwrap_err();
        assert_says(&error, &[&format!("{name}-Data.db is corrupt at byte {offset}"), reason]);
    }
}

#[test]
fn old_versions() {
    let mut refused = 0;
    for (folder, descriptor) in sstables() {
        let version = descriptor.version.to_string();
        if !["ka", "la"].contains(&version.as_str()) {
            assert!(descriptor.features().is_ok(), "{folder}");
            continue;
        }
        let error = read(&descriptor).unwrap_err();
        assert!(
            error.ends_with(&format!("-Data.db: version '{version}' is not supported")),
            "{error}"
        );
        refused += 1;
    }
    let root = scylla_root().join("sstables");
    for path in all_files(&root) {
        let name = path.file_name().unwrap().to_string_lossy();
        if name.contains("-ka-") {
            let error = Descriptor::parse(&path).unwrap_err().to_string();
            assert_says(&error, &[&*name, "version 'ka' is not supported"]);
            refused += 1;
        }
    }
    println!("{refused} refused by version");
    // These are versions of DataStax, and one that does not exist.
    for version in ["aa", "ac", "bb", "zz"] {
        assert!(Version::parse(version).unwrap().features().is_none());
    }
}

fn all_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { all_files(&path) } else { vec![path] }).collect()
}

/// ScyllaDB has these lists for an old version; their format has not changed.
#[test]
fn tables_of_contents() {
    let root = scylla_root().join("sstables/badtoc");
    for (name, reason) in [
        ("la-1-big-TOC.txt", "me-1-big-TOC.txt is corrupt at byte 0: no known component is listed"),
        // The unknown name is kept; the files are missing.
        ("la-2-big-TOC.txt", "me-1-big-Statistics.db: No such file"),
        ("la-3-big-TOC.txt", "me-1-big-TOC.txt is corrupt at byte 0: Statistics.db is not listed"),
    ] {
        let Ok(content) = std::fs::read(root.join(name)) else {
            println!("SKIPPED: no {}", root.join(name).display());
            return;
        };
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("me-1-big-TOC.txt");
        std::fs::write(&path, &content).unwrap();
        let (descriptor, _) = Descriptor::parse(&path).unwrap();
        let (real, cache) = (FileSystem::real(), PageCache::new(0));
        let opened = SSTableReader::open(&real, descriptor, None, &cache);
        let error = block_on(opened).map(|_| ()).unwrap_err().to_string();
        assert_says(&error, &[reason]);
    }
}

#[test]
fn compression_information() {
    let root = scylla_root().join("sstables/badcompression");
    let features = Version::ME.features().unwrap();
    for name in ["la-1-big-CompressionInfo.db", "la-2-big-CompressionInfo.db"] {
        let path = root.join(name);
        let Ok(content) = std::fs::read(&path) else {
            println!("SKIPPED: no {}", path.display());
            return;
        };
        let error = CompressionInfo::read(&FileName::new(&path), &content, features).unwrap_err();
        assert_says(&error.to_string(), &[name, "is corrupt at byte"]);
    }
}
