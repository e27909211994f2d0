//! Tests that transactions are seen wholly or not at all, and that snapshots stay as they were.

use crate::common::{Model, config, key};
use espalier_trie::cursor::Direction;
use espalier_trie::memory::{InMemoryTrie, Snapshot, Subtrie};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Debug)]
enum Operation {
    /// Puts (or removes) keys below the prefix.
    Transaction(Vec<u8>, Vec<(Vec<u8>, bool)>),
    /// Puts (or removes) every n-th byte below the prefix, so that nodes become wide.
    Fan(Vec<u8>, u8, bool),
    Snapshot(Vec<u8>),
    DropSnapshot(prop::sample::Index),
}

fn operation() -> impl Strategy<Value = Operation> {
    let suffixes = prop::collection::vec((key(), prop::bool::weighted(0.7)), 1..8);
    // No prefix is a prefix of another.
    let long = |last: u8| [&[b'x'; 40][..], &[last]].concat();
    let prefixes =
        vec![b"aa".to_vec(), b"ab".to_vec(), b"b".to_vec(), long(0), long(1), vec![0xFF]];
    let prefix = || prop::sample::select(prefixes.clone());
    prop_oneof![
        6 => (prefix(), suffixes).prop_map(|(prefix, changes)| Operation::Transaction(prefix, changes)),
        1 => (prefix(), 1..60u8, any::<bool>()).prop_map(|(prefix, step, put)| Operation::Fan(prefix, step, put)),
        2 => prefix().prop_map(Operation::Snapshot),
        1 => any::<prop::sample::Index>().prop_map(Operation::DropSnapshot),
    ]
}

fn below(model: &Model, prefix: &[u8]) -> Model {
    let keys = model.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
    keys.map(|(key, value)| (key[prefix.len()..].to_vec(), *value)).collect()
}

fn listed(subtrie: Subtrie<'_, u32>, direction: Direction) -> Vec<(Vec<u8>, u32)> {
    let mut entries = subtrie.entries(direction);
    let mut list = Vec::new();
    while let Some((key, value)) = entries.next_entry() {
        list.push((key.to_vec(), *value));
    }
    list
}

#[track_caller]
fn assert_same(subtrie: Subtrie<'_, u32>, expected: &Model) {
    let mut entries: Vec<_> = expected.clone().into_iter().collect();
    assert_eq!(listed(subtrie, Direction::Forward), entries);
    entries.reverse();
    assert_eq!(listed(subtrie, Direction::Reverse), entries);
    for (key, value) in expected {
        assert_eq!(subtrie.get(key), Some(value));
    }
}

fn change(
    trie: &mut InMemoryTrie<u32>,
    model: &mut Model,
    prefix: &[u8],
    changes: &[(Vec<u8>, bool)],
    number: u32,
) {
    let before = trie.reader();
    let before = before.snapshot(prefix);
    let expected_before = below(model, prefix);
    let mut transaction = trie.transaction(prefix);
    for (suffix, put) in changes {
        let whole = [prefix, suffix].concat();
        if *put {
            let was_there = transaction.put(suffix, number).unwrap();
            assert_eq!(was_there, model.insert(whole, number).is_some());
        } else if below(model, prefix).len() > 1 {
            let was_there = transaction.remove(suffix).unwrap();
            assert_eq!(was_there, model.remove(&whole).is_some());
        }
        assert_eq!(transaction.get(suffix), model.get(&[prefix, suffix].concat()));
        assert_same(transaction.subtrie(), &below(model, prefix));
        assert_same(before.subtrie(), &expected_before);
    }
    drop(transaction);
    assert_same(before.subtrie(), &expected_before);
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn snapshots_stay_as_they_were(operations in prop::collection::vec(operation(), 1..40)) {
        let mut trie = InMemoryTrie::<u32>::new();
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot<u32>, Model)> = Vec::new();
        for (number, operation) in (0..).zip(operations) {
            match operation {
                Operation::Transaction(prefix, changes) => {
                    change(&mut trie, &mut model, &prefix, &changes, number);
                }
                Operation::Fan(prefix, step, put) => {
                    let bytes = (0..=255u8).step_by(step.into());
                    let changes: Vec<_> = bytes.map(|byte| (vec![byte, 1], put)).collect();
                    change(&mut trie, &mut model, &prefix, &changes, number);
                }
                Operation::Snapshot(prefix) => {
                    let expected = below(&model, &prefix);
                    snapshots.push((trie.snapshot(&prefix), expected));
                }
                Operation::DropSnapshot(at) if !snapshots.is_empty() => {
                    snapshots.swap_remove(at.index(snapshots.len()));
                }
                Operation::DropSnapshot(_) => {}
            }
            trie.verify().unwrap();
            let sum = trie.used_bytes() + trie.retired_bytes() + trie.free_bytes();
            prop_assert_eq!(sum, trie.allocated_bytes());
            assert_same(trie.subtrie(&[]), &model);
            for (snapshot, expected) in &snapshots {
                assert_same(snapshot.subtrie(), expected);
            }
        }
        drop(snapshots);
        prop_assert_eq!(trie.free_retired(u32::MAX), 0);
        trie.verify().unwrap();
    }
}

