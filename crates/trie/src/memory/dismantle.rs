//! Dropping a large trie in steps, so that it does not hold a core for long.

#![allow(unsafe_code)]

use super::node::Node;
use super::pointer::{Link, Pointer};
use super::trie::InMemoryTrie;
use super::view::View;
use std::sync::Arc;

/// A trie that is being dropped. Made by [`InMemoryTrie::dismantle`]. Dropping this does what is
/// left at once.
pub struct Dismantle<C> {
    trie: InMemoryTrie<C>,
    /// Branches whose contents are still to be dropped; `None` before the first step.
    pending: Option<Vec<Pointer>>,
}

impl<C> Dismantle<C> {
    pub(super) fn new(trie: InMemoryTrie<C>) -> Dismantle<C> {
        Dismantle { trie, pending: None }
    }

    /// Drops the contents of up to `nodes` nodes, or gives back one chunk of memory. Returns whether
    /// there is more to do. Does nothing as long as the trie has readers.
    pub fn step(&mut self, nodes: u32) -> bool {
        // Without readers there can be no new ones, since those are made from others.
        let Some(shared) = Arc::get_mut(&mut self.trie.shared) else {
            return true;
        };
        let pending = self.pending.get_or_insert_with(|| {
            let root = shared.root.get();
            shared.root = Link::none();
            if std::mem::needs_drop::<C>() && !root.is_none() { vec![root] } else { Vec::new() }
        });
        if !self.trie.space.limbo().is_empty() {
            self.trie.space.free_retired(shared, nodes);
            return true;
        }
        if pending.is_empty() {
            self.trie.space.forget_units();
            return shared.blocks.free_last_chunk();
        }
        for _ in 0..nodes {
            let Some(node) = pending.pop() else { break };
            // SAFETY: there is nobody else, and blocks are left as they are: their memory goes with
            // the chunks. Of each content there is one pointer.
            match unsafe { View::new(shared) }.open(node) {
                Node::Leaf => self.trie.space.free(shared, node),
                Node::Chain(chain) => pending.push(chain.child.get()),
                Node::Sparse(sparse) => {
                    let count = sparse.load_word().count();
                    pending.extend(sparse.children[..count].iter().map(Link::get));
                }
                Node::Array(array) => pending.extend(array.children().map(|(_, child)| child)),
                Node::Wide(wide) => pending.extend(wide.children().map(|(_, child)| child)),
                Node::Prefix(prefix) => {
                    pending.push(prefix.content.get());
                    pending.push(prefix.inner.pointer());
                }
            }
        }
        true
    }
}

impl<C> Drop for Dismantle<C> {
    fn drop(&mut self) {
        if self.pending.is_some() {
            while self.step(u32::MAX) {}
        }
    }
}
