//! Drops a large trie in steps, so that the drop does not stall a core.

#![allow(unsafe_code)]

use super::pointer::Link;
use super::trie::InMemoryTrie;
use std::sync::Arc;

/// A trie that is being dropped incrementally. Made by [`InMemoryTrie::drop_incrementally`].
/// Dropping this does the rest of the work at once.
pub struct IncrementalDrop<C> {
    trie: InMemoryTrie<C>,
}

impl<C> IncrementalDrop<C> {
    pub(super) fn new(trie: InMemoryTrie<C>) -> IncrementalDrop<C> {
        IncrementalDrop { trie }
    }

    /// Returns whether the trie has readers. Without readers there can be no new ones, because
    /// readers are cloned from others.
    pub fn has_readers(&self) -> bool {
        Arc::strong_count(&self.trie.shared) > 1
    }

    /// Drops up to `count` contents, mostly side by side in memory. Returns whether there may be
    /// more. Does nothing as long as the trie has readers.
    pub fn drop_contents(&mut self, count: u32) -> bool {
        let Some(shared) = Arc::get_mut(&mut self.trie.shared) else {
            return true;
        };
        shared.root = Link::none();
        for _ in 0..count {
            let Some(index) = self.trie.space.pop_live() else { return false };
            // SAFETY: nothing else refers to the trie; the content was alive and is no longer
            // listed as such.
            unsafe { std::ptr::drop_in_place(shared.content(index)) };
        }
        true
    }

    /// Drops up to `contents` contents (one if that is 0). Once no content is left, frees one chunk
    /// of memory instead. Returns whether there is more to do. Does nothing as long as the trie has
    /// readers.
    pub fn step(&mut self, contents: u32) -> bool {
        if self.drop_contents(contents.max(1)) {
            return true;
        }
        self.trie.space.forget_units();
        Arc::get_mut(&mut self.trie.shared).is_none_or(|shared| shared.blocks.free_last_chunk())
    }
}
