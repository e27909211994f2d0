//! One history of a million operations (300,000 in `make test`) against an ordered map: the trie
//! grows to tens of thousands of keys and shrinks again (once in `make test`, several times in
//! `make nightly`), while readers and snapshots come and go. This uses each kind of node and free
//! block many times. `HISTORY_SEED` and `HISTORY_OPERATIONS` set the seed and the length, which the
//! test prints.

use std::collections::BTreeMap;
use std::ops::Bound;

use espalier_trie::cursor::Direction;
use espalier_trie::memory::{InMemoryTrie, Reader, Snapshot};

type Model = BTreeMap<Vec<u8>, u64>;

/// Number of operations between two checks of everything.
const PER_CHECK: u64 = 100_000;
/// Number of operations for which the trie grows, and then for which it shrinks.
const PER_TIDE: u64 = 150_000;
const PARTITIONS: u64 = 40;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

struct History {
    trie: InMemoryTrie<Box<u64>>,
    model: Model,
    readers: Vec<Reader<Box<u64>>>,
    snapshots: Vec<(Snapshot<Box<u64>>, Model)>,
    dice: Dice,
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

impl History {
    /// Returns a key outside of all partitions, and so of all snapshots.
    fn single_key(&mut self) -> Vec<u8> {
        let number = self.dice.below(60_000);
        let mut key = vec![b's'];
        match self.dice.below(4) {
            // Like tokens: they part early and share nothing after that.
            0 => {
                let token = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                key.extend_from_slice(&token.to_be_bytes());
                key.extend_from_slice(&number.to_be_bytes());
            }
            // Dense: nodes become wide, and narrow again.
            1 => key.extend_from_slice(&(number as u16).to_be_bytes()),
            // Long common prefixes.
            2 => {
                key.push(0xff);
                key.extend([b'x'; 300]);
                key.extend_from_slice(&(number as u32 % 5000).to_be_bytes());
            }
            // Some keys are prefixes of others.
            _ => key.extend((0..self.dice.below(7)).map(|at| (number >> (2 * at)) as u8 & 3)),
        }
        key
    }

    fn partition(&mut self) -> Vec<u8> {
        vec![b'p', self.dice.below(PARTITIONS) as u8 * 5, b'/']
    }

    fn present_key(&mut self) -> Option<Vec<u8>> {
        let near = self.single_key();
        let after = self.model.range((Bound::Included(near), Bound::Unbounded)).next();
        after.map(|(key, _)| key.clone()).filter(|key| key[0] == b's')
    }

    fn step(&mut self, number: u64) {
        let grows = (number / PER_TIDE).is_multiple_of(2);
        match self.dice.below(100) {
            0..30 if grows => self.put(number),
            0..8 => self.put(number),
            8..50 => self.remove_present(),
            50..60 => {
                let key = self.single_key();
                let update = |old: &mut Box<u64>| std::mem::replace(&mut **old, number);
                let old = self.model.get_mut(&key).map(|old| std::mem::replace(old, number));
                assert_eq!(self.trie.update(&key, update).unwrap(), old);
            }
            60..75 => {
                let key = self.single_key();
                let found = self.trie.get(&key).map(|content| **content);
                assert_eq!(found, self.model.get(&key).copied(), "{key:?}");
            }
            75..93 => self.transact(number, grows),
            93..95 => {
                let partition = self.partition();
                let below = self.below(&partition);
                self.snapshots.push((self.trie.snapshot(&partition), below));
            }
            95..98 => {
                if !self.snapshots.is_empty() {
                    let at = self.dice.below(self.snapshots.len() as u64) as usize;
                    let (snapshot, model) = self.snapshots.swap_remove(at);
                    compare(snapshot.subtrie().entries(Direction::Forward), model.iter());
                }
            }
            98 => self.readers.push(self.trie.reader()),
            _ => {
                self.readers.truncate(3);
                self.readers.pop();
            }
        }
        if self.snapshots.len() > 30 {
            self.snapshots.remove(0);
        }
    }

