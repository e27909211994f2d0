//! Tests that a summary that is damaged or contradicts Index.db changes no answer.

use crate::big_support;

use std::path::Path;

use big_support::*;
use bytes::Bytes;
use espalier_mutation::{DecoratedKey, KeyBound};
use espalier_sstable::{
    FileName,
    index::big::{
        BigIndex, MemoryFile, partition_index::PartitionIndexWriter, summary::SummaryBuilder,
    },
};

const COUNT: u64 = 500;
const HEAD_BYTES: usize = 24;

struct Files {
    keys: Vec<DecoratedKey>,
    index: Bytes,
    summary: Vec<u8>,
}

/// Makes 500 keys of eight bytes; every 16th is a sample.
fn files() -> Files {
    let mut keys: Vec<_> = (0..COUNT)
        .map(|number| DecoratedKey::new(Bytes::from(number.to_be_bytes().to_vec())))
        .collect();
    keys.sort();
    let mut index = Vec::new();
    let mut writer = PartitionIndexWriter::new();
    let mut builder = SummaryBuilder::new(16);
    for (number, key) in keys.iter().enumerate() {
        let position = writer.append(&mut index, &key.key, number as u64 * 50, None).unwrap();
        builder.add(&key.key, position);
    }
    Files { keys, index: index.into(), summary: builder.finish() }
}

fn open(files: &Files, summary: &[u8]) -> BigIndex<MemoryFile> {
    let name = FileName::new(Path::new("Summary.db"));
    let summary = Bytes::copy_from_slice(summary);
    let index = file("Index.db", &files.index);
    block_on(BigIndex::open(index, Some((&name, &summary)), COUNT * 50, 16)).unwrap()
}

/// Checks that all keys are found, that absent keys are not, and that bounds lead to the right
/// entries.
fn check_answers(files: &Files, index: &BigIndex<MemoryFile>) {
    for (number, key) in files.keys.iter().enumerate() {
        let entry = block_on(index.exact(index.file(), key)).unwrap().unwrap();
        assert_eq!(entry.data_position, number as u64 * 50);
        let next = block_on(index.ceiling(index.file(), &KeyBound::AfterKey(key.clone()))).unwrap();
        assert_eq!(next.map(|entry| entry.key), files.keys.get(number + 1).cloned());
    }
    let absent = DecoratedKey::new(Bytes::from_static(b"absent"));
    assert_eq!(block_on(index.exact(index.file(), &absent)).unwrap(), None);
}

#[test]
fn any_changed_byte() {
    let files = files();
    let mut rebuilt = 0;
    for at in 0..files.summary.len() {
        let mut summary = files.summary.clone();
        summary[at] ^= 1 << (at % 8);
        let index = open(&files, &summary);
        check_answers(&files, &index);
        rebuilt += usize::from(index.summary_fault().is_some());
    }
    // No reader relies on the interval, the level and the number of samples at full sampling; every
    // other byte counts.
    assert_eq!(rebuilt, files.summary.len() - 12);
}

#[test]
fn cut_at_any_length() {
    let files = files();
    for length in 0..files.summary.len() {
        let index = open(&files, &files.summary[..length]);
        assert!(index.summary_fault().is_some());
        assert_eq!(index.first_key(), &files.keys[0]);
        assert_eq!(index.last_key(), files.keys.last().unwrap());
    }
}

/// The keys of the samples are right, but a position leads into another entry.
#[test]
fn positions_of_other_entries() {
    let files = files();
    let samples = COUNT.div_ceil(16) as usize;
    let position_at = |sample: usize| HEAD_BYTES + samples * 4 + sample * 16 + 8;
    for sample in 1..samples - 1 {
        for shift in [-21_i64, 21] {
            let at = position_at(sample);
            let mut summary = files.summary.clone();
            let position = i64::from_le_bytes(summary[at..at + 8].try_into().unwrap()) + shift;
            summary[at..at + 8].copy_from_slice(&position.to_le_bytes());
            let index = open(&files, &summary);
            assert!(index.summary_fault().is_none(), "only the ends are looked at");
            check_answers(&files, &index);
            assert!(matches!(index.summary_fault(), Some(Some(_))));
        }
    }
}

/// A sample has an absent key that lies between its neighbours.
#[test]
fn keys_that_are_not_there() {
    let files = files();
    let samples = COUNT.div_ceil(16) as usize;
    for sample in 1..samples - 1 {
        let neighbours = (&files.keys[sample * 16 - 16], &files.keys[sample * 16 + 16]);
        let between = (0_u64..)
            .map(|number| DecoratedKey::new(Bytes::from((number << 32).to_be_bytes().to_vec())))
            .find(|key| neighbours.0 < key && key < neighbours.1 && !files.keys.contains(key));
        let at = HEAD_BYTES + samples * 4 + sample * 16;
        let mut summary = files.summary.clone();
        summary[at..at + 8].copy_from_slice(&between.unwrap().key);
        let index = open(&files, &summary);
        check_answers(&files, &index);
        assert!(matches!(index.summary_fault(), Some(Some(_))));
    }
}
