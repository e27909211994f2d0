//! Counts the instructions of a put and a get of an 8-byte random key. They are counted and not
//! timed, so that a busy machine does not matter:
//!
//! `cargo build --release -p espalier-trie --example count`, then `valgrind --tool=callgrind
//! --toggle-collect='*::WHAT' target/release/examples/count`, with one of `puts`, `replaces`,
//! `gets`, `misses` and `branch_puts` for WHAT; divide the total by [`MEASURED`].
#![allow(clippy::unwrap_used)]

use espalier_trie::memory::InMemoryTrie;
use std::hint::black_box;

type Content = (u64, u64);

/// Keys that are put before the measurement.
const KEYS: u64 = 1_000_000;
/// Operations of each kind.
const MEASURED: u64 = 100_000;

/// The finaliser of MurmurHash3: a bijection, so that keys do not repeat.
fn key(mut number: u64) -> [u8; 8] {
    number ^= number >> 33;
    number = number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^= number >> 33;
    number = number.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (number ^ number >> 33).to_be_bytes()
}

#[inline(never)]
fn puts(trie: &mut InMemoryTrie<Content>, from: u64) {
    for number in from..from + MEASURED {
        trie.put(&key(number), (number, 0)).unwrap();
    }
}

#[inline(never)]
fn replaces(trie: &mut InMemoryTrie<Content>) {
    for number in 0..MEASURED {
        trie.put(&key(number * 7), (number, 0)).unwrap();
    }
}

#[inline(never)]
fn gets(trie: &InMemoryTrie<Content>) {
    for number in 0..MEASURED {
        black_box(trie.get(&key(number * 7)).unwrap());
    }
}

#[inline(never)]
fn misses(trie: &InMemoryTrie<Content>) {
    for number in 0..MEASURED {
        black_box(trie.get(&key(number + 10 * KEYS)).is_none());
    }
}

/// Puts partitions of a hundred rows, each by a branch.
#[inline(never)]
fn branch_puts(trie: &mut InMemoryTrie<Content>) {
    for partition in 0..MEASURED / 100 {
        let mut branch = trie.descend(&key(partition + 20 * KEYS));
        for row in 0..100_u32 {
            branch.put(&row.to_be_bytes(), (0, 0)).unwrap();
        }
    }
}

fn main() {
    let mut trie = InMemoryTrie::new();
    for number in 0..KEYS {
        trie.put(&key(number), (number, 0)).unwrap();
    }
    puts(&mut trie, KEYS);
    replaces(&mut trie);
    gets(&trie);
    misses(&trie);
    branch_puts(&mut trie);
    println!("{} keys", trie.content_count());
}