#[test]
fn the_only_key_is_not_removed() {
    for with_reader in [false, true] {
        let mut trie = InMemoryTrie::<u32>::new();
        trie.put(b"ab", 1).unwrap();
        trie.put(b"ac", 1).unwrap();
        let _reader = with_reader.then(|| trie.reader());
        assert!(!trie.transaction(b"ab").remove(b"").unwrap());
        assert_eq!(trie.get(b"ab"), Some(&1));
        trie.verify().unwrap();
    }
}

#[test]
fn without_readers_nothing_is_copied() {
    let mut trie = InMemoryTrie::<u32>::new();
    for number in 0..1000u32 {
        trie.transaction(b"prefix").put(&number.to_be_bytes(), number).unwrap();
    }
    assert_eq!(trie.retired_bytes(), 0);
    let snapshot = trie.snapshot(b"prefix");
    for number in 0..1000u32 {
        trie.transaction(b"prefix").put(&number.to_be_bytes(), 1).unwrap();
    }
    assert!(trie.retired_bytes() > 0);
    drop(snapshot);
    assert_eq!(trie.free_retired(u32::MAX), 0);
}

/// If each change copied its path, a write of many rows would take the memory and time of as many
/// paths.
#[test]
fn a_transaction_copies_each_node_once() {
    const ROWS: u16 = 2000;
    let mut trie = InMemoryTrie::<u16>::new();
    for row in 0..8 * ROWS {
        trie.put(&[&b"prefix"[..], &row.to_be_bytes()].concat(), 1).unwrap();
    }
    let nodes = trie.used_bytes() - 32 * trie.content_count();
    let snapshot = trie.snapshot(b"prefix");
    let mut transaction = trie.transaction(b"prefix");
    for row in 0..ROWS {
        assert!(transaction.put(&row.to_be_bytes(), 2).unwrap());
        assert_eq!(transaction.get(&(row / 2).to_be_bytes()), Some(&2));
    }
    drop(transaction);
    let contents = 32 * usize::from(ROWS);
    assert!(trie.retired_bytes() <= contents + nodes, "{} bytes", trie.retired_bytes());
    trie.verify().unwrap();
    for row in 0..8 * ROWS {
        assert_eq!(snapshot.subtrie().get(&row.to_be_bytes()), Some(&1));
        let now = if row < ROWS { 2 } else { 1 };
        assert_eq!(trie.subtrie(b"prefix").get(&row.to_be_bytes()), Some(&now));
    }
    drop(snapshot);
    assert_eq!(trie.free_retired(u32::MAX), 0);
}

