//! Tests that a trie after removals takes about as many blocks as if the removed keys had never
//! been.

use crate::common::{Model, config, key};
use espalier_trie::memory::InMemoryTrie;
use proptest::prelude::*;

const LONG: usize = if cfg!(miri) { 60 } else { 2048 };

fn long_key() -> Vec<u8> {
    (0..LONG).map(|index| (index % 251) as u8).collect()
}

/// Puts the long key and others, removes the others in the order that `at` gives, and compares with
/// the long key alone.
fn assert_no_fragments(others: &[Vec<u8>], at: impl Fn(usize) -> usize) {
    let mut trie = InMemoryTrie::new();
    trie.put(&long_key(), 0).unwrap();
    let alone = trie.stats().blocks();
    for other in others {
        trie.put(other, 1).unwrap();
    }
    for index in 0..others.len() {
        assert!(trie.remove(&others[at(index)]).unwrap());
        trie.verify().unwrap();
    }
    assert_eq!(trie.get(&long_key()), Some(&0));
    let blocks = trie.stats().blocks();
    assert!(blocks <= 2 * alone, "{blocks} blocks for what {alone} hold");
}

#[test]
fn prefixes_that_go_leave_whole_chains() {
    let prefixes: Vec<Vec<u8>> = (0..LONG).map(|length| long_key()[..length].to_vec()).collect();
    assert_no_fragments(&prefixes, |index| index);
    assert_no_fragments(&prefixes, |index| LONG - 1 - index);
    // A stride that is prime to the count.
    assert_no_fragments(&prefixes, |index| index * 37 % LONG);
    let odd: Vec<_> = prefixes.iter().skip(1).step_by(2).cloned().collect();
    assert_no_fragments(&odd, |index| index);
}

#[test]
fn branches_that_go_leave_whole_chains() {
    let branches = |step| {
        let at = (0..LONG).step_by(step);
        at.map(|length| [&long_key()[..length], &[0xFF]].concat()).collect::<Vec<_>>()
    };
    for step in [1, 2, 5] {
        let branches = branches(step);
        let count = branches.len();
        assert_no_fragments(&branches, |index| index);
        assert_no_fragments(&branches, |index| count - 1 - index);
    }
}

proptest! {
    #![proptest_config(config(300))]

    /// Any keys, some of which are removed.
    #[test]
    fn a_trie_after_removals_is_about_as_small_as_a_new_one(
        keys in prop::collection::btree_map(key(), any::<bool>(), 1..150),
    ) {
        let mut trie = InMemoryTrie::new();
        for key in keys.keys() {
            trie.put(key, 1).unwrap();
        }
        let mut left = Model::new();
        for (key, &stays) in &keys {
            if stays {
                left.insert(key.clone(), 1);
            } else {
                trie.remove(key).unwrap();
            }
        }
        trie.verify().unwrap();
        let (blocks, anew) = (trie.stats().blocks(), crate::common::trie(&left).stats().blocks());
        // Array nodes shrink late on purpose: 17 children may still have 8 blocks, and 5 children 4
        // blocks.
        prop_assert!(blocks <= 2 * anew + 4 * trie.stats().arrays, "{blocks} blocks, {anew} anew");
    }
}
