//! Tests that every cursor takes every step as the naive one does.

use crate::common::naive::Naive;
use crate::common::steps::{Step, compare, step};
use crate::common::{Copied, Model, aim, borrowed, bound, direction, key, model, trie};
use espalier_trie::cursor::{Cursor, Direction, Singleton, Slice, Union, UnionMany};
use proptest::prelude::*;
use std::ops::Bound;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..120)
}

fn all_advances() -> Vec<Step> {
    vec![Step::Advance; 4000]
}

fn xor(first: Option<u32>, second: Option<u32>) -> Option<u32> {
    Some(first.unwrap_or(0) ^ second.unwrap_or(0))
}

/// Returns true if a union lists the root twice: an empty trie lists a root of its own, which the
/// naive cursor over the union does not.
fn lists_root_twice(models: &[Model]) -> bool {
    models.iter().any(Model::is_empty) && union(models).keys().all(Vec::is_empty)
}

/// Returns the union of models, with the contents of a key xored, so that order and repetition
/// would show.
fn union(models: &[Model]) -> Model {
    let mut union = Model::new();
    for (key, value) in models.iter().flatten() {
        *union.entry(key.clone()).or_default() ^= value;
    }
    union
}

proptest! {
    #![proptest_config(crate::common::config(500))]

    #[test]
    fn cursors_of_a_memory_trie_agree_with_a_model(model in model(), direction in direction(), steps in steps()) {
        let trie = trie(&model);
        let naive = Naive::new(&model, direction);
        compare(Copied(trie.cursor(direction)), naive.clone(), &steps);
        compare(Copied(trie.cursor(direction)), naive, &all_advances());
    }

    #[test]
    fn cursors_of_a_branch_agree_with_a_model(
        model in model(),
        prefix in key(),
        cut in any::<prop::sample::Index>(),
        direction in direction(),
        steps in steps(),
    ) {
        let trie = trie(&model);
        // Half of the prefixes are the beginnings of keys.
        let prefix = match model.keys().nth(cut.index(model.len().max(1))) {
            Some(key) if prefix.len() % 2 == 0 => &key[..cut.index(key.len() + 1)],
            _ => &prefix[..],
        };
        let below = model.iter().filter_map(|(key, value)| {
            Some((key.strip_prefix(prefix)?.to_vec(), *value))
        });
        let naive = Naive::new(&below.collect(), direction);
        compare(Copied(trie.cursor_from(prefix, direction)), naive, &steps);
    }

    #[test]
    fn cursors_of_a_slice_agree_with_a_model(
        model in model(),
        direction in direction(),
        bounds in [bound(), bound()],
        at in any::<[prop::sample::Index; 2]>(),
        steps in steps(),
    ) {
        let trie = trie(&model);
        let [left, right] = bounds;
        let left = aim(left, model.keys().collect(), at[0]);
        let right = aim(right, model.keys().collect(), at[1]);
        let (left, right) = (borrowed(&left), borrowed(&right));
        let naive = Naive::new(&model, direction).sliced(left, right);
        let slice = || Slice::new(Copied(trie.cursor(direction)), left, right);
        compare(slice(), naive.clone(), &all_advances());
        compare(slice(), naive, &steps);
    }

    #[test]
    fn cursors_of_a_singleton_agree_with_a_model(key in key(), direction in direction(), steps in steps()) {
        let naive = Naive::new(&Model::from([(key.clone(), 7)]), direction);
        compare(Singleton::new(direction, &key, 7), naive, &steps);
    }

    #[test]
    fn cursors_of_a_union_agree_with_a_model(
        models in [model(), model()],
        direction in direction(),
        steps in steps(),
    ) {
        prop_assume!(!lists_root_twice(&models));
        let [first, second] = [trie(&models[0]), trie(&models[1])];
        let cursor = || Union::new(
            Copied(first.cursor(direction)),
            Copied(second.cursor(direction)),
            xor,
        );
        let naive = Naive::new(&union(&models), direction);
        compare(cursor(), naive.clone(), &steps);
        compare(cursor(), naive, &all_advances());
    }

    #[test]
    fn cursors_of_a_union_of_many_agree_with_a_model(
        models in prop::collection::vec(model(), 1..7),
        direction in direction(),
        steps in steps(),
    ) {
        prop_assume!(!lists_root_twice(&models));
        let tries: Vec<_> = models.iter().map(trie).collect();
        let cursors = tries.iter().map(|trie| Copied(trie.cursor(direction)));
        let xor_all = |contents: &mut dyn Iterator<Item = u32>| contents.reduce(|a, b| a ^ b);
        let cursor = UnionMany::new(direction, cursors, xor_all);
        compare(cursor, Naive::new(&union(&models), direction), &steps);
    }

    #[test]
    fn cursors_of_a_union_of_slice_and_box_agree_with_a_model(
        models in [model(), model()],
        direction in direction(),
        steps in steps(),
    ) {
        prop_assume!(!lists_root_twice(&models));
        // A slice without bounds is the whole walk.
        let [first, second] = [trie(&models[0]), trie(&models[1])];
        let slice = Slice::new(
            Copied(first.cursor(direction)), Bound::Unbounded, Bound::Unbounded);
        let boxed: Box<dyn Cursor<Content = u32> + '_> = Box::new(Copied(second.cursor(direction)));
        let cursor = Union::new(slice, boxed, xor);
        compare(cursor, Naive::new(&union(&models), direction), &steps);
    }
}

#[test]
fn an_exhausted_cursor_stays_so() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let trie = trie(&Model::from([(b"key".to_vec(), 1)]));
        let mut cursor = trie.cursor(direction);
        while !cursor.advance().is_exhausted() {}
        assert!(cursor.advance().is_exhausted());
        assert!(cursor.skip_children().is_exhausted());
        assert!(cursor.advance_multiple(&mut ()).is_exhausted());
        assert_eq!(cursor.content(), None);
    }
}
