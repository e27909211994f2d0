//! Writes tables for measurements of their index, and prints the cost: time, memory, bytes of each
//! file.
//!
//! ```text
//! write_tables keys VERSION NUMBER DIRECTORY        random keys of 8 bytes, no filter
//! write_tables rows VERSION NUMBER KIB DIRECTORY    rows of 300 bytes, indexed at KIB
//! write_tables prefixes VERSION NUMBER DIRECTORY    keys of 2,048 bytes that differ in the last 8
//! ```
//! The driver is `bench/index_sizes.sh`. The program makes keys in the order of their tokens and
//! holds at most some 500,000 at a time. The rest of the process's memory is the writer's.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a program for measuring")]

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, DecoratedKey, DeletionTime, Liveness, PartitionHeader, Row, Token,
    Unfiltered,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{block_on, file::FileSystem, time::Instant};
use espalier_sstable::{
    ChunkFormat, Component, Descriptor, SSTableId, SSTableWriter, WriterOptions, versions::Version,
};
use espalier_types::CqlType;

const TIMESTAMP: i64 = 1_750_000_000_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().unwrap();
    let began = Instant::now();
    let (version, directory) = match text.as_slice() {
        ["keys", version, count, directory] => {
            block_on(keys(version, number(count), directory));
            (*version, *directory)
        }
        ["rows", version, count, kib, directory] => {
            block_on(rows(version, number(count), number(kib), directory));
            (*version, *directory)
        }
        ["prefixes", version, count, directory] => {
            block_on(prefixes(version, number(count), directory));
            (*version, *directory)
        }
        _ => panic!("see the head of this program"),
    };
    let seconds = began.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("").trim();
    print!("{version} {}: {seconds:.2} s, peak memory {peak}", text[2]);
    let descriptor = descriptor(version, directory);
    for component in [
        Component::Data,
        Component::Partitions,
        Component::Rows,
        Component::Index,
        Component::Summary,
    ] {
        if let Ok(metadata) = std::fs::metadata(descriptor.path(&component)) {
            print!(", {component} {}", metadata.len());
        }
    }
    println!();
}

fn descriptor(version: &str, directory: &str) -> Descriptor {
    let features = Version::named(version).expect("a version that is written");
    Descriptor::new(
        PathBuf::from(directory),
        features,
        SSTableId::Generation(1.try_into().unwrap()),
    )
}

async fn writer(
    version: &str,
    directory: &str,
    table: &Arc<TableMetadata>,
    kib: Option<u64>,
) -> SSTableWriter {
    std::fs::create_dir_all(directory).unwrap();
    let mut options =
        WriterOptions::for_table(descriptor(version, directory), table.clone()).unwrap();
    options.bloom_filter_fp_chance = 1.0;
    options.chunks = ChunkFormat::Plain { chunk_length: 65_536 };
    if let Some(kib) = kib {
        options.column_index_size = kib as u32 * 1024;
    }
    SSTableWriter::create(&FileSystem::real(), options).await.unwrap()
}

fn table(key: CqlType, clustering: Option<CqlType>) -> Arc<TableMetadata> {
    let mut builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)));
    builder = builder.partition_key("k", key);
    if let Some(clustering) = clustering {
        builder = builder.clustering("c", clustering, false);
    }
    Arc::new(builder.regular("v", CqlType::Blob).build())
}

fn row(table: &TableMetadata, clustering: Clustering, value: &Bytes) -> Row {
    let mut row = Row::empty(clustering);
    row.liveness = Liveness::live(TIMESTAMP);
    row.set_cell(table.column("v").unwrap().id, Cell::live(TIMESTAMP, value.clone()));
    row
}

fn header(key: DecoratedKey) -> PartitionHeader {
    PartitionHeader { key, deletion: DeletionTime::LIVE, static_row: None }
}

/// Returns a pseudo-random number for a counter (SplitMix64).
fn mixed(counter: u64) -> u64 {
    let mut value = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Returns the keys that `key` makes of 0 to `count`, in order of their tokens. It makes the keys
/// of one part of the token range at a time, and hashes each key once for each part.
fn sorted_keys(count: u64, key: impl Fn(u64) -> Bytes) -> impl Iterator<Item = DecoratedKey> {
    let parts = (count / 500_000 + 1).next_power_of_two();
    let shift = 64 - parts.trailing_zeros();
    (0..parts).flat_map(move |part| {
        let is_here = |token: Token| parts == 1 || (token.0 as u64 ^ (1 << 63)) >> shift == part;
        let mut keys: Vec<DecoratedKey> = (0..count)
            .map(&key)
            .filter(|key| is_here(Token::of(key)))
            .map(DecoratedKey::new)
            .collect();
        keys.sort_unstable();
        keys
    })
}

async fn keys(version: &str, count: u64, directory: &str) {
    let table = table(CqlType::Blob, None);
    let mut writer = writer(version, directory, &table, None).await;
    let value = Bytes::from_static(b"value");
    for key in sorted_keys(count, |number| Bytes::copy_from_slice(&mixed(number).to_be_bytes())) {
        writer.start_partition(header(key)).unwrap();
        writer.add(Unfiltered::Row(row(&table, Clustering::empty(), &value))).await.unwrap();
        writer.end_partition().await.unwrap();
    }
    writer.finish().await.unwrap();
}

async fn rows(version: &str, count: u64, kib: u64, directory: &str) {
    let table = table(CqlType::Blob, Some(CqlType::Bigint));
    let mut writer = writer(version, directory, &table, Some(kib)).await;
    let value = Bytes::from(vec![7; 280]);
    writer.start_partition(header(DecoratedKey::new(Bytes::from_static(b"wide")))).unwrap();
    for number in 0..count {
        let clustering = Clustering::new([Bytes::copy_from_slice(&number.to_be_bytes())]);
        writer.add(Unfiltered::Row(row(&table, clustering, &value))).await.unwrap();
    }
    writer.end_partition().await.unwrap();
    writer.finish().await.unwrap();
}

async fn prefixes(version: &str, count: u64, directory: &str) {
    let table = table(CqlType::Blob, Some(CqlType::Blob));
    let mut writer = writer(version, directory, &table, Some(1)).await;
    let long = |number: u64| {
        let mut bytes = vec![b'p'; 2040];
        bytes.extend_from_slice(&number.to_be_bytes());
        Bytes::from(bytes)
    };
    let value = Bytes::from_static(b"value");
    // A few rows in each of many partitions, and many rows in the last.
    let mut partitions = sorted_keys(count / 8, long).peekable();
    while let Some(key) = partitions.next() {
        writer.start_partition(header(key)).unwrap();
        let rows = if partitions.peek().is_some() { 4 } else { count / 2 };
        for number in 0..rows {
            let clustering = Clustering::new([long(number)]);
            writer.add(Unfiltered::Row(row(&table, clustering, &value))).await.unwrap();
        }
        writer.end_partition().await.unwrap();
    }
    writer.finish().await.unwrap();
}
