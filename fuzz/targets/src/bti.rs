//! The targets of the trie index, without the Data.db to which it points.

use espalier_sstable::index::bti::{
    partition_index::{IndexPosition, PartitionIndexReader},
    row_index::RowIndexReader,
};
use espalier_trie::page::MemoryPages;

use crate::{executor::block_on, input::Input};

/// Maximum steps of a walk. A walk in either direction ends after the number of keys that the index
/// claims, which may be huge.
const MAX_STEPS: usize = 2000;
const ENTRIES: usize = 8;

/// Reads Partitions.db. Input: `PART: a key`, then Partitions.db.
pub fn partitions(data: &[u8]) {
    let mut input = Input(data);
    let key = input.part();
    block_on(walk_partitions(input.0, key));
}

/// Walks the partitions and returns the positions in Rows.db to which the first of them point.
async fn walk_partitions(file: &[u8], key: &[u8]) -> Vec<u64> {
    let mut entries = Vec::new();
    let Ok(index) = PartitionIndexReader::open(MemoryPages(file), file.len() as u64).await else {
        return entries;
    };
    let mut keys = vec![key.to_vec()];
    let mut cursor = index.cursor(index.source());
    let mut next = cursor.first().await;
    let mut steps = 0;
    while let (Ok(Some(candidate)), true) = (&next, steps < MAX_STEPS) {
        if let IndexPosition::RowIndex(position) = candidate.position
            && entries.len() < ENTRIES
        {
            entries.push(position);
        }
        if keys.len() < ENTRIES {
            keys.push(cursor.prefix().to_vec());
        }
        next = cursor.next().await;
        steps += 1;
    }
    for key in &keys {
        let hash = key.last().copied().unwrap_or_default();
        let _ = index.exact_candidate(index.source(), key, hash).await;
        let _ = cursor.seek_ceiling(key).await;
        let _ = cursor.next().await;
    }
    entries
}

/// Reads Rows.db. Input: `be16 position of an entry, from the end of the file; PART: a clustering
/// position`, then Rows.db.
pub fn rows(data: &[u8]) {
    let mut input = Input(data);
    let from_end = u64::from(input.short());
    let position = input.part();
    let entry = (input.0.len() as u64).saturating_sub(from_end);
    block_on(walk_rows(input.0, entry, position));
}

async fn walk_rows(file: &[u8], entry: u64, position: &[u8]) {
    let Ok(index) = RowIndexReader::open(MemoryPages(file), entry).await else { return };
    for position in [None, Some(position)] {
        if let Ok(mut blocks) = index.forward(position).await {
            let mut steps = 0;
            while let (Ok(Some(_)), true) = (blocks.next().await, steps < MAX_STEPS) {
                steps += 1;
            }
        }
        if let Ok(mut blocks) = index.backward(position).await {
            let mut steps = 0;
            while let (Ok(Some(_)), true) = (blocks.next().await, steps < MAX_STEPS) {
                steps += 1;
            }
        }
    }
    let _ = index.floor_block(position).await;
    let _ = index.end_offset(position).await;
}

/// Reads both files. Input: `PART: Partitions.db`, then Rows.db; the walk reads the entries to
/// which Partitions.db points.
pub fn partitions_and_rows(data: &[u8]) {
    let mut input = Input(data);
    let partitions = input.part();
    block_on(async {
        for entry in walk_partitions(partitions, &[0x40]).await {
            walk_rows(input.0, entry, &[0x40, 0x38]).await;
        }
    });
}
