//! Tests scrubs of damaged files. A scrub that aborts or validates changes nothing and names the
//! damaged place; a scrub that skips loses the unreadable data and nothing else.

mod damage;
mod running;

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{
    ClusteringSlices, KeyRange, UnfilteredStream,
    schema::{TableMetadata, TableOptions},
};
use espalier_runtime::{file::FileSystem, random::Generator};
use espalier_sstable::{ColumnSelection, Descriptor, PageCache, SSTableReader};
use espalier_storage::{Node, ScrubMode, ScrubReport, SnapshotTable, StorageError};

use crate::support::*;

async fn scrub(database: &Node, name: &str, mode: ScrubMode) -> Result<ScrubReport, StorageError> {
    let describe = |_: &_, _: &_| "CREATE TABLE".into();
    let tables = vec![SnapshotTable { id: table(database, name).id, describe }];
    database.compactions().scrub(tables, mode, true).await
}

/// Writes one file of many partitions, of which one, `wide`, has many rows.
async fn fill(database: &Node, compression: &[(&str, &str)]) {
    let mut wide = wide_table();
    let pairs = compression.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    wide.options = TableOptions { compression: pairs.collect(), ..TableOptions::default() };
    create(database, vec![wide]).await;
    let table = table(database, "wide");
    let mut random = Generator::from_seed(5);
    for number in 0..300 {
        for clustering in 0..2 {
            let (name, text) = (format!("p{number:03}"), incompressible_text(&mut random, 120));
            let mutation = insert(&table, &name, Some(clustering), 1, &[("v", &text)]);
            database.apply(mutation).await.unwrap();
        }
    }
    for clustering in 0..400 {
        let text = incompressible_text(&mut random, 120);
        let mutation = insert(&table, "wide", Some(clustering), 1, &[("v", &text)]);
        database.apply(mutation).await.unwrap();
    }
    database.flush("ks", None).await.unwrap();
}

/// Returns the content of all files of the table, without its snapshots.
async fn contents(file_system: &FileSystem, table: &TableMetadata) -> BTreeMap<String, Vec<u8>> {
    let mut contents = BTreeMap::new();
    for entry in file_system.read_dir(table_directory(table)).await.unwrap() {
        if !entry.is_directory {
            contents.insert(entry.name, file_system.read(&entry.path).await.unwrap());
        }
    }
    contents
}

async fn snapshots(file_system: &FileSystem, table: &TableMetadata) -> Vec<String> {
    let found = file_system.read_dir(table_directory(table).join("snapshots")).await;
    found.unwrap_or_default().into_iter().map(|entry| entry.name).collect()
}

async fn only_set(file_system: &FileSystem, table: &TableMetadata) -> String {
    let sets = sstable_names(file_system, table).await;
    assert_eq!(sets.len(), 1, "{sets:?}");
    sets[0].clone()
}

/// Flips bits of the byte in the middle of a file.
async fn damage(file_system: &FileSystem, table: &TableMetadata, component: &str) {
    damage_at(file_system, table, component, |length| length / 2).await;
}

/// Flips bits of the byte at a position chosen from the file's length.
async fn damage_at(
    file_system: &FileSystem,
    table: &TableMetadata,
    component: &str,
    place: impl Fn(usize) -> usize,
) {
    let name = format!("{}-{component}", only_set(file_system, table).await);
    let path = table_directory(table).join(name);
    let bytes = file_system.read(&path).await.unwrap();
    let place = place(bytes.len());
    let file = file_system.open_write(&path).await.unwrap();
    file.write_at(place as u64, vec![bytes[place] ^ 0x5a]).await.unwrap();
}

/// Returns the chunk length of the only file, and the start and end of each partition in it.
async fn extents(
    file_system: &FileSystem,
    table: &Arc<TableMetadata>,
) -> (u64, BTreeMap<String, (u64, u64)>) {
    let path =
        table_directory(table).join(format!("{}-Data.db", only_set(file_system, table).await));
    let (descriptor, _) = Descriptor::parse(&path).unwrap();
    let cache = PageCache::new(1 << 20);
    let reader = SSTableReader::open(file_system, descriptor, Some(table.clone()), &cache);
    let reader = reader.await.unwrap();
    let all = Arc::new(ClusteringSlices::all());
    let mut scan = reader.scan(KeyRange::full(), all, &ColumnSelection::All).await.unwrap();
    let mut extents = BTreeMap::new();
    while let Some(mut partition) = scan.next_partition().await.unwrap() {
        while partition.next().await.unwrap().is_some() {}
        let name = String::from_utf8(partition.header().key.key.to_vec()).unwrap();
        extents.insert(name, (partition.start(), partition.position() + 1));
    }
    // An uncompressed file has its chunk length in CRC.db. The node writes 4 KiB.
    let length = reader.compression().map_or(4096, |info| u64::from(info.chunk_length));
    (length, extents)
}

fn name_of(line: &str) -> &str {
    line.split_once('/').unwrap().0
}

/// Returns the position in Data.db that a fault reports.
fn offset_of(fault: &str) -> u64 {
    let (_, rest) =
        fault.split_once("Data.db is corrupt at byte ").unwrap_or_else(|| panic!("{fault}"));
    rest.split_once(':').unwrap().0.parse().unwrap()
}

const LZ4: &[(&str, &str)] = &[("class", "LZ4Compressor"), ("chunk_length_in_kb", "4")];
