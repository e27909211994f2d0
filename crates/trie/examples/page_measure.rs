//! Measures the page-packed trie as a partition index: its size, the time to write and to read it,
//! the number of pages that a look-up touches, and the memory of the writer.
//!
//!     cargo run --release -p espalier-trie --example page_measure [-- KEYS]
//!
//! Keys are random 8-byte partition keys as Partitions.db has them: `40 token 40 escaped key 38`,
//! cut to the shortest unique prefix, with a payload of a hash byte and a position. Cassandra
//! 5.0.9's Partitions.db for 3,000,000 such keys is 26.6 MB.
#![allow(clippy::disallowed_methods, reason = "a measurement outside of the node reads the clock")]

use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use espalier_trie::page::{
    Cursor, MemoryPages, PAGE_SIZE, PageTrieWriter, Walker, common_prefix_length,
};

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(output) = poll {
            return output;
        }
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Returns `40 token 40 key 38`. The token does not depend on the key here, which changes little,
/// because almost all prefixes end in the token.
fn key(dice: &mut Dice) -> [u8; 20] {
    let mut key = [0x40; 20];
    key[1..9].copy_from_slice(&dice.roll().to_be_bytes());
    key[10..18].copy_from_slice(&dice.roll().to_be_bytes());
    key[18] = 0;
    key[19] = 0x38;
    key
}

/// Returns bits, bytes and length of the payload of a partition. Each partition before it takes 30
/// bytes of Data.db.
fn payload(number: usize, hash_byte: u8) -> (u8, [u8; 9], usize) {
    let position = !(number as i64 * 30);
    let size = (64 - (!position).leading_zeros() as usize) / 8 + 1;
    let mut payload = [hash_byte; 9];
    payload[1..=size].copy_from_slice(&position.to_be_bytes()[8 - size..]);
    (8 + size as u8 - 1, payload, 1 + size)
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(3_000_000), |text| text.parse())?;
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut keys: Vec<[u8; 20]> = (0..count).map(|_| key(&mut dice)).collect();
    keys.sort_unstable();
    keys.dedup();

    let mut file = Vec::with_capacity(count * 10);
    let mut writer = PageTrieWriter::new(0);
    let mut max_memory = 0;
    let start = Instant::now();
    let mut shared_with_previous = 0;
    for (number, key) in keys.iter().enumerate() {
        let shared = keys.get(number + 1).map_or(0, |next| common_prefix_length(key, next));
        let cut = shared.max(shared_with_previous) + 1;
        shared_with_previous = shared;
        let (bits, payload, size) = payload(number, key[8]);
        writer.add(&mut file, &key[..cut], bits, &payload[..size])?;
        if number % 1024 == 0 {
            max_memory = max_memory.max(writer.memory_bytes());
        }
    }
    let root = writer.complete(&mut file)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("keys                  {}", keys.len());
    println!("file                  {} bytes, {:.2} per key", file.len(), per(file.len(), &keys));
    println!("write                 {:.0} ns per key", seconds * 1e9 / keys.len() as f64);
    println!("writer's memory       {} bytes at most", max_memory.max(writer.memory_bytes()));

    let lookups = 1_000_000.min(keys.len());
    let start = Instant::now();
    let mut touched = [0_u64; 16];
    for _ in 0..lookups {
        let key = &keys[dice.roll() as usize % keys.len()];
        let mut walker = Walker::new(MemoryPages(&file));
        let found = block_on(walker.prefix(root, key))?.ok_or("a key was lost")?;
        let node = block_on(walker.node(found))?;
        if node.payload().first() != Some(&key[8]) {
            return Err("a key leads to another's payload".into());
        }
        touched[(walker.pages_touched() as usize).min(15)] += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("exact look-up         {:.0} ns", seconds * 1e9 / lookups as f64);
    let total: u64 = touched.iter().zip(0_u64..).map(|(times, pages)| times * pages).sum();
    println!("pages per look-up     {:.3}", total as f64 / lookups as f64);
    for (pages, times) in touched.iter().enumerate().filter(|(_, times)| **times > 0) {
        println!("  {pages} pages             {:.2} %", *times as f64 * 100.0 / lookups as f64);
    }

    let start = Instant::now();
    let mut cursor = Cursor::new(MemoryPages(&file), root);
    let mut number = 0;
    let mut more = block_on(cursor.first())?;
    while more {
        number += 1;
        more = block_on(cursor.next())?;
    }
    let seconds = start.elapsed().as_secs_f64();
    if number != keys.len() {
        return Err("iteration lost keys".into());
    }
    println!("iteration             {:.0} ns per key", seconds * 1e9 / number as f64);
    let pages = file.len().div_ceil(PAGE_SIZE);
    println!("  pages asked for     {} of {pages}", cursor.pages_touched());
    Ok(())
}

fn per(bytes: usize, keys: &[[u8; 20]]) -> f64 {
    bytes as f64 / keys.len() as f64
}
