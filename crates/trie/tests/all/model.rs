//! Tests that the trie does what a `BTreeMap` does, through any sequence of operations, and loses
//! no block.

use crate::common::{Model, key};
use espalier_trie::cursor::Direction;
use espalier_trie::memory::{InMemoryTrie, Reader};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Operation {
    Put(Vec<u8>),
    Apply(Vec<u8>),
    Update(Vec<u8>),
    Remove(Vec<u8>),
    RemovePresent(usize),
    RemoveBranch(Vec<u8>),
    Branch(Vec<u8>, Vec<Vec<u8>>),
    AddReader,
    DropReader,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        12 => key().prop_map(Operation::Put),
        4 => key().prop_map(Operation::Apply),
        4 => key().prop_map(Operation::Update),
        3 => key().prop_map(Operation::Remove),
        6 => any::<usize>().prop_map(Operation::RemovePresent),
        1 => key().prop_map(Operation::RemoveBranch),
        2 => (key(), prop::collection::vec(key(), 1..8))
            .prop_map(|(prefix, suffixes)| Operation::Branch(prefix, suffixes)),
        1 => Just(Operation::AddReader),
        1 => Just(Operation::DropReader),
    ]
}

struct Pair {
    trie: InMemoryTrie<Box<u32>>,
    model: Model,
    readers: Vec<Reader<Box<u32>>>,
    count: u32,
}

impl Pair {
    fn run(&mut self, operation: &Operation) {
        self.count += 1;
        let count = self.count;
        match operation {
            Operation::Put(key) => {
                let replaced = self.trie.put(key, Box::new(count)).unwrap();
                assert_eq!(replaced, self.model.insert(key.clone(), count).is_some());
            }
            Operation::Apply(key) => {
                let change = |old: Option<&u32>| old.map_or(count, |old| old.wrapping_mul(31) + 1);
                let new = change(self.model.get(key));
                self.model.insert(key.clone(), new);
                let apply = |old: Option<&Box<u32>>| Box::new(change(old.map(|old| &**old)));
                self.trie.apply(key, apply).unwrap();
            }
            Operation::Update(key) => {
                let old = self.model.get_mut(key).map(|value| std::mem::replace(value, count));
                let update = |value: &mut Box<u32>| std::mem::replace(&mut **value, count);
                assert_eq!(self.trie.update(key, update).unwrap(), old);
            }
            Operation::Remove(key) => {
                let removed = self.trie.remove(key).unwrap();
                assert_eq!(removed, self.model.remove(key).is_some());
            }
            Operation::RemovePresent(at) => {
                if let Some(key) = self.model.keys().nth(at % self.model.len().max(1)).cloned() {
                    self.model.remove(&key);
                    assert!(self.trie.remove(&key).unwrap());
                }
            }
            Operation::RemoveBranch(prefix) => {
                let before = self.model.len();
                self.model.retain(|key, _| !key.starts_with(prefix));
                let removed = self.trie.remove_branch(prefix).unwrap();
                assert_eq!(removed, before != self.model.len());
            }
            Operation::Branch(prefix, suffixes) => {
                let mut branch = self.trie.descend(prefix);
                for suffix in suffixes {
                    let whole = [&prefix[..], suffix].concat();
                    let content = branch.get(suffix).map(|content| **content);
                    assert_eq!(content, self.model.get(&whole).copied());
                    branch.put(suffix, Box::new(count)).unwrap();
                    assert_eq!(branch.get(suffix).map(|content| **content), Some(count));
                    self.model.insert([&prefix[..], suffix].concat(), count);
                }
                let mut nested = branch.descend(&suffixes[0]);
                nested.put(b"nested", Box::new(count)).unwrap();
                self.model.insert([&prefix[..], &suffixes[0], b"nested"].concat(), count);
                branch.put(b"after", Box::new(count)).unwrap();
                self.model.insert([&prefix[..], b"after"].concat(), count);
            }
            Operation::AddReader => self.readers.push(self.trie.reader()),
            Operation::DropReader => {
                self.readers.pop();
            }
        }
    }

    fn check(&self) {
        self.trie.verify().unwrap();
        assert_eq!(self.trie.content_count(), self.model.len());
        let stats = self.trie.stats();
        assert_eq!(stats.contents(), self.model.len());
        assert_eq!(self.trie.used_bytes(), (stats.blocks() + stats.contents()) * 32);
        for (key, value) in &self.model {
            assert_eq!(self.trie.get(key).map(|value| **value), Some(*value), "{key:?}");
            for at in [0, key.len() / 2, key.len()] {
                let subtrie = self.trie.subtrie(&key[..at]);
                let nested = subtrie.subtrie(&key[at..]);
                assert_eq!(subtrie.get(&key[at..]).map(|value| **value), Some(*value));
                assert_eq!(nested.get(b"").map(|value| **value), Some(*value));
                let longer = [&key[at..], b"x"].concat();
                let expected = self.model.get(&[&key[..], b"x"].concat()).copied();
                assert_eq!(subtrie.get(&longer).map(|value| **value), expected);
            }
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut entries = self.trie.entries(direction);
            let mut listed = Vec::new();
            while let Some((key, value)) = entries.next_entry() {
                listed.push((key.to_vec(), **value));
            }
            let mut expected: Vec<_> = self.model.clone().into_iter().collect();
            if direction.is_reverse() {
                expected.reverse();
            }
            assert_eq!(listed, expected, "{direction:?}");
        }
    }
}

proptest! {
    #![proptest_config(crate::common::config(400))]

    #[test]
    fn random_operations_agree_with_a_map(
        operations in prop::collection::vec(operation(), 1..if cfg!(miri) { 30 } else { 150 }),
        absent in prop::collection::vec(key(), 20),
    ) {
        let trie = InMemoryTrie::new();
        let mut pair = Pair { trie, model: Model::new(), readers: Vec::new(), count: 0 };
        for (index, operation) in operations.iter().enumerate() {
            pair.run(operation);
            if index % 16 == 0 {
                pair.check();
            }
        }
        pair.check();
        for key in &absent {
            assert_eq!(pair.trie.get(key).map(|value| **value), pair.model.get(key).copied());
        }
        while let Some(key) = pair.model.keys().nth(pair.model.len() / 2).cloned() {
            pair.run(&Operation::Remove(key));
            pair.trie.verify().unwrap();
        }
        pair.check();
        assert_eq!(pair.trie.used_bytes(), 0);
        pair.readers.clear();
        assert_eq!(pair.trie.free_retired(u32::MAX), 0);
        assert_eq!(pair.trie.free_bytes(), pair.trie.allocated_bytes());
        pair.trie.verify().unwrap();
    }
}
