//! Support for the tests of the trie index: real SSTables from the shared fixtures, byte-comparable
//! keys by the text of the format (not by our own encoder), and checks of a trie's nodes.
#![allow(dead_code, clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "fixtures are read before anything runs")]

use std::collections::HashSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use espalier_mutation::murmur3;
use espalier_sstable::index::bti::partition_index::{IndexPosition, PartitionIndexReader};
use espalier_trie::page::{Cursor, MemoryPages, Node, PAGE_SIZE, Walker};

pub fn block_on<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("pages in memory are always ready"),
    }
}

/// The index of one SSTable, and its decompressed data.
pub struct Fixture {
    /// Path of Partitions.db below the fixtures, for messages.
    pub name: String,
    /// The version's letters.
    pub version: String,
    pub partitions: Vec<u8>,
    pub rows: Vec<u8>,
    /// `None` if this test does not know the compressor.
    pub data: Option<Vec<u8>>,
}

/// Returns all SSTables with a trie index. Without the fixtures, the function prints that they were
/// skipped, and returns none.
pub fn fixtures() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let mut found = Vec::new();
    for directory in ["cassandra-5.0.9/bti-da", "cassandra-5.0.9-offline/da", "scylla/sstables"] {
        collect(&root.join(directory), &mut found);
    }
    if found.is_empty() {
        println!("SKIPPED: no fixtures in {}", root.display());
    }
    found.sort();
    found.iter().map(|path| load(&root, path)).collect()
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.to_string_lossy().ends_with("-Partitions.db") {
            found.push(path);
        }
    }
}

/// Returns the uncompressed Data.db beside the file `path`, whose name ends with `component`.
/// Returns `None` if this test does not know the compressor.
pub fn plain_data(path: &Path, component: &str) -> Option<Vec<u8>> {
    let other = |name: &str| std::fs::read(path.to_string_lossy().replace(component, name)).ok();
    let data = other("Data.db").unwrap();
    let version = path.file_name().unwrap().to_string_lossy()[..2].to_owned();
    match other("CompressionInfo.db") {
        None => Some(data),
        Some(info) => decompress(&data, &info, !version.starts_with('m')),
    }
}

fn load(root: &Path, partitions: &Path) -> Fixture {
    let component = |name: &str| {
        let path = partitions.to_string_lossy().replace("Partitions.db", name);
        std::fs::read(path).ok()
    };
    let name = partitions.strip_prefix(root).unwrap_or(partitions).to_string_lossy().into_owned();
    let file_name = partitions.file_name().unwrap().to_string_lossy();
    let version = file_name[..2].to_owned();
    let data = plain_data(partitions, "Partitions.db");
    Fixture {
        version,
        name,
        partitions: component("Partitions.db").unwrap(),
        rows: component("Rows.db").unwrap(),
        data,
    }
}

/// Decompresses Data.db under LZ4, without comparing checksums.
pub fn decompress(data: &[u8], info: &[u8], has_max_length: bool) -> Option<Vec<u8>> {
    let mut rest = info;
    let take = |rest: &mut &[u8], length: usize| {
        let (head, tail) = rest.split_at(length);
        *rest = tail;
        head.iter().fold(0_usize, |value, &byte| value << 8 | usize::from(byte))
    };
    let name_length = take(&mut rest, 2);
    let lz4 = rest[..name_length].ends_with(b"LZ4Compressor");
    take(&mut rest, name_length);
    for _ in 0..2 * take(&mut rest, 4) {
        let length = take(&mut rest, 2);
        take(&mut rest, length);
    }
    let chunk_length = take(&mut rest, 4);
    let max_length = if has_max_length { take(&mut rest, 4) } else { usize::MAX };
    let data_length = take(&mut rest, 8);
    let chunk_count = take(&mut rest, 4);
    let mut offsets: Vec<usize> = (0..chunk_count).map(|_| take(&mut rest, 8)).collect();
    offsets.push(data.len());
    if !lz4 {
        return None;
    }
    let mut plain = Vec::with_capacity(data_length);
    for pair in offsets.windows(2) {
        let stored = &data[pair[0]..pair[1] - 4];
        let length = chunk_length.min(data_length - plain.len());
        if stored.len() >= max_length {
            plain.extend_from_slice(&stored[..length]);
        } else if length > 0 {
            plain.extend(lz4_flex::block::decompress(&stored[4..], length).unwrap());
        }
    }
    Some(plain)
}

/// Returns the serialized key of the partition at `position` of Data.db.
pub fn key_at(data: &[u8], position: u64) -> &[u8] {
    let data = &data[position as usize..];
    &data[2..2 + usize::from(u16::from_be_bytes([data[0], data[1]]))]
}