    fn put(&mut self, number: u64) {
        let key = self.single_key();
        let replaced = self.trie.put(&key, Box::new(number)).unwrap();
        assert_eq!(replaced, self.model.insert(key, number).is_some());
    }

    fn remove_present(&mut self) {
        let Some(key) = self.present_key() else { return };
        self.model.remove(&key).unwrap();
        assert!(self.trie.remove(&key).unwrap());
    }

    fn transact(&mut self, number: u64, grows: bool) {
        let prefix = self.partition();
        let mut transaction = self.trie.transaction(&prefix);
        for _ in 0..1 + self.dice.below(6) {
            let row = self.dice.below(3000);
            let suffix = match row % 3 {
                0 => (row as u16).to_be_bytes().to_vec(),
                1 => [&[b'y'; 40][..], &row.to_be_bytes()].concat(),
                _ => row.to_le_bytes()[..3].to_vec(),
            };
            let key = [&prefix[..], &suffix].concat();
            if self.dice.below(10) < if grows { 7 } else { 3 } {
                transaction.put(&suffix, Box::new(number)).unwrap();
                self.model.insert(key, number);
            } else {
                let removed = transaction.remove(&suffix).unwrap();
                assert_eq!(removed, self.model.remove(&key).is_some());
            }
        }
    }

    fn below(&self, prefix: &[u8]) -> Model {
        let keys = self.model.range(prefix.to_vec()..);
        let keys = keys.take_while(|(key, _)| key.starts_with(prefix));
        keys.map(|(key, value)| (key[prefix.len()..].to_vec(), *value)).collect()
    }

    fn check(&self) {
        self.trie.verify().unwrap();
        assert_eq!(self.trie.content_count(), self.model.len());
        compare(self.trie.entries(Direction::Forward), self.model.iter());
        compare(self.trie.entries(Direction::Reverse), self.model.iter().rev());
        for (key, value) in self.model.iter().step_by(7) {
            assert_eq!(self.trie.get(key).map(|content| **content), Some(*value), "{key:?}");
        }
        for (snapshot, model) in &self.snapshots {
            compare(snapshot.subtrie().entries(Direction::Reverse), model.iter().rev());
        }
    }
}

fn compare<'a, C: espalier_trie::cursor::Cursor<Content = &'a Box<u64>>>(
    mut entries: espalier_trie::cursor::Entries<C>,
    mut model: impl Iterator<Item = (&'a Vec<u8>, &'a u64)>,
) {
    while let Some((key, content)) = entries.next_entry() {
        assert_eq!(Some((key, **content)), model.next().map(|(key, value)| (&key[..], *value)));
    }
    assert_eq!(model.next(), None);
}

#[test]
#[cfg_attr(miri, ignore = "a million operations; model.rs has short histories")]
fn a_long_history_agrees_with_a_map_and_returns_all_memory() {
    let seed = setting("HISTORY_SEED", 1);
    let default = if espalier_testing::runs_all() { 1_000_000 } else { 300_000 };
    let operations = setting("HISTORY_OPERATIONS", default);
    println!("HISTORY_SEED={seed} HISTORY_OPERATIONS={operations}");
    let mut history = History {
        trie: InMemoryTrie::new(),
        model: Model::new(),
        readers: Vec::new(),
        snapshots: Vec::new(),
        dice: Dice(seed),
    };
    let mut most = 0;
    for number in 0..operations {
        history.step(number);
        if number % PER_CHECK == 0 {
            history.check();
            most = most.max(history.model.len());
        }
    }
    history.check();
    println!("{most} keys at the most, {} in the end", history.model.len());
    assert!(operations < 1_000_000 || most > 20_000, "{most}");

    history.snapshots.clear();
    history.readers.clear();
    for key in history.model.keys() {
        assert!(history.trie.remove(key).unwrap());
    }
    assert!(history.trie.is_empty());
    assert_eq!(history.trie.free_retired(u32::MAX), 0);
    assert_eq!(history.trie.used_bytes(), 0);
    assert_eq!(history.trie.free_bytes(), history.trie.allocated_bytes());
}
