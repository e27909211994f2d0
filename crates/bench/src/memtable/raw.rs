//! Measures the bare trie as db_bench measures RocksDB's memtable: keys of 16 bytes and values of
//! 100, each written once in random order, then read in random order.
//!
//! Neither side has a node, CQL or a log. RocksDB's figures include its write batches and sequence
//! numbers, which the trie does not have.

use std::hint::black_box;

use espalier_runtime::random::Generator;
use espalier_trie::memory::InMemoryTrie;

use super::Bench;
use super::block::BLOCK;
use super::keys::shuffled;
use super::peers::{ROCKSDB, rocksdb};
use super::record::Measure;
use crate::BenchError;
use crate::progress::Step;
use crate::watch::{Round, Watch};

/// Bytes of a value, which has an allocation of its own.
pub const VALUE_BYTES: usize = 100;

/// Bytes of a key: a number, followed by the character `0` as in db_bench.
pub const KEY_BYTES: usize = 16;

type Key = [u8; KEY_BYTES];

impl Bench<'_> {
    /// Measures, round by round, the trie and then RocksDB, if db_bench is found.
    pub(super) async fn raw(&mut self) -> Result<(), BenchError> {
        let arguments = self.arguments;
        let program = rocksdb::find(arguments.db_bench.as_deref());
        for round in 1..=arguments.rounds {
            let total = arguments.partitions + arguments.reads;
            let what = format!("bare trie, round {round} of {}", arguments.rounds);
            let mut step = self.progress.step(what, total);
            let (put, get) =
                measure(arguments.partitions, arguments.reads, arguments.seed, &mut step)?;
            self.record.add("raw", "trie", Measure::RawPut, put);
            self.record.add("raw", "trie", Measure::RawGet, get);
            if let Some(program) = &program {
                self.progress.step(format!("db_bench, round {round} of {}", arguments.rounds), 1);
                let directory = arguments.node.workdir.join("rocksdb");
                let theirs =
                    rocksdb::run(program, &directory, arguments.partitions, arguments.reads)?;
                self.record.add("raw", ROCKSDB, Measure::RawPut, theirs.put);
                self.record.add("raw", ROCKSDB, Measure::RawGet, theirs.get);
                let note = theirs.warning.map(|warning| format!("db_bench warns: {warning}"));
                self.record.notes.extend(note.filter(|_| round == 1));
            }
        }
        if program.is_none() {
            self.record.notes.push(rocksdb::stored_figures());
        }
        Ok(())
    }
}

fn key(number: u64) -> Key {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Fills a value that identifies its key.
fn fill(number: u64, value: &mut [u8; VALUE_BYTES]) {
    value.fill(number as u8);
    value[..8].copy_from_slice(&number.to_be_bytes());
}

fn measure(
    count: u64,
    reads: u64,
    seed: u64,
    step: &mut Step<'_>,
) -> Result<(Round, Round), BenchError> {
    let full = |_| BenchError::Wrong("4 GiB are full: measure fewer partitions".into());
    let mut trie = InMemoryTrie::<Box<[u8]>>::new();
    let mut entries: Vec<(Key, [u8; VALUE_BYTES])> = Vec::with_capacity(BLOCK as usize);
    let mut put = Round::default();
    for start in (0..count).step_by(BLOCK as usize) {
        entries.clear();
        entries.extend((start..count.min(start + BLOCK)).map(|index| {
            let number = shuffled(index, count);
            let mut value = [0; VALUE_BYTES];
            fill(number, &mut value);
            (key(number), value)
        }));
        let watch = Watch::start();
        for (key, value) in &entries {
            trie.put(key, Box::from(value.as_slice())).map_err(full)?;
        }
        put.add(entries.len() as u64, &watch);
        step.at(start);
    }
    let mut random = Generator::from_seed(seed);
    let mut get = Round::default();
    let mut expected = [0; VALUE_BYTES];
    while get.operations < reads {
        let some = BLOCK.min(reads - get.operations);
        let numbers: Vec<u64> = (0..some).map(|_| random.below(count)).collect();
        let keys: Vec<Key> = numbers.iter().map(|number| key(*number)).collect();
        let mut values = Vec::with_capacity(keys.len());
        let watch = Watch::start();
        for key in &keys {
            // The value is copied, because db_bench copies it too.
            let mut copy = [0; VALUE_BYTES];
            if let Some(value) = trie.get(key) {
                copy.copy_from_slice(value);
            }
            values.push(black_box(copy));
        }
        get.add(some, &watch);
        for (number, value) in numbers.iter().zip(&values) {
            fill(*number, &mut expected);
            if expected != *value {
                return Err(BenchError::Wrong(format!(
                    "the bare trie has another value of {number}"
                )));
            }
        }
        step.at(count + get.operations);
    }
    Ok((put, get))
}
