//! Limits the instructions of the operations of a trie in memory. `bench/instructions.sh` runs
//! these benchmarks; `make test` runs this script if the code changed lately.
//!
//! Instructions do not depend on the load of the machine, so limits can be tight. A limit is some
//! two percent above the count at the time when the limit was set. A change that makes an operation
//! cheaper lowers the limit, and a change that must raise a limit says why.
#![allow(missing_docs, clippy::unwrap_used)]

use espalier_trie::cursor::{Cursor as _, Direction, Union};
use espalier_trie::memory::InMemoryTrie;
use gungraun::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use std::hint::black_box;

type Content = (u64, u64);
type Trie = InMemoryTrie<Content>;

/// Number of keys that are put before the measurement.
const KEYS: u64 = 100_000;
/// Number of operations that are measured.
const MEASURED: u64 = 10_000;

/// Applies the finaliser of MurmurHash3, which is a bijection, so that keys do not repeat.
fn mix(mut number: u64) -> u64 {
    number ^= number >> 33;
    number = number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^= number >> 33;
    number = number.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// Returns a key as in a memtable: token and partition key, ended as a component and as a row.
fn key(number: u64) -> [u8; 20] {
    let mut key = [0x40; 20];
    key[1..9].copy_from_slice(&mix(number).to_be_bytes());
    key[10..18].copy_from_slice(&(number | 0x8080_8080_8080_8080).to_be_bytes());
    key[18..].copy_from_slice(&[0x38, 0x38]);
    key
}

fn every(step: u64, first: u64) -> Trie {
    let mut trie = Trie::new();
    for number in (first..KEYS).step_by(step as usize) {
        trie.put(&key(number), (number, 0)).unwrap();
    }
    trie
}

fn all() -> Trie {
    every(1, 0)
}

fn with_reader() -> (Trie, espalier_trie::memory::Reader<Content>) {
    let trie = all();
    let reader = trie.reader();
    (trie, reader)
}

fn halves() -> (Trie, Trie) {
    (every(2, 0), every(2, 1))
}

fn limit(each: u64) -> LibraryBenchmarkConfig {
    limit_of(each * MEASURED)
}

fn limit_of(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

#[library_benchmark(config = limit(635))]
#[bench::new_keys(all())]
fn put(mut trie: Trie) -> Trie {
    for number in KEYS..KEYS + MEASURED {
        trie.put(&key(number), (number, 0)).unwrap();
    }
    trie
}

#[library_benchmark(config = limit(443))]
#[bench::old_keys(all())]
fn replace(mut trie: Trie) -> Trie {
    for number in 0..MEASURED {
        trie.put(&key(number * 7), (number, 0)).unwrap();
    }
    trie
}

#[library_benchmark(config = limit(1063))]
#[bench::one_change_each(with_reader())]
fn transaction(
    (mut trie, reader): (Trie, espalier_trie::memory::Reader<Content>),
) -> (Trie, espalier_trie::memory::Reader<Content>) {
    for number in 0..MEASURED {
        let key = key(number * 7);
        trie.transaction(&key[..18]).put(&key[18..], (number, 0)).unwrap();
    }
    (trie, reader)
}

#[library_benchmark(config = limit(309))]
#[bench::there(all())]
fn get(trie: Trie) -> Trie {
    for number in 0..MEASURED {
        black_box(trie.get(&key(number * 7)).unwrap());
    }
    trie
}

#[library_benchmark(config = limit(217))]
#[bench::absent(all())]
fn get_nothing(trie: Trie) -> Trie {
    for number in 0..MEASURED {
        black_box(trie.get(&key(number + 10 * KEYS)).is_none());
    }
    trie
}

#[library_benchmark(config = limit_of(467 * KEYS))]
#[bench::forward(all())]
fn next(trie: Trie) -> Trie {
    let mut entries = trie.entries(Direction::Forward);
    while entries.next_entry().is_some() {}
    drop(entries);
    trie
}

#[library_benchmark(config = limit_of(545 * KEYS))]
#[bench::of_two(halves())]
fn merge((left, right): (Trie, Trie)) -> (Trie, Trie) {
    let union = Union::new(
        left.cursor(Direction::Forward),
        right.cursor(Direction::Forward),
        |left: Option<&Content>, right| left.or(right),
    );
    let mut entries = union.into_entries();
    let mut count = 0;
    while entries.next_entry().is_some() {
        count += 1;
    }
    assert_eq!(count, KEYS);
    drop(entries);
    (left, right)
}

library_benchmark_group!(
    name = operations,
    benchmarks = [put, replace, transaction, get, get_nothing, next, merge]
);
main!(library_benchmark_groups = operations);
