//! Keys that are hard for a trie, and a model of the trie.
#![allow(dead_code, clippy::unwrap_used)]

pub mod naive;
pub mod steps;

use espalier_trie::cursor::{Cursor, Direction, Entries, PathReceiver, Position};
use espalier_trie::memory::InMemoryTrie;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Returns the configuration of a property with `cases` cases in a full run; a few under Miri.
pub fn config(cases: u32) -> ProptestConfig {
    let config = espalier_testing::properties(cases);
    if cfg!(miri) { ProptestConfig { cases: 6, ..config } } else { config }
}

pub type Model = BTreeMap<Vec<u8>, u32>;

pub fn model() -> impl Strategy<Value = Model> {
    prop::collection::btree_map(key(), any::<u32>(), 0..40)
}

pub fn direction() -> impl Strategy<Value = Direction> {
    prop::sample::select(&[Direction::Forward, Direction::Reverse][..])
}

pub fn trie(model: &Model) -> InMemoryTrie<u32> {
    let mut trie = InMemoryTrie::new();
    for (key, &value) in model {
        trie.put(key, value).unwrap();
    }
    trie
}

pub fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
    ]
}

pub fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &key[..])
}

/// Turns about half of the bounds into existing keys, or prefixes of some.
pub fn aim(bound: Bound<Vec<u8>>, keys: Vec<&Vec<u8>>, at: prop::sample::Index) -> Bound<Vec<u8>> {
    if keys.is_empty() || at.index(2) == 0 {
        return bound;
    }
    bound.map(|old| {
        let key = keys[at.index(keys.len())];
        if old.len() % 2 == 0 { key.clone() } else { key[..at.index(key.len() + 1)].to_vec() }
    })
}

/// Returns the entries of the model in the direction of a walk.
pub fn entries_of(model: &Model, direction: Direction) -> Vec<(Vec<u8>, u32)> {
    let entries = model.clone().into_iter();
    if direction.is_reverse() { entries.rev().collect() } else { entries.collect() }
}

pub fn entries_left<C: Cursor<Content = u32>>(entries: &mut Entries<C>) -> Vec<(Vec<u8>, u32)> {
    let mut list = Vec::new();
    while let Some((key, value)) = entries.next_entry() {
        list.push((key.to_vec(), value));
    }
    list
}

/// A cursor with contents by value.
#[derive(Clone)]
pub struct Copied<C>(pub C);

impl<'a, C: Cursor<Content = &'a u32>> Cursor for Copied<C> {
    type Content = u32;

    fn position(&self) -> Position {
        self.0.position()
    }

    fn content(&self) -> Option<u32> {
        self.0.content().copied()
    }

    fn advance(&mut self) -> Position {
        self.0.advance()
    }

    fn advance_multiple(&mut self, path: &mut dyn PathReceiver) -> Position {
        self.0.advance_multiple(path)
    }

    fn skip_children(&mut self) -> Position {
        self.0.skip_children()
    }

    fn skip_to(&mut self, target: Position) -> Position {
        self.0.skip_to(target)
    }

    fn skip_along(&mut self, path: &[u8]) -> usize {
        self.0.skip_along(path)
    }
}

/// Generates keys over alphabets from two bytes to all, prefixes of each other, and runs whose
/// lengths are about those of one to three chain blocks.
pub fn key() -> impl Strategy<Value = Vec<u8>> {
    let over = |alphabet: &'static [u8], length| {
        prop::collection::vec(prop::sample::select(alphabet), 0..length)
    };
    prop_oneof![
        4 => over(&[0x00, 0xFF], 6),
        4 => over(b"abc", 5),
        2 => over(b"abcdefghij", 3),
        2 => prop::collection::vec(any::<u8>(), 0..3),
        3 => long_chain(),
        1 => prop::collection::vec(any::<u8>(), 0..70),
    ]
}

/// Generates a run of one byte, mostly of a length at a block's edge, with at most one other byte
/// in or after the run.
fn long_chain() -> impl Strategy<Value = Vec<u8>> {
    let length = prop::sample::select(&[5, 22, 23, 24, 26, 27, 28, 53, 54, 55, 81][..]);
    (length, 0..60usize, prop::option::of(prop::sample::select(b"xyz".as_slice()))).prop_map(
        |(length, at, other)| {
            let mut key = vec![b'x'; length];
            if let Some(other) = other {
                let at = at.min(length);
                key.truncate(at.max(length.saturating_sub(at)));
                key.insert(at.min(key.len()), other);
            }
            key
        },
    )
}
