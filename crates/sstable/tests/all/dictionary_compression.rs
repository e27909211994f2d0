//! Tests files that ScyllaDB compresses with a dictionary, which CompressionInfo.db holds. No
//! fixture is of that kind, so the test compresses plain files this way. The content must stay the
//! same.

use crate::support;

use std::{collections::BTreeMap, path::Path};

use bytes::{Bytes, BytesMut};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ChunkFormat, Component, Descriptor, SSTableId, compression::CompressionInfo, versions::Version,
};
use support::{
    block_on,
    broken::{DIRECTORY, Files, read_all, store, take},
    generate::{Generator, Shape},
    writing::{options, write},
};

const CHUNK_LENGTH: usize = 4096;
const LZ4: &str = "LZ4WithDictsCompressor";
const ZSTD: &str = "ZstdWithDictsCompressor";

fn plain_files() -> Files {
    let features = Version::ME.features().unwrap();
    let shape = Shape { partitions: 20, rows: 60, is_reconciled: true, is_odd: false };
    let mut generator = Generator::new(11, shape).fitting(features);
    let table = generator.table();
    let partitions = generator.partitions(&table);
    block_on(async {
        let file_system = FileSystem::simulated(1);
        file_system.create_dir_all(Path::new(DIRECTORY)).await.unwrap();
        let id = SSTableId::Generation(1.try_into().unwrap());
        let descriptor = Descriptor::new(DIRECTORY, features, id);
        let options = options(descriptor.clone(), &table, &partitions, ChunkFormat::PLAIN, 1024);
        write(&file_system, options, &partitions).await.unwrap();
        Files { descriptor, components: take(&file_system).await }
    })
}

fn compress(class: &str, chunk: &[u8], dictionary: &[u8]) -> Vec<u8> {
    if class == LZ4 {
        let length = (chunk.len() as u32).to_le_bytes();
        return [&length[..], &lz4_flex::block::compress_with_dict(chunk, dictionary)].concat();
    }
    let mut compressor = zstd::bulk::Compressor::with_dictionary(3, dictionary).unwrap();
    compressor.compress(chunk).unwrap()
}

/// Returns the SSTable with Data.db in compressed chunks. `reported` is the dictionary in
/// CompressionInfo.db.
fn compressed(plain: &Files, class: &str, dictionary: &[u8], reported: &[u8]) -> Files {
    let data = &plain.components[&Component::Data];
    let (mut stored, mut offsets) = (Vec::new(), Vec::new());
    for chunk in data.chunks(CHUNK_LENGTH) {
        offsets.extend((stored.len() as u64).to_be_bytes());
        let body = compress(class, chunk, dictionary);
        stored.extend_from_slice(&body);
        stored.extend(crc32fast::hash(&body).to_be_bytes());
    }
    let info = CompressionInfo {
        compressor: class.into(),
        options: BTreeMap::from([("crc_check_chance".into(), "1.0".into())]),
        dictionary: Bytes::copy_from_slice(reported),
        chunk_length: CHUNK_LENGTH as u32,
        max_compressed_length: i32::MAX as u32,
        data_length: data.len() as u64,
        chunk_count: data.len().div_ceil(CHUNK_LENGTH) as u32,
    };
    let mut head = BytesMut::new();
    info.write(Version::ME.features().unwrap(), &mut head);
    let table = [&head[..], &offsets].concat();
    let files =
        Files { descriptor: plain.descriptor.clone(), components: plain.components.clone() };
    let mut files = files.without(&Component::Crc).without(&Component::Checksums);
    files.components.insert(Component::Data, stored);
    files.components.insert(Component::CompressionInfo, table);
    files.components.get_mut(&Component::Toc).unwrap().extend(b"CompressionInfo.db\n");
    files
}

/// Returns a dictionary of `length` bytes: the end of the data, repeated. It has frequent strings.
fn dictionary(plain: &Files, length: usize) -> Vec<u8> {
    let data = &plain.components[&Component::Data];
    data.iter().rev().take(3000).rev().copied().cycle().take(length).collect()
}

fn read(files: &Files) -> Result<Vec<String>, String> {
    block_on(async {
        let file_system = store(files, None).await;
        let (scanned, looked_up, _) = read_all(&file_system, &files.descriptor, None).await?;
        Ok([scanned, looked_up].concat())
    })
    .map_err(|error: espalier_sstable::SSTableError| error.to_string())
}

#[test]
fn content_is_that_of_the_plain_file() {
    let plain = plain_files();
    let expected = read(&plain).unwrap();
    assert!(expected.len() > 100);
    for class in [LZ4, ZSTD] {
        // The dictionary is short, or longer than the window of LZ4, or so long that the head of
        // CompressionInfo.db is longer than the first read.
        for length in [500, 70_000, 150_000] {
            let dictionary = dictionary(&plain, length);
            let files = compressed(&plain, class, &dictionary, &dictionary);
            assert_eq!(read(&files).unwrap(), expected, "{class} {length}");
        }
    }
}

#[test]
fn without_its_dictionary_a_file_is_refused() {
    let plain = plain_files();
    let dictionary = dictionary(&plain, 3000);
    for class in [LZ4, ZSTD] {
        let error = read(&compressed(&plain, class, &dictionary, &[])).unwrap_err();
        assert!(error.ends_with("a dictionary is missing from the options"), "{error}");
        assert!(error.contains("me-1-big-CompressionInfo.db"), "{error}");
    }
    // With another dictionary the data is wrong, and chunks of Zstandard show it by their checksum
    // or their content.
    let mut other = dictionary.clone();
    other.reverse();
    let found = read(&compressed(&plain, ZSTD, &dictionary, &other));
    assert_ne!(found.ok(), read(&plain).ok());
}
