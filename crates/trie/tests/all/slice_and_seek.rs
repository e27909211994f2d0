//! Tests that slices hold the keys between their bounds, and that seeks skip to their targets.

use crate::common::{
    Copied, aim, borrowed, bound, direction, entries_left, entries_of, key, model, trie,
};
use espalier_trie::cursor::{Cursor, Slice, Union};
use proptest::prelude::*;
use std::ops::{Bound, RangeBounds};

proptest! {
    #![proptest_config(crate::common::config(1500))]

    #[test]
    fn slices_list_the_keys_within_their_bounds(
        model in model(),
        direction in direction(),
        left in bound(),
        right in bound(),
        at in any::<[prop::sample::Index; 2]>(),
    ) {
        let trie = trie(&model);
        let left = aim(left, model.keys().collect(), at[0]);
        let right = aim(right, model.keys().collect(), at[1]);
        let range = (left.clone(), right.clone());
        let inside: crate::common::Model = model
            .iter()
            .filter(|(key, _)| range.contains(*key))
            .map(|(key, value)| (key.clone(), *value))
            .collect();
        let cursor = Copied(trie.cursor(direction));
        let slice = Slice::new(cursor.clone(), borrowed(&left), borrowed(&right));
        let expected = entries_of(&inside, direction);
        prop_assert_eq!(&entries_left(&mut slice.into_entries()), &expected);

        // A slice of a slice, in single steps.
        let outer = Slice::new(cursor.clone(), borrowed(&left), Bound::Unbounded);
        let mut slice = Slice::new(outer, Bound::Unbounded, borrowed(&right));
        let (mut path, mut listed) = (Vec::new(), Vec::new());
        loop {
            path.truncate(slice.depth().saturating_sub(1));
            path.extend((slice.depth() > 0).then_some(slice.incoming_byte()));
            listed.extend(slice.content().map(|content| (path.clone(), content)));
            if slice.advance().is_exhausted() {
                break;
            }
        }
        prop_assert_eq!(&listed, &expected);
        prop_assert!(slice.advance().is_exhausted() && slice.skip_children().is_exhausted());
    }

    #[test]
    fn seeks_skip_the_keys_before_their_target(
        model in model(),
        direction in direction(),
        left in bound(),
        right in bound(),
        seeks in prop::collection::vec((0..6usize, key(), any::<prop::sample::Index>()), 1..8),
    ) {
        let trie = trie(&model);
        let range = (left.clone(), right.clone());
        let inside: crate::common::Model =
            model.clone().into_iter().filter(|(key, _)| range.contains(key)).collect();
        // The union of a slice with the rest of the trie is the trie again.
        let cursor = Copied(trie.cursor(direction));
        let slice = Slice::new(cursor.clone(), borrowed(&left), borrowed(&right));
        let union = Union::new(slice.clone(), cursor.clone(), |first, second| second.or(first));
        let mut all = [
            (cursor.into_entries().boxed(), entries_of(&model, direction)),
            (slice.into_entries().boxed(), entries_of(&inside, direction)),
            (union.into_entries().boxed(), entries_of(&model, direction)),
        ];
        for (entries, expected) in &mut all {
            for (count, key, at) in &seeks {
                for _ in 0..*count {
                    let next = entries.next_entry().map(|(key, value)| (key.to_vec(), value));
                    prop_assert_eq!(next, (!expected.is_empty()).then(|| expected.remove(0)));
                }
                let key = match model.keys().nth(at.index(2 * model.len() + 1)) {
                    Some(key) => key,
                    None => key,
                };
                entries.seek(key);
                let skipped = expected.iter().take_while(|(other, _)| {
                    if direction.is_reverse() { other > key } else { other < key }
                });
                let skipped = skipped.count();
                expected.drain(..skipped);
            }
            prop_assert_eq!(&entries_left(entries), expected);
        }
    }
}