pub fn token(key: &[u8]) -> i64 {
    match murmur3::hash(key).0 as i64 {
        i64::MIN => i64::MAX,
        token => token,
    }
}

pub fn hash_byte(key: &[u8]) -> u8 {
    murmur3::hash(key).1 as u8
}

/// Returns `40 token 40 escaped key 38`, in hexadecimal.
pub fn byte_comparable(token: i64, key: &[u8]) -> Vec<u8> {
    let mut bytes = token_bound(token, 0x40);
    let mut zeros = false;
    for &byte in key {
        match (byte, zeros) {
            (0, false) => bytes.push(0),
            (0, true) => bytes.push(0xFE),
            (byte, false) => bytes.push(byte),
            (byte, true) => bytes.extend([0xFF, byte]),
        }
        zeros = byte == 0;
    }
    bytes.extend([if zeros { 0xFE } else { 0x00 }, 0x38]);
    bytes
}

/// Returns `40 token` and a terminator: 20 (hexadecimal) sorts before all keys of the token, 60
/// after them.
pub fn token_bound(token: i64, terminator: u8) -> Vec<u8> {
    let mut bytes = vec![0x40];
    bytes.extend((token as u64 ^ 1 << 63).to_be_bytes());
    bytes.push(terminator);
    bytes
}

/// Returns the length of the prefix of each key that distinguishes it from its neighbours; `only`
/// for a single key.
pub fn unique_prefix_lengths(keys: &[Vec<u8>], only: usize) -> Vec<usize> {
    let shared: Vec<usize> = keys
        .windows(2)
        .map(|pair| pair[0].iter().zip(&pair[1]).take_while(|(a, b)| a == b).count())
        .collect();
    let needed = |index: usize| shared.get(index).map(|shared| shared + 1);
    (0..keys.len())
        .map(|index| needed(index).max(index.checked_sub(1).and_then(needed)).unwrap_or(only))
        .collect()
}

/// Walks all nodes of a trie. Checks that each node has one parent and lies within one page, and
/// that no nodes overlap. Returns the start and the end of each node.
pub fn check_nodes(file: &[u8], root: u64, payload_size: fn(u8) -> usize) -> Vec<(usize, usize)> {
    let mut walker = Walker::new(MemoryPages(file));
    let mut waiting = vec![root];
    let mut seen = HashSet::new();
    let mut extents = Vec::new();
    while let Some(position) = waiting.pop() {
        assert!(seen.insert(position), "node {position} has two parents");
        let node: Node<'_> = block_on(walker.node(position)).unwrap();
        let payload = if node.has_payload() { payload_size(node.payload_bits()) } else { 0 };
        let end = position as usize + node.body_size() + payload;
        assert!(end <= (position as usize / PAGE_SIZE + 1) * PAGE_SIZE, "{position}..{end}");
        extents.push((position as usize, end));
        waiting.extend((0..node.slots()).filter_map(|slot| node.child(slot).unwrap()));
    }
    extents.sort_unstable();
    assert!(extents.windows(2).all(|pair| pair[0].1 <= pair[1].0), "nodes overlap");
    extents
}

/// Returns the size of a payload of Partitions.db.
pub fn partition_payload_size(bits: u8) -> usize {
    if bits >= 8 { usize::from(bits - 8) + 2 } else { usize::from(bits) }
}

/// Returns the size of a payload of Rows.db.
pub fn row_payload_size(bits: u8) -> usize {
    usize::from(bits & 7) + if bits >= 8 { 12 } else { 0 }
}

/// Returns the positions in Rows.db of the entries that Partitions.db names, in key order.
pub fn row_entry_positions(partitions: &[u8]) -> Vec<u64> {
    let reader = PartitionIndexReader::open(MemoryPages(partitions), partitions.len() as u64);
    let index = block_on(reader).unwrap();
    let mut cursor = index.cursor(index.source());
    let mut positions = Vec::new();
    let mut next = block_on(cursor.first()).unwrap();
    while let Some(candidate) = next {
        if let IndexPosition::RowIndex(position) = candidate.position {
            positions.push(position);
        }
        next = block_on(cursor.next()).unwrap();
    }
    positions
}

/// Returns the separators of a row index.
pub fn separators(rows: &[u8], root: u64) -> Vec<Vec<u8>> {
    let mut cursor = Cursor::new(MemoryPages(rows), root);
    let mut separators = Vec::new();
    let mut more = block_on(cursor.first()).unwrap();
    while more {
        separators.push(cursor.key().to_vec());
        more = block_on(cursor.next()).unwrap();
    }
    separators
}
