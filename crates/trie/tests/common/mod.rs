//! Keys that are unkind to a trie, and a model of it.
#![allow(dead_code)]

use proptest::prelude::*;
use std::collections::BTreeMap;

pub type Model = BTreeMap<Vec<u8>, u32>;

/// Keys over alphabets from two bytes to all, prefixes of each other, and runs whose lengths are
/// about those of one and two chain blocks.
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

/// A run of one byte, of a length at a block's edge, with at most one other byte in or after it.
fn long_chain() -> impl Strategy<Value = Vec<u8>> {
    let length = prop::sample::select(&[5, 22, 23, 24, 27, 28, 29, 55, 56, 57, 84][..]);
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
