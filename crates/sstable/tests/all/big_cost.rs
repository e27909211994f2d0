//! Counts the reads of look-ups and walks in Index.db, and the memory of a summary.

use crate::big_support;

use std::path::Path;

use big_support::*;
use bytes::Bytes;
use espalier_mutation::{DecoratedKey, KeyBound};
use espalier_sstable::{
    FileName,
    index::big::{BigIndex, partition_index::PartitionIndexWriter, summary::SummaryBuilder},
};

const MEGABYTE: usize = 1024 * 1024;

/// Opens an index of `count` keys with promoted indexes of this length.
fn make(count: u64, promoted_length: usize) -> (BigIndex<CountingFile>, CountingFile) {
    let mut keys: Vec<_> = (0..count)
        .map(|number| DecoratedKey::new(Bytes::from(number.to_be_bytes().to_vec())))
        .collect();
    keys.sort();
    let promoted = vec![0xFF; promoted_length];
    let promoted = (promoted_length > 0).then_some(promoted.as_slice());
    let mut index = Vec::new();
    let mut writer = PartitionIndexWriter::new();
    let mut builder = SummaryBuilder::new(128);
    for (number, key) in keys.iter().enumerate() {
        let data_position = number as u64 * 1000;
        let position = writer.append(&mut index, &key.key, data_position, promoted).unwrap();
        builder.add(&key.key, position);
    }
    let counting = CountingFile::new(file("Index.db", &index.into()));
    let summary = Bytes::from(builder.finish());
    let name = FileName::new(Path::new("Summary.db"));
    let opened = BigIndex::open(counting.clone(), Some((&name, &summary)), u64::MAX, 128);
    (block_on(opened).unwrap(), counting)
}

#[test]
fn a_look_up_reads_one_interval() {
    let (index, counts) = make(20_000, 0);
    assert!(index.summary_fault().is_none());
    // Opening reads the first entry, and the entries after the last sample.
    let (pages, pieces) = counts.take_counts();
    assert!(pages <= 3 && pieces == 0, "{pages} pages, {pieces} pieces");
    for number in (0_u64..20_100).step_by(41).chain([1 << 60]) {
        let key = DecoratedKey::new(Bytes::from(number.to_be_bytes().to_vec()));
        let found = block_on(index.exact(index.file(), &key)).unwrap();
        assert_eq!(found.is_some(), number < 20_000);
        // 129 entries of 15 bytes are read at once.
        let (pages, pieces) = counts.take_counts();
        assert!(pages == 0 && pieces <= 1, "{pages} pages, {pieces} pieces");
        block_on(index.ceiling(index.file(), &KeyBound::BeforeKey(key))).unwrap();
        let (pages, _) = counts.take_counts();
        assert!(pages <= 2, "{pages} pages");
    }
    // A walk over the whole index reads 300 KB in pieces of 128 KB.
    assert_eq!(entries(&index).unwrap().len(), 20_000);
    assert_eq!(counts.take_counts(), (0, 3));
}

#[test]
fn promoted_indexes_are_stepped_over() {
    let (index, counts) = make(50, 3 * MEGABYTE);
    assert!(index.summary_fault().is_none());
    counts.take_counts();
    for key in [index.first_key(), index.last_key()] {
        let entry = block_on(index.exact(index.file(), key)).unwrap().unwrap();
        assert_eq!(entry.promoted.unwrap().length, 3 * MEGABYTE as u64);
        // An entry's head is in one page, or across two.
        let (pages, pieces) = counts.take_counts();
        assert!(pages <= 50 * 3 && pieces == 0, "{pages} pages, {pieces} pieces");
    }
    assert_eq!(entries(&index).unwrap().len(), 50);
    let (pages, pieces) = counts.take_counts();
    assert!(pages == 0 && pieces <= 50 * 2, "{pages} pages, {pieces} pieces");
}

#[test]
fn a_summary_takes_twelve_bytes_beside_its_keys() {
    let (index, _) = make(128_000, 0);
    let samples = 1000;
    assert_eq!(index.summary().len(), samples);
    let bytes = index.memory_bytes();
    assert!(bytes < samples * (8 + 4 + 8 + 8) + 1000, "{bytes} bytes");
}
