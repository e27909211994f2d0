//! Tests random tries against a sorted map.

use crate::page_support::*;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// Generates keys that share prefixes of all lengths: a few letters, sometimes behind a long stem.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![4 => 0x40_u8..0x43, 1 => any::<u8>()];
    let stem = prop_oneof![
        8 => Just(Vec::new()),
        1 => Just(vec![7; 2048]),
        1 => (1_usize..6000).prop_map(|length| vec![9; length]),
    ];
    (stem, vec(letter, 0..12)).prop_map(|(mut stem, tail)| {
        stem.extend(tail);
        stem
    })
}

fn entry() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let length = prop_oneof![6 => 2_usize..20, 1 => 2_usize..2044];
    (1_u8..16, length, any::<u8>()).prop_map(|(bits, length, fill)| (bits, payload(length, fill)))
}

proptest! {
    #![proptest_config(espalier_testing::properties(96))]

    #[test]
    fn agrees_with_a_sorted_map(
        model in btree_map(key(), entry(), 1..200),
        others in vec(key(), 0..60),
        base in 0_usize..10_000,
    ) {
        let (file, root) = build(&model, base);
        check_nodes(&file, root);
        check_iteration(&file, root, &model);
        for key in model.keys().chain(&others) {
            check_lookups(&file, root, &model, key);
        }
    }

    #[test]
    fn dense_levels_agree_with_a_sorted_map(
        model in btree_map(vec(any::<u8>(), 1..3), entry(), 1000..3000),
        others in vec(vec(any::<u8>(), 0..4), 100),
    ) {
        let (file, root) = build(&model, 0);
        check_nodes(&file, root);
        check_iteration(&file, root, &model);
        for key in &others {
            check_lookups(&file, root, &model, key);
        }
    }
}

#[test]
fn tries_follow_one_another_in_a_file() {
    let mut file = Vec::new();
    let mut writer = espalier_trie::page::PageTrieWriter::new(0);
    let mut dice = Dice(77);
    let mut tries = Vec::new();
    for _ in 0..50 {
        let mut model = Model::new();
        for _ in 0..1 + dice.below(100) {
            let key = (0..dice.below(6)).map(|_| dice.below(4) as u8).collect();
            model.insert(key, (1 + dice.below(15) as u8, payload(dice.below(300) as usize, 3)));
        }
        for (key, (bits, payload)) in &model {
            writer.add(&mut file, key, *bits, payload).unwrap();
        }
        let root = writer.complete(&mut file).unwrap();
        tries.push((root, model));
        let between = dice.below(200);
        file.resize(file.len() + between as usize, 0xAB);
        writer.skip(between);
    }
    for (root, model) in &tries {
        check_nodes(&file, *root);
        check_iteration(&file, *root, model);
    }
}
