//! Compares a Partitions.db of random keys with a sorted map. The keys have equal and neighbouring
//! tokens, zeros, and lengths up to 60,000 bytes; the bounds lie before and after all keys of a
//! token.

use crate::bti_support;

use std::collections::BTreeMap;

use bti_support::*;
use espalier_sstable::index::bti::IndexWriteError;
use espalier_sstable::index::bti::partition_index::{
    Candidate, IndexPosition, PartitionIndexReader, PartitionIndexWriter,
};
use espalier_trie::page::{MemoryPages, PAGE_SIZE};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

/// Token and key, which sort in this order.
type Key = (i64, Vec<u8>);

fn token() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => -3_i64..3,
        1 => Just(i64::MAX),
        1 => Just(i64::MIN + 1),
        1 => (0_i64..4).prop_map(|high| high << 56),
        2 => any::<i64>(),
    ]
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![3 => 0_u8..3, 1 => 0xFD_u8..=0xFF, 1 => any::<u8>()];
    let stem = prop_oneof![
        30 => Just(0),
        1 => Just(2_048),
        1 => Just(59_999),
    ];
    (stem, vec(letter, 0..6)).prop_map(|(stem, tail)| {
        let mut key = vec![0x61; stem];
        key.extend(tail);
        key
    })
}

struct Written {
    file: Vec<u8>,
    /// The index's content by byte-comparable key, in order.
    entries: BTreeMap<Vec<u8>, Candidate>,
}

/// Writes keys in their order, every third with a row index.
fn write<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Written {
    let mut written = Written { file: Vec::new(), entries: BTreeMap::new() };
    let mut writer = PartitionIndexWriter::new();
    for (number, (token, key)) in keys.into_iter().enumerate() {
        let position = match number % 3 {
            0 => IndexPosition::RowIndex(7 + number as u64 * 1000),
            _ => IndexPosition::Data(number as u64 * number as u64),
        };
        let full = byte_comparable(*token, key);
        writer.add(&mut written.file, &full, key, hash_byte(key), position).unwrap();
        written.entries.insert(full, Candidate { hash_byte: Some(hash_byte(key)), position });
    }
    let footer = writer.finish(&mut written.file).unwrap();
    assert_eq!(footer.file_size, written.file.len() as u64);
    written
}

fn open(file: &[u8]) -> PartitionIndexReader<MemoryPages<'_>> {
    block_on(PartitionIndexReader::open(MemoryPages(file), file.len() as u64)).unwrap()
}

/// Checks a bound as a reader of an SSTable does: it reads the full key at the position and
/// compares it.
fn check_bound(written: &Written, bound: &[u8]) {
    let Written { file, entries } = written;
    let index = open(file);
    let mut cursor = index.cursor(index.source());
    let full_key = |candidate: Candidate| {
        entries.iter().find(|(_, other)| **other == candidate).map(|(key, _)| key).unwrap()
    };
    let mut ceiling = block_on(cursor.seek_ceiling(bound)).unwrap();
    if ceiling.is_some_and(|ceiling| full_key(ceiling)[..] < *bound) {
        ceiling = block_on(cursor.next()).unwrap();
    }
    let expected = entries.range(bound.to_vec()..).next();
    assert_eq!(ceiling.as_ref(), expected.map(|(_, candidate)| candidate), "ceiling {bound:?}");
    // A candidate that turns out to be another key is no error; a missed key is.
    if let Some(candidate) = entries.get(bound) {
        let exact = index.exact_candidate(index.source(), bound, candidate.hash_byte.unwrap());
        assert_eq!(block_on(exact).unwrap(), Some(candidate.position));
    }
}

proptest! {
    #![proptest_config(espalier_testing::properties(200))]

    #[test]
    fn agrees_with_a_sorted_map(
        keys in btree_set((token(), key()), 1..60),
        others in vec((token(), key()), 0..20),
    ) {
        let by_encoding: BTreeMap<Vec<u8>, &Key> =
            keys.iter().map(|key| (byte_comparable(key.0, &key.1), key)).collect();
        prop_assert!(by_encoding.values().copied().eq(&keys), "encoding does not keep the order");
        let written = write(&keys);
        let index = open(&written.file);
        let footer = index.footer();
        prop_assert_eq!(&footer.first_key, &keys.first().unwrap().1);
        prop_assert_eq!(&footer.last_key, &keys.last().unwrap().1);
        prop_assert_eq!(footer.key_count, keys.len() as u64);
        check_nodes(&written.file, footer.root, partition_payload_size);

        let mut cursor = index.cursor(index.source());
        let mut next = block_on(cursor.first()).unwrap();
        for candidate in written.entries.values() {
            prop_assert_eq!(next, Some(*candidate));
            next = block_on(cursor.next()).unwrap();
        }
        prop_assert_eq!(next, None);

        for (token, key) in keys.iter().chain(&others) {
            check_bound(&written, &byte_comparable(*token, key));
            check_bound(&written, &token_bound(*token, 0x20));
            check_bound(&written, &token_bound(*token, 0x60));
        }
    }
}

#[test]
fn an_index_of_one_key_finds_its_position() {
    let written = write(&[(5, b"only".to_vec())]);
    let index = open(&written.file);
    assert_eq!(index.footer().root, 0);
    // The index stores nothing of the key, so every key may be this one.
    let other = byte_comparable(-9, b"other");
    let candidate = index.exact_candidate(index.source(), &other, hash_byte(b"only"));
    assert_eq!(block_on(candidate).unwrap(), Some(IndexPosition::RowIndex(7)));
    for token in [4, 5, 6] {
        check_bound(&written, &token_bound(token, 0x20));
        check_bound(&written, &token_bound(token, 0x60));
        check_bound(&written, &byte_comparable(token, b"only"));
    }
}

#[test]
fn root_children_farther_than_two_bytes_back() {
    let keys: Vec<Key> = (0_u64..120_000)
        .map(|number| {
            let token = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64;
            (token, number.to_be_bytes().to_vec())
        })
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    let written = write(&keys);
    let index = open(&written.file);
    assert!(index.footer().root > 16 * PAGE_SIZE as u64);
    for ((full, candidate), (_, key)) in written.entries.iter().zip(&keys).step_by(41) {
        let exact = index.exact_candidate(index.source(), full, hash_byte(key));
        assert_eq!(block_on(exact).unwrap(), Some(candidate.position));
    }
    for (token, _) in keys.iter().step_by(7001) {
        check_bound(&written, &token_bound(*token, 0x20));
        check_bound(&written, &token_bound(*token, 0x60));
    }
}

#[test]
fn the_writer_refuses_disorder() {
    let mut file = Vec::new();
    let mut writer = PartitionIndexWriter::new();
    let mut add =
        |full: &[u8], key: &[u8]| writer.add(&mut file, full, key, 1, IndexPosition::Data(0));
    add(&byte_comparable(1, b"b"), b"b").unwrap();
    for (token, key) in [(1, b"b"), (1, b"a"), (0, b"c")] {
        let refused = add(&byte_comparable(token, key), key);
        assert_eq!(refused, Err(IndexWriteError::OutOfOrder { number: 1 }));
    }
    let extends = [&byte_comparable(1, b"b")[..], b"x"].concat();
    assert_eq!(add(&extends, b"b"), Err(IndexWriteError::OutOfOrder { number: 1 }));
    let long = vec![1; 65_536];
    let refused = add(&byte_comparable(2, &long), &long);
    assert_eq!(refused, Err(IndexWriteError::KeyTooLong { length: 65_536 }));
    assert!(PartitionIndexWriter::new().finish(&mut Vec::new()).is_err());
}
