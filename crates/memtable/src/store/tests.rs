//! Tests all kinds against an ordered map, with shuffled histories: writes, transactions,
//! snapshots, seeks both ways.

use std::collections::BTreeMap;

use espalier_runtime::{ShardContext, random::Generator};
use espalier_trie::cursor::Direction;

use super::{
    super::{MemtableBudget, MemtableKind, Structure, content::Content},
    Entries, Store, StoreSnapshot,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KINDS: [MemtableKind; 5] = [
    MemtableKind { structure: Structure::Trie, shards: 1 },
    MemtableKind { structure: Structure::SkipList, shards: 1 },
    MemtableKind { structure: Structure::Trie, shards: 4 },
    MemtableKind { structure: Structure::SkipList, shards: 4 },
    MemtableKind { structure: Structure::SkipList, shards: 3 },
];

/// The number of partitions. The first half are written by single writes, which snapshots do not
/// support.
const PARTITIONS: u64 = 24;

struct History {
    store: Store,
    model: Model,
    random: Generator,
    snapshots: Vec<(StoreSnapshot, Model)>,
}

/// Returns the path of a partition. Some share a token, some have keys too long for a node of a
/// skip list.
fn partition(number: u64) -> Vec<u8> {
    let token = (number / 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut path = vec![0x40];
    path.extend_from_slice(&token.to_be_bytes());
    path.push(0x40);
    path.extend(std::iter::repeat_n(0x61, if number.is_multiple_of(3) { 40 } else { 3 }));
    path.extend_from_slice(&[number as u8, 0x38]);
    path
}

fn bytes(content: &Content) -> Vec<u8> {
    content.row_bytes().unwrap_or_default().to_vec()
}

/// Returns the rest of a walk.
fn all(mut entries: Entries<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some((key, content)) = entries.next_entry() {
        all.push((key.to_vec(), bytes(content)));
    }
    all
}

/// Returns the entries of the model below a prefix.
fn below(model: &Model, prefix: &[u8]) -> Model {
    let from = model.range(prefix.to_vec()..);
    let with_prefix = from.map_while(|(key, value)| {
        key.strip_prefix(prefix).map(|suffix| (suffix.to_vec(), value.clone()))
    });
    with_prefix.collect()
}

/// Returns the entries of a walk over the model from `from` on.
fn walk(model: &Model, direction: Direction, from: Option<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
    match direction {
        Direction::Forward => model.range(from.unwrap_or_default().to_vec()..).map(owned).collect(),
        Direction::Reverse => match from {
            Some(from) => model.range(..=from.to_vec()).rev().map(owned).collect(),
            None => model.iter().rev().map(owned).collect(),
        },
    }
}

impl History {
    fn new(kind: MemtableKind, core: usize, cores: usize, seed: u64) -> Self {
        Self {
            store: Store::new(
                kind,
                ShardContext { index: core, count: cores },
                &MemtableBudget::new(0, 0),
            ),
            model: Model::new(),
            random: Generator::from_seed(seed),
            snapshots: Vec::new(),
        }
    }

    fn suffix(&mut self) -> Vec<u8> {
        let length = self.random.below(4) as usize;
        (0..length).map(|_| [0x00, 0x40, 0x41, 0xFF][self.random.below(4) as usize]).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        let length = if self.random.below(4) == 0 { 100 } else { 8 };
        let byte = self.random.below(256) as u8;
        vec![byte; length]
    }

    fn put(&mut self) {
        let mut key = partition(self.random.below(PARTITIONS / 2));
        key.extend(self.suffix());
        let value = self.value();
        let content = Content::row(&[], &value);
        let old = self.store.put_with(&key, |old| (content, old.map(bytes))).unwrap();
        assert_eq!(old, self.model.insert(key, value));
    }

    fn transaction(&mut self) {
        let prefix = partition(PARTITIONS / 2 + self.random.below(PARTITIONS / 2));
        let changes: Vec<_> = (0..self.random.below(6))
            .map(|_| {
                let (suffix, is_removal) = (self.suffix(), self.random.below(3) == 0);
                (suffix, (!is_removal).then(|| self.value()))
            })
            .collect();
        let root = self.value();
        let mut transaction = self.store.transaction(&prefix);
        // A transaction does not remove the only content of a partition, so there is always another
        // one.
        let had_root = transaction.put(&[], Content::row(&[], &root)).unwrap();
        assert_eq!(had_root, self.model.insert(prefix.clone(), root).is_some());
        for (suffix, value) in changes {
            let key = [prefix.as_slice(), &suffix].concat();
            assert_eq!(transaction.get(&suffix).map(bytes).as_ref(), self.model.get(&key));
            match value {
                Some(value) => {
                    let content = Content::row(&[], &value);
                    let old = transaction.put_with(&suffix, |old| (content, old.map(bytes)));
                    assert_eq!(old.unwrap(), self.model.insert(key, value));
                }
                None if suffix.is_empty() => {}
                None => {
                    let was_there = self.model.remove(&key).is_some();
                    assert_eq!(transaction.remove(&suffix).unwrap(), was_there);
                }
            }
        }
        let now = all(transaction.subtrie().entries(Direction::Forward));
        assert_eq!(now, walk(&below(&self.model, &prefix), Direction::Forward, None));
    }

    fn snapshot(&mut self) {
        let prefix = partition(PARTITIONS / 2 + self.random.below(PARTITIONS / 2));
        let snapshot = self.store.snapshot(&prefix);
        self.snapshots.push((snapshot, below(&self.model, &prefix)));
    }

    fn drop_snapshot(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let index = self.random.below(self.snapshots.len() as u64) as usize;
        drop(self.snapshots.swap_remove(index));
        self.store.free_retired(self.random.below(8) as u32);
    }

    fn direction(&mut self) -> Direction {
        match self.random.below(2) {
            0 => Direction::Forward,
            _ => Direction::Reverse,
        }
    }

    fn check_snapshots(&mut self) {
        let (direction, from) = (self.direction(), self.suffix());
        for (snapshot, model) in &self.snapshots {
            let view = snapshot.subtrie(&self.store);
            assert_eq!(all(view.entries(direction)), walk(model, direction, None));
            let mut entries = view.entries(direction);
            entries.seek(&from);
            assert_eq!(all(entries), walk(model, direction, Some(&from)));
            assert_eq!(view.get(&from).map(bytes).as_ref(), model.get(&from));
            let branch = view.subtrie(&[0x40]);
            assert_eq!(
                all(branch.entries(direction)),
                walk(&below(model, &[0x40]), direction, None)
            );
        }
    }

    fn check_walk(&mut self) {
        let direction = self.direction();
        let mut entries = self.store.entries(direction);
        let mut expected = walk(&self.model, direction, None);
        // Some seeks, each behind the last, with steps between them.
        for _ in 0..self.random.below(4) {
            let mut from = partition(self.random.below(PARTITIONS));
            from.extend((0..self.random.below(3)).map(|_| self.random.below(256) as u8));
            from.truncate(self.random.below(30) as usize);
            if direction == Direction::Forward || !from.is_empty() {
                entries.seek(&from);
                expected.retain(|(key, _)| match direction {
                    Direction::Forward => *key >= from,
                    Direction::Reverse => *key <= from,
                });
            }
            for _ in 0..self.random.below(3) {
                let next = (!expected.is_empty()).then(|| expected.remove(0));
                let found = entries.next_entry();
                assert_eq!(found.map(|(key, content)| (key.to_vec(), bytes(content))), next);
            }
        }
        assert_eq!(all(entries), expected);
    }

    fn check_get(&mut self) {
        let mut key = partition(self.random.below(PARTITIONS));
        key.extend(self.suffix());
        assert_eq!(self.store.get(&key).map(bytes).as_ref(), self.model.get(&key));
    }

    fn check_counts(&self) {
        let store = &self.store;
        assert_eq!(store.content_count(), self.model.len());
        assert_eq!(store.is_empty(), self.model.is_empty());
        assert_eq!(store.has_readers(), !self.snapshots.is_empty());
        assert!(store.memory_bytes() >= store.used_bytes() + store.retired_bytes());
        assert!(store.used_bytes() >= 32 * self.model.len());
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..30 => self.put(),
            30..70 => self.transaction(),
            70..74 if self.snapshots.len() < 6 => self.snapshot(),
            70..76 => self.drop_snapshot(),
            76..82 => self.check_snapshots(),
            82..86 => self.check_walk(),
            86..98 => self.check_get(),
            _ => self.check_counts(),
        }
    }

    fn end(&mut self) {
        self.check_snapshots();
        self.snapshots.clear();
        while self.store.retired_bytes() > 0 {
            let before = self.store.retired_bytes();
            assert!(self.store.free_retired(16) < before, "{before} bytes stay retired");
        }
        self.check_counts();
        let there_is = all(self.store.entries(Direction::Forward));
        assert_eq!(there_is, walk(&self.model, Direction::Forward, None));
    }
}

#[test]
fn every_kind_is_an_ordered_map_with_snapshots() {
    for (index, kind) in KINDS.into_iter().enumerate() {
        for seed in 0..4 {
            let mut history = History::new(kind, index % 2, 2, seed);
            for _ in 0..5_000 {
                history.step();
            }
            history.end();
        }
    }
}

#[test]
fn removals_without_readers_free_memory_at_once() {
    let mut store =
        Store::new(KINDS[1], ShardContext { index: 0, count: 1 }, &MemtableBudget::new(0, 0));
    let prefix = partition(1);
    for round in 0..3 {
        let mut transaction = store.transaction(&prefix);
        for number in 0..1000_u32 {
            let key = number.to_be_bytes();
            transaction.put(&key, Content::row(&[], &key)).unwrap();
        }
        for number in 0..1000_u32 {
            assert!(transaction.remove(&number.to_be_bytes()).unwrap(), "{round} {number}");
        }
        drop(transaction);
        assert_eq!((store.used_bytes(), store.content_count()), (0, 0));
    }
    // The slots were reused: those of a thousand contents, no more than doubled.
    assert!(store.memory_bytes() < 2 * 1000 * 32 + 4 * 1024 + 1024, "{}", store.memory_bytes());
}

#[test]
fn a_change_that_panics_changes_nothing() {
    for kind in KINDS {
        let mut store =
            Store::new(kind, ShardContext { index: 0, count: 1 }, &MemtableBudget::new(0, 0));
        let (one, other) = (partition(1), partition(2));
        let change = || store.put_with::<()>(&one, |_| panic!("as intended"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(change)).is_err());
        let put = store.put_with(&other, |old| (Content::row(&[], b"v"), old.is_some()));
        assert_eq!(put, Ok(false));
        assert!(store.get(&one).is_none(), "{kind:?}: the slot holds another key's content");
        assert_eq!(store.get(&other).map(bytes), Some(b"v".to_vec()));
        assert_eq!(all(store.entries(Direction::Forward)).len(), 1);
    }
}

/// Blocks that readers retain are not free for a trie that comes near its end.
#[test]
fn blocks_retained_by_readers_count_as_used_in_the_fullest_trie() {
    let mut store =
        Store::new(KINDS[0], ShardContext { index: 0, count: 1 }, &MemtableBudget::new(0, 0));
    let prefix = partition(1);
    store.transaction(&prefix).put(b"k", Content::row(&[], b"v")).unwrap();
    let snapshot = store.snapshot(&prefix);
    for _ in 0..1000 {
        store.transaction(&prefix).put(b"k", Content::row(&[], b"v")).unwrap();
    }
    assert!(store.fullest_bytes() >= 1000 * 32, "{}", store.fullest_bytes());
    drop(snapshot);
    store.free_retired(u32::MAX);
    assert!(store.fullest_bytes() < 1000, "{}", store.fullest_bytes());
}

#[test]
fn shards_are_filled_evenly_and_the_fullest_counts() {
    for cores in [1, 3] {
        let kind = MemtableKind { structure: Structure::Trie, shards: 4 };
        let core = ShardContext { index: cores - 1, count: cores };
        let mut store = Store::new(kind, core, &MemtableBudget::new(0, 0));
        let first = (u64::MAX / cores as u64) * (cores as u64 - 1);
        for number in 0..4000_u64 {
            let token = first + number * (u64::MAX / cores as u64 / 4001);
            let key = [&[0x40][..], &token.to_be_bytes(), b"k"].concat();
            store.put_with(&key, |_| (Content::row(&[], b"v"), ())).unwrap();
        }
        let used = store.used_bytes();
        assert!(store.fullest_bytes() < used / 3, "{} of {used}", store.fullest_bytes());
        assert!(store.fullest_bytes() >= used / 4);
    }
}
