//! Support for the tests of the page-packed trie: a model, a builder, and a check of every node.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use espalier_trie::page::layout::MAX_PAYLOAD_SIZE;
use espalier_trie::page::{
    Cursor, Descent, FloorSearch, MemoryPages, Node, PAGE_SIZE, PageTrieWriter, PrefixSearch,
    Walker,
};

pub type Model = BTreeMap<Vec<u8>, (u8, Vec<u8>)>;

pub fn block_on<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("pages in memory are always ready"),
    }
}

/// A small deterministic generator (xorshift), so that a failing case can be run again.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.roll() >> 16) % bound
    }
}

/// Returns a payload that stores its own length, between 2 and the longest allowed.
pub fn payload(length: usize, fill: u8) -> Vec<u8> {
    let length = length.clamp(2, MAX_PAYLOAD_SIZE);
    let mut payload = vec![fill; length];
    payload[..2].copy_from_slice(&(length as u16).to_be_bytes());
    payload
}

pub fn payload_length(node: &Node<'_>) -> usize {
    if !node.has_payload() {
        return 0;
    }
    usize::from(u16::from_be_bytes([node.payload()[0], node.payload()[1]]))
}

/// Writes the model behind `base` zero bytes; returns the file and the root.
pub fn build(model: &Model, base: usize) -> (Vec<u8>, u64) {
    let mut file = vec![0; base];
    let mut writer = PageTrieWriter::new(base as u64);
    for (key, (bits, payload)) in model {
        writer.add(&mut file, key, *bits, payload).unwrap();
    }
    let root = writer.complete(&mut file).unwrap();
    assert_eq!(writer.position(), file.len() as u64);
    (file, root)
}

/// Returns the answer of a look-up: the payload's bits and bytes.
pub fn answer(
    walker: &mut Walker<MemoryPages<'_>>,
    position: Option<u64>,
) -> Option<(u8, Vec<u8>)> {
    let node = block_on(walker.node(position?)).unwrap();
    Some((node.payload_bits(), node.payload()[..payload_length(&node)].to_vec()))
}

/// Returns everything in the trie, by walking forward.
pub fn contents(file: &[u8], root: u64) -> Model {
    let mut cursor = Cursor::new(MemoryPages(file), root);
    let mut model = Model::new();
    let mut more = block_on(cursor.first()).unwrap();
    while more {
        let key = cursor.key().to_vec();
        assert!(model.last_key_value().is_none_or(|(last, _)| *last < key), "out of order");
        let node = block_on(cursor.node()).unwrap().unwrap();
        let entry = (node.payload_bits(), node.payload()[..payload_length(&node)].to_vec());
        model.insert(key, entry);
        more = block_on(cursor.next()).unwrap();
    }
    model
}

/// Walks all nodes. Checks that each node has one parent and is within one page, that each child is
/// before its parent, that transitions ascend, and that no nodes overlap. Returns the number of
/// nodes.
pub fn check_nodes(file: &[u8], root: u64) -> usize {
    check_nodes_with(file, root, payload_length)
}

pub fn check_nodes_with(file: &[u8], root: u64, payload_length: fn(&Node<'_>) -> usize) -> usize {
    let mut walker = Walker::new(MemoryPages(file));
    let mut waiting = vec![root];
    let mut seen = HashSet::new();
    let mut extents = Vec::new();
    while let Some(position) = waiting.pop() {
        assert!(seen.insert(position), "node {position} has two parents");
        let node = block_on(walker.node(position)).unwrap();
        let end = position as usize + node.body_size() + payload_length(&node);
        let page_end = (position as usize / PAGE_SIZE + 1) * PAGE_SIZE;
        assert!(end <= page_end, "node {position}..{end} crosses a page boundary");
        extents.push((position as usize, end));
        let mut previous = None;
        for slot in 0..node.slots() {
            if let Some(child) = node.child(slot).unwrap() {
                assert!(child < position);
                assert!(previous.is_none_or(|previous| previous < node.transition(slot)));
                previous = Some(node.transition(slot));
                waiting.push(child);
            }
        }
        assert!(node.slots() == 0 || node.child(0).unwrap().is_some(), "first slot empty");
    }
    extents.sort_unstable();
    for pair in extents.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "nodes overlap: {pair:?}");
    }
    seen.len()
}

