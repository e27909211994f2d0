//! Prefetches the nodes of several keys side by side, before they are looked up.
//!
//! A look-up among millions of keys waits for memory at each node, because only the node contains
//! the pointer to the next one. The look-ups of several keys do not depend on one another. They
//! take turns: each makes a step and prefetches its next node, which arrives while the others make
//! their steps. The only effect is that later look-ups find their nodes in the processor's cache.
//! (Lineage: S. Chen et al., "Improving Hash Join Performance through Prefetching", ACM TODS 32(3),
//! 2007.)

use super::{node::Node, pointer::Pointer, trie::InMemoryTrie, view::View};

/// Number of keys that are prefetched together (arbitrary): a little more than the number of cache
/// lines that a processor fetches at the same time.
pub const LOOK_AHEAD_KEYS: usize = 16;

/// Maximum number of steps of a descent. Most descents take a fourth of that.
const MAX_STEPS: usize = 64;

/// The state of a descent; it is over if the pointer is none.
#[derive(Clone, Copy)]
struct Descent<'key> {
    pointer: Pointer,
    rest: &'key [u8],
}

impl<C> InMemoryTrie<C> {
    /// Prefetches the memory that a look-up of these keys reads, for at most [`LOOK_AHEAD_KEYS`] of
    /// them. Calls `met` with the number and the content of each key that has one, except keys
    /// whose paths take more than 64 steps.
    pub fn look_ahead<'key>(
        &self,
        keys: impl IntoIterator<Item = &'key [u8]>,
        mut met: impl FnMut(usize, &C),
    ) {
        let view = self.view();
        let mut descents = [Descent { pointer: Pointer::NONE, rest: &[] }; LOOK_AHEAD_KEYS];
        for (descent, key) in descents.iter_mut().zip(keys) {
            *descent = Descent { pointer: view.root(), rest: key };
        }
        for _ in 0..MAX_STEPS {
            let mut is_any_left = false;
            for (number, descent) in descents.iter_mut().enumerate() {
                if !descent.pointer.is_none() {
                    descent.step(view, |content| met(number, content));
                    is_any_left = true;
                }
            }
            if !is_any_left {
                break;
            }
        }
    }
}

impl Descent<'_> {
    #[inline]
    fn step<C>(&mut self, view: View<'_, C>, met: impl FnOnce(&C)) {
        if !self.rest.is_empty() {
            (self.pointer, self.rest) = view.follow(self.pointer, self.rest);
            return view.prefetch_towards(self.pointer, self.rest);
        }
        self.pointer = match view.open(self.pointer) {
            Node::Prefix(prefix) => prefix.content.get(),
            Node::Leaf => {
                met(view.content(self.pointer));
                Pointer::NONE
            }
            _ => Pointer::NONE,
        };
        view.prefetch(self.pointer);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn look_ahead_finds_the_contents_of_present_keys(
            keys in prop::collection::btree_map(prop::collection::vec(0u8..60, 0..12), any::<u32>(), 0..400),
            others in prop::collection::vec(prop::collection::vec(0u8..60, 0..12), 0..LOOK_AHEAD_KEYS),
            from in 0usize..400,
        ) {
            let mut trie = InMemoryTrie::new();
            for (key, content) in &keys {
                trie.put(key, *content).unwrap();
            }
            let asked: Vec<&[u8]> = others.iter().map(Vec::as_slice)
                .chain(keys.keys().skip(from).map(Vec::as_slice))
                .take(LOOK_AHEAD_KEYS)
                .collect();
            let mut met = Vec::new();
            trie.look_ahead(asked.iter().copied(), |number, content| met.push((number, *content)));
            met.sort_unstable();
            let expected: Vec<_> = asked.iter().enumerate()
                .filter_map(|(number, key)| keys.get(*key).map(|content| (number, *content)))
                .collect();
            prop_assert_eq!(met, expected);
        }
    }

    #[test]
    fn look_ahead_ignores_excess_and_overlong_keys() {
        let mut trie = InMemoryTrie::new();
        let long = vec![7; 26 * 2 * MAX_STEPS];
        trie.put(&long, 1).unwrap();
        trie.put(b"short", 2).unwrap();
        let keys = [&long[..], b"short"].into_iter().cycle().take(3 * LOOK_AHEAD_KEYS);
        let mut met = Vec::new();
        trie.look_ahead(keys, |number, content| met.push((number, *content)));
        // The look-ahead leaves the long key before its end.
        let expected: Vec<_> = (1..LOOK_AHEAD_KEYS).step_by(2).map(|number| (number, 2)).collect();
        assert_eq!(met, expected);
        InMemoryTrie::<u8>::new().look_ahead([&b"key"[..], b""], |_, _| panic!("there is nothing"));
    }
}
