//! A branch writes many keys that share a prefix without following the prefix each time.
//!
//! It remembers a link on the way to its prefix: an insertion changes nothing above the last link
//! that its key passes, so the link stays valid while the branch only inserts. As the structure
//! grows, links nearer to the prefix appear; each operation looks for them first.

#![allow(unsafe_code)]

use super::build::Writer;
use super::node::{Inner, Node};
use super::pointer::Link;
use super::shared::Shared;
use super::space::{Space, TrieFull};
use super::trie::InMemoryTrie;
use super::view::View;

/// The keys of a trie that begin with some prefix, for writing. Made by [`InMemoryTrie::descend`]
/// and [`Branch::descend`].
pub struct Branch<'a, C> {
    pub(super) shared: &'a Shared<C>,
    pub(super) space: &'a mut Space,
    /// Begins with the prefix. A nested branch adds to it.
    pub(super) key: &'a mut Vec<u8>,
    pub(super) prefix_length: usize,
    /// The lowest known link that the first `depth` bytes of the prefix lead to.
    pub(super) link: &'a Link,
    pub(super) depth: usize,
}

impl<'a, C> Branch<'a, C> {
    pub(super) fn new(trie: &'a mut InMemoryTrie<C>, prefix: &[u8]) -> Branch<'a, C> {
        let shared = &*trie.shared;
        trie.key_buffer.clear();
        trie.key_buffer.extend_from_slice(prefix);
        Branch {
            shared,
            space: &mut trie.space,
            key: &mut trie.key_buffer,
            prefix_length: prefix.len(),
            link: &shared.root,
            depth: 0,
        }
    }

    /// Returns the prefix of all keys of this branch, from the root of the trie.
    pub fn prefix(&self) -> &[u8] {
        &self.key[..self.prefix_length]
    }

    /// Returns the branch below `prefix` in this one.
    pub fn descend(&mut self, prefix: &[u8]) -> Branch<'_, C> {
        self.set_suffix(prefix);
        self.approach();
        Branch {
            shared: self.shared,
            space: &mut *self.space,
            prefix_length: self.key.len(),
            key: &mut *self.key,
            link: self.link,
            depth: self.depth,
        }
    }

    /// Returns the content of prefix + `suffix`.
    pub fn get(&mut self, suffix: &[u8]) -> Option<&C> {
        self.set_suffix(suffix);
        self.approach();
        self.view().get_below(self.link.get(), &self.key[self.depth..])
    }

    /// Maps prefix + `suffix` to `content`. Returns whether there was a content before.
    ///
    /// # Errors
    /// Fails, without a change, if the trie is full.
    pub fn put(&mut self, suffix: &[u8], content: C) -> Result<bool, TrieFull> {
        self.put_with(suffix, |old| (content, old.is_some()))
    }

    /// Works like [`InMemoryTrie::apply`], for prefix + `suffix`.
    ///
    /// # Errors
    /// Fails, without a change, if the trie is full.
    pub fn apply(
        &mut self,
        suffix: &[u8],
        change: impl FnOnce(Option<&C>) -> C,
    ) -> Result<(), TrieFull> {
        self.put_with(suffix, |old| (change(old), ()))
    }

    /// Works like [`InMemoryTrie::put_with`], for prefix + `suffix`.
    ///
    /// # Errors
    /// Fails, without a change, if the trie is full.
    pub fn put_with<R>(
        &mut self,
        suffix: &[u8],
        change: impl FnOnce(Option<&C>) -> (C, R),
    ) -> Result<R, TrieFull> {
        self.set_suffix(suffix);
        self.approach();
        let (link, depth) = (self.link, self.depth);
        let mut writer = Writer { shared: self.shared, space: &mut *self.space };
        writer.apply_at(link, self.key, depth, change)
    }

    /// Works like [`InMemoryTrie::update`], for prefix + `suffix`.
    ///
    /// # Errors
    /// Fails, without a change, if the trie is full.
    pub fn update<R>(
        &mut self,
        suffix: &[u8],
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<Option<R>, TrieFull>
    where
        C: Clone,
    {
        self.set_suffix(suffix);
        self.approach();
        let (link, depth) = (self.link, self.depth);
        let mut writer = Writer { shared: self.shared, space: &mut *self.space };
        writer.update_at(link, self.key, depth, change)
    }

    fn view(&self) -> View<'a, C> {
        // SAFETY: the writer is borrowed for 'a, and uses this only to find its way.
        unsafe { View::new(self.shared) }
    }

    fn set_suffix(&mut self, suffix: &[u8]) {
        self.key.truncate(self.prefix_length);
        self.key.extend_from_slice(suffix);
    }

    /// Goes down as far as links lead along the prefix. If a link leads to the prefix itself, the
    /// branch stops at that link, because a write of the prefix as a key may have to replace the
    /// node there.
    pub(super) fn approach(&mut self) {
        let view = self.view();
        let prefix = &self.key[..self.prefix_length];
        while self.depth < prefix.len() {
            let rest = &prefix[self.depth..];
            let node = self.link.get();
            if node.is_none() {
                return;
            }
            let inner = match view.open(node) {
                Node::Prefix(prefix) => match prefix.inner {
                    Inner::Standalone(link) => {
                        self.link = link;
                        continue;
                    }
                    Inner::Embedded(inner) => view.open(inner),
                },
                other => other,
            };
            let (step, link) = match inner {
                Node::Leaf | Node::Prefix(_) => return,
                Node::Chain(chain) if rest.starts_with(chain.bytes) => {
                    (chain.bytes.len(), chain.child)
                }
                Node::Chain(_) => return,
                Node::Sparse(sparse) => match sparse.find(rest[0]) {
                    Some(link) => (1, link),
                    None => return,
                },
                Node::Array(array) => match array.find(rest[0]) {
                    Some(link) if !link.get().is_none() => (1, link),
                    _ => return,
                },
                Node::Wide(wide) => match wide.find(rest[0]) {
                    link if !link.get().is_none() => (1, link),
                    _ => return,
                },
            };
            self.depth += step;
            self.link = link;
        }
    }
}