/// Provides the pages of a descent from `file`. Returns the answer, which must be in the last page.
pub fn answer_of_descent(
    file: &[u8],
    mut page_number: u64,
    mut advance: impl FnMut(&[u8]) -> Descent,
) -> Option<(u8, Vec<u8>)> {
    loop {
        let start = page_number as usize * PAGE_SIZE;
        let page = &file[start..file.len().min(start + PAGE_SIZE)];
        match advance(page) {
            Descent::Page(next) => page_number = next,
            Descent::Payload(position) => {
                assert_eq!(position / PAGE_SIZE as u64, page_number, "it is on another page");
                let node = Node::at(page, position).unwrap();
                let payload = &node.payload()[..payload_length(&node)];
                return Some((node.payload_bits(), payload.to_vec()));
            }
            Descent::Nothing => return None,
        }
    }
}

/// Compares all kinds of look-up for `key` with the model.
pub fn check_lookups(file: &[u8], root: u64, model: &Model, key: &[u8]) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let mut walker = Walker::new(MemoryPages(file));
    let below = |bound| model.range::<[u8], _>((Unbounded, bound)).next_back();
    let above = |bound| model.range::<[u8], _>((bound, Unbounded)).next();
    let floor = below(Included(key));
    let ceiling = above(Included(key));
    let higher = above(Excluded(key));
    let prefix = (0..=key.len()).find_map(|length| model.get_key_value(&key[..length]));

    let found = block_on(walker.exact(root, key)).unwrap();
    assert_eq!(answer(&mut walker, found), model.get(key).cloned(), "exact {key:?}");
    for (name, found, expected) in [
        ("prefix", block_on(walker.prefix(root, key)), prefix),
        ("floor", block_on(walker.floor(root, key)), floor),
        ("ceiling", block_on(walker.ceiling(root, key)), ceiling),
        ("higher", block_on(walker.higher(root, key)), higher),
    ] {
        let expected = expected.map(|(_, payload)| payload.clone());
        assert_eq!(answer(&mut walker, found.unwrap()), expected, "{name} {key:?}");
    }
    let mut search = PrefixSearch::new(root, key);
    let found = answer_of_descent(file, search.page_number(), |page| search.advance(page).unwrap());
    assert_eq!(found, prefix.map(|(_, payload)| payload.clone()), "prefix by pages {key:?}");
    let mut search = FloorSearch::new(root, key);
    let found = answer_of_descent(file, search.page_number(), |page| search.advance(page).unwrap());
    assert_eq!(found, floor.map(|(_, payload)| payload.clone()), "floor by pages {key:?}");

    let mut cursor = Cursor::new(MemoryPages(file), root);
    let compare = |cursor: &Cursor<_>, expected: Option<(&Vec<u8>, _)>, name: &str| {
        let key_there = cursor.position().map(|_| cursor.key().to_vec());
        assert_eq!(key_there.as_ref(), expected.map(|(key, _)| key), "{name} {key:?}");
    };
    assert_eq!(block_on(cursor.seek_floor(key)).unwrap(), floor.is_some());
    compare(&cursor, floor, "seek_floor");
    if let Some((at, _)) = floor {
        block_on(cursor.next()).unwrap();
        compare(&cursor, above(Excluded(at)), "seek_floor, next");
    }
    assert_eq!(block_on(cursor.seek_ceiling(key)).unwrap(), ceiling.is_some());
    compare(&cursor, ceiling, "seek_ceiling");
    if let Some((at, _)) = ceiling {
        block_on(cursor.previous()).unwrap();
        compare(&cursor, below(Excluded(at)), "seek_ceiling, previous");
    }
    assert_eq!(block_on(cursor.seek_higher(key)).unwrap(), higher.is_some());
    compare(&cursor, higher, "seek_higher");
    block_on(cursor.seek_prefix_or_ceiling(key)).unwrap();
    compare(&cursor, prefix.or(ceiling), "seek_prefix_or_ceiling");
}

/// Compares iteration in both directions with the model.
pub fn check_iteration(file: &[u8], root: u64, model: &Model) {
    assert_eq!(&contents(file, root), model);
    let mut cursor = Cursor::new(MemoryPages(file), root);
    let mut keys = Vec::new();
    let mut more = block_on(cursor.last()).unwrap();
    while more {
        keys.push(cursor.key().to_vec());
        more = block_on(cursor.previous()).unwrap();
    }
    keys.reverse();
    assert!(keys.iter().eq(model.keys()), "backward");
}