/// Writes rows of some partitions; each transaction writes all rows of one partition, with one
/// number.
#[test]
fn readers_see_all_of_a_transaction_or_nothing() {
    const PARTITIONS: u32 = 3;
    const ROWS: u32 = if cfg!(miri) { 5 } else { 300 };
    const ROUNDS: u32 = if cfg!(miri) { 6 } else { 2000 };
    let prefix = |partition: u32| [b"partition ".as_slice(), &partition.to_be_bytes()].concat();
    let mut trie = InMemoryTrie::<u32>::new();
    let reader = trie.reader();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2u32)
            .map(|seed| {
                let (reader, done) = (reader.clone(), &done);
                scope.spawn(move || {
                    let mut seen = 0u64;
                    let mut last = [0; PARTITIONS as usize];
                    let mut partition = seed;
                    loop {
                        let is_last = done.load(Ordering::Acquire);
                        partition = (partition + 1) % PARTITIONS;
                        let snapshot = reader.snapshot(&prefix(partition));
                        for _ in 0..2 {
                            let list = listed(snapshot.subtrie(), Direction::Forward);
                            let number = list.first().map_or(0, |(_, number)| *number);
                            assert!(list.iter().all(|(_, other)| *other == number), "half a write");
                            // The first round writes all rows; later ones remove every seventh, or
                            // put it back.
                            assert!(list.is_empty() || list.len() as u32 >= ROWS - ROWS / 7 - 1);
                            assert!(number >= last[partition as usize], "back in time");
                            last[partition as usize] = number;
                            seen += list.len() as u64;
                            std::thread::yield_now();
                        }
                        if is_last {
                            return seen;
                        }
                    }
                })
            })
            .collect();
        for round in 1..=ROUNDS {
            let mut transaction = trie.transaction(&prefix(round % PARTITIONS));
            for row in 0..ROWS {
                let key = row.wrapping_mul(2_654_435_761).to_be_bytes();
                if round > PARTITIONS && row % 7 == 3 && round / PARTITIONS % 2 == 1 {
                    transaction.remove(&key).unwrap();
                } else {
                    transaction.put(&key, round).unwrap();
                }
            }
            drop(transaction);
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    trie.verify().unwrap();
    drop(reader);
    assert_eq!(trie.free_retired(u32::MAX), 0);
    trie.verify().unwrap();
}

/// Each removal copies its whole path first, which takes blocks as the removal itself does.
#[test]
fn removals_beside_a_snapshot_succeed_with_any_number_of_keys() {
    for count in 1..200_u32 {
        let mut trie = InMemoryTrie::new();
        let keys: Vec<[u8; 8]> = (0..count)
            .map(|n| (u64::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20).to_be_bytes())
            .collect();
        for (number, key) in keys.iter().enumerate() {
            trie.put(key, number as u32).unwrap();
        }
        let snapshot = trie.snapshot(&[]);
        for key in &keys[1..] {
            assert!(trie.transaction(&[]).remove(key).unwrap());
            assert_eq!(trie.get(key), None);
        }
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(snapshot.subtrie().get(key), Some(&(number as u32)));
        }
        drop(snapshot);
        trie.free_retired(u32::MAX);
        trie.verify().unwrap();
        assert_eq!(trie.content_count(), 1);
    }
}

/// The unpublished changes of a forgotten transaction are not visible. The nodes that it would have
/// replaced stay visible, and are freed once.
#[test]
fn a_transaction_may_be_forgotten() {
    for next in 0..4 {
        let mut trie = InMemoryTrie::new();
        for byte in 0..60u8 {
            trie.put(&[b'p', byte], Box::new(byte)).unwrap();
        }
        let reader = trie.reader();
        let mut transaction = trie.transaction(b"p");
        for byte in 0..60u8 {
            transaction.put(&[byte], Box::new(byte + 100)).unwrap();
        }
        std::mem::forget(transaction);
        drop(reader);
        match next {
            0 => assert!(trie.transaction(b"p").put(&[7], Box::new(7)).unwrap()),
            1 => assert_eq!(trie.free_retired(u32::MAX), 0),
            2 => {
                let mut drop_incrementally = trie.drop_incrementally();
                while drop_incrementally.step(5) {}
                continue;
            }
            _ => {}
        }
        // These writes use the units that were freed, also those freed by mistake.
        for byte in 0..200u8 {
            trie.put(&[b'q', byte], Box::new(byte)).unwrap();
        }
        for byte in 0..60u8 {
            assert_eq!(trie.get(&[b'p', byte]).map(|content| **content), Some(byte));
        }
    }
}
