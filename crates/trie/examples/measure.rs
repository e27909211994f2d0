//! Measures the cost of the in-memory trie: time for each operation and bytes for each key.
//!
//! `cargo run --release -p espalier-trie --example measure -- [ENTRIES] [KEYS…]`; the default is
//! 5,000,000 entries and all kinds of keys. One core, one trie; contents are 32 bytes. The time is
//! processor time, so that a busy machine does not matter, except for its caches.
// The measurement, not the database, calls the system here.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use espalier_trie::cursor::{Cursor as _, Direction, UnionMany};
use espalier_trie::memory::InMemoryTrie;
use std::collections::BTreeMap;
use std::hint::black_box;

type Content = (u64, u64, u64, u64);

/// A function that writes the key of a number over the buffer.
type MakeKey = fn(u64, &mut Vec<u8>);

/// The finaliser of MurmurHash3: a bijection, so that keys do not repeat.
fn mix(mut number: u64) -> u64 {
    number ^= number >> 33;
    number = number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^= number >> 33;
    number = number.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

fn random(number: u64, key: &mut Vec<u8>) {
    key.clear();
    for part in 0..5 {
        key.extend_from_slice(&mix(number * 5 + part + 1).to_be_bytes());
    }
}

fn sequential(number: u64, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(&number.to_be_bytes());
}

fn long_prefix(number: u64, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(b"/a/prefix/of/some/sixty/bytes/that/all/the/keys/have/in/common/");
    key.extend_from_slice(&mix(number).to_be_bytes());
}

/// Keys as in a memtable: token, partition key, clustering key; 100 rows in each partition.
fn rows(number: u64, key: &mut Vec<u8>) {
    let (partition, row) = (number / 100, number % 100);
    key.clear();
    key.push(0x40);
    key.extend_from_slice(&mix(partition).to_be_bytes());
    key.push(0x40);
    key.extend_from_slice(format!("partition-{partition}").as_bytes());
    key.extend_from_slice(&[0x00, 0xfe, 0x38, 0x40]);
    key.extend_from_slice(&(row | 0x8000_0000).to_be_bytes()[4..]);
    key.push(0x38);
}

/// Keys as in a memtable of a table without clustering columns: token, partition key of eight
/// bytes.
fn partitions(number: u64, key: &mut Vec<u8>) {
    key.clear();
    key.push(0x40);
    key.extend_from_slice(&mix(number).to_be_bytes());
    key.push(0x40);
    key.extend_from_slice(&(number | 0x8080_8080_8080_8080).to_be_bytes());
    key.extend_from_slice(&[0x38, 0x38]);
}

const KINDS: [(&str, MakeKey); 5] = [
    ("random", random),
    ("sequential", sequential),
    ("long-prefix", long_prefix),
    ("rows", rows),
    ("partitions", partitions),
];

/// The time for which this thread had run at the start of a measurement, in nanoseconds.
struct Start(u64);

impl Start {
    fn now() -> Start {
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Start(statistics.split(' ').next().unwrap().parse().unwrap())
    }
}

fn report(what: &str, count: u64, start: Start) {
    let nanoseconds = (Start::now().0 - start.0) as f64 / count as f64;
    println!("  {what:<28} {nanoseconds:>8.1} ns");
}

fn measure(name: &str, make_key: MakeKey, entries: u64) {
    println!("{name}: {entries} entries");
    let mut key = Vec::new();
    let start = Start::now();
    for number in 0..entries {
        make_key(number, &mut key);
        black_box(&key);
    }
    report("(making the key)", entries, start);

    let mut trie = InMemoryTrie::<Content>::new();
    let start = Start::now();
    for number in 0..entries {
        make_key(number, &mut key);
        trie.put(&key, (number, 0, 0, 0)).unwrap();
    }
    report("put", entries, start);

    // A stride that is prime to all counts, so that look-ups follow no order.
    let order = |index: u64| index * 7_368_787 % entries;
    let start = Start::now();
    for index in 0..entries {
        make_key(order(index), &mut key);
        assert_eq!(trie.get(&key).map(|content| content.0), Some(order(index)));
    }
    report("get", entries, start);

    let start = Start::now();
    for index in 0..entries {
        make_key(order(index), &mut key);
        let last = key.len() - 1;
        key[last] ^= 1 << (index % 7);
        key.push(1);
        assert!(trie.get(&key).is_none());
    }
    report("get, absent", entries, start);

    let start = Start::now();
    for index in 0..entries {
        make_key(order(index), &mut key);
        trie.update(&key, |content| content.1 += 1).unwrap();
    }
    report("update in place", entries, start);

    let reader = trie.reader();
    let start = Start::now();
    for index in 0..entries {
        make_key(order(index), &mut key);
        let guard = reader.pin();
        black_box(guard.get(&key));
    }
    report("pin and get", entries, start);

    let start = Start::now();
    for index in 0..entries {
        make_key(order(index), &mut key);
        trie.put(&key, (index, 1, 0, 0)).unwrap();
    }
    report("replace, with a reader", entries, start);
    drop(reader);

    for direction in [Direction::Forward, Direction::Reverse] {
        let start = Start::now();
        let mut list = trie.entries(direction);
        let mut count = 0;
        while list.next_entry().is_some() {
            count += 1;
        }
        assert_eq!(count, entries);
        report(&format!("entry, {direction:?}"), entries, start);
    }
    trie.free_retired(u32::MAX);
    let stats = trie.stats();
    let used = trie.used_bytes() as f64 / entries as f64;
    let structure = stats.blocks() as f64 * 32.0 / entries as f64;
    println!("  bytes for each key {used:.1}, of which structure {structure:.1}");
    println!(
        "  allocated {} MiB, free {} MiB",
        trie.allocated_bytes() >> 20,
        trie.free_bytes() >> 20
    );
    println!("{}", format!("  {stats}").replace('\n', "\n  "));

    let start = Start::now();
    for index in 0..entries {
        make_key(order(index), &mut key);
        assert!(trie.remove(&key).unwrap());
    }
    report("remove", entries, start);
    assert_eq!(trie.used_bytes(), 0);
}

/// Walks the union of four tries, each of which has every fourth key; then seeks in it, each time
/// far ahead; then opens a walk over one trie for each of many seeks.
fn measure_union(entries: u64) {
    println!("union of 4 tries of random keys: {entries} entries");
    let mut key = Vec::new();
    let mut tries: [InMemoryTrie<Content>; 4] = Default::default();
    for number in 0..entries {
        random(number, &mut key);
        tries[number as usize % 4].put(&key, (number, 0, 0, 0)).unwrap();
    }
    let union = || {
        let cursors = tries.iter().map(|trie| trie.cursor(Direction::Forward));
        UnionMany::new(Direction::Forward, cursors, |contents| contents.next()).into_entries()
    };
    let start = Start::now();
    let mut list = union();
    let mut count = 0;
    while list.next_entry().is_some() {
        count += 1;
    }
    assert_eq!(count, entries);
    report("entry", entries, start);

    let start = Start::now();
    let seeks = 1 << 16;
    let mut list = union();
    for step in 0..seeks {
        let target = (step << 48 | 0x8000_0000_0000_u64).to_be_bytes();
        list.seek(&target);
        black_box(list.next_entry().is_some());
    }
    report("seek ahead and next", seeks, start);

    let start = Start::now();
    for number in 0..seeks {
        random(number % entries, &mut key);
        let mut list = tries[number as usize % 4].entries(Direction::Forward);
        list.seek(&key);
        assert_eq!(list.next_entry().map(|entry| entry.1.0), Some(number % entries));
    }
    report("new walk of one, seek, next", seeks, start);
}

/// Puts rows one by one, and by a branch for each partition.
fn measure_branch(entries: u64) {
    println!("rows by partition: {entries} entries");
    let mut key = Vec::new();
    let mut trie = InMemoryTrie::<Content>::new();
    let start = Start::now();
    for partition in 0..entries / 100 {
        rows(partition * 100, &mut key);
        let row_at = key.len() - 6;
        let mut branch = trie.descend(&key[..row_at]);
        for number in partition * 100..partition * 100 + 100 {
            rows(number, &mut key);
            branch.put(&key[row_at..], (number, 0, 0, 0)).unwrap();
        }
    }
    report("put by branch", entries, start);
}

/// Measures the same operations in a B-tree of byte strings.
fn measure_b_tree(name: &str, make_key: MakeKey, entries: u64) {
    println!("{name} in a BTreeMap: {entries} entries");
    let mut key = Vec::new();
    let mut map = BTreeMap::<Box<[u8]>, Content>::new();
    let start = Start::now();
    for number in 0..entries {
        make_key(number, &mut key);
        map.insert(key.as_slice().into(), (number, 0, 0, 0));
    }
    report("put", entries, start);
    let start = Start::now();
    for index in 0..entries {
        make_key(index * 7_368_787 % entries, &mut key);
        black_box(map.get(key.as_slice()));
    }
    report("get", entries, start);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let entries = arguments.next().map_or(5_000_000, |entries| entries.parse().unwrap());
    let chosen: Vec<String> = arguments.collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|other| other == name);
    for (name, make_key) in KINDS {
        if is_chosen(name) {
            measure(name, make_key, entries);
        }
    }
    if is_chosen("rows") {
        measure_branch(entries);
    }
    if is_chosen("union") {
        measure_union(entries);
    }
    if is_chosen("b-tree") {
        measure_b_tree("random", random, entries);
        measure_b_tree("rows", rows, entries);
    }
}
