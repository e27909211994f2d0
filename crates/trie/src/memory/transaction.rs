//! A transaction makes several changes below one prefix that readers see together.
//!
//! While there are readers, a transaction works on copies of the nodes on its keys' paths. It
//! reaches the copies by a link of its own, and ends with one store into the structure. The nodes
//! of the structure do not change, so a [`Snapshot`](super::Snapshot) stays as it is. The originals
//! of the copies are retired. Without readers, a transaction works in place, at no extra cost.
//!
//! Lineage: path copying (N. Sarnak and R. Tarjan, "Planar point location using persistent search
//! trees", 1986), as in the forced copying of Cassandra's tries.
//!
//! Memory bound: the nodes on the paths of its keys below the prefix, each once (`own_blocks`). A
//! wide node takes 1 KiB. Besides, an array node is copied for each child that it gets, as without
//! a transaction. Replaced nodes are freed like all retired units.

#![allow(unsafe_code)]

use super::branch::Branch;
use super::build::Writer;
use super::cursor::MemoryCursor;
use super::pointer::Link;
use super::remove::BLOCKS_PER_REMOVAL;
use super::shared::Shared;
use super::space::{Space, TrieFull};
use super::subtrie::Subtrie;
use super::trie::InMemoryTrie;
use super::view::View;
use crate::cursor::Direction;

/// Changes below a prefix, which become visible together when this is dropped. Made by
/// [`InMemoryTrie::transaction`].
///
/// If the trie becomes full, the changes made so far stay and become visible. A transaction that is
/// forgotten instead of dropped may never become visible, and its blocks are lost until the trie is
/// dropped.
pub struct Transaction<'a, C> {
    shared: &'a Shared<C>,
    space: &'a mut Space,
    /// Begins with the prefix.
    key: &'a mut Vec<u8>,
    prefix_length: usize,
    /// The lowest link of the structure on the way to the prefix, and the number of bytes that lead
    /// to it.
    published: &'a Link,
    depth: usize,
    /// The new pointer for that link, while there are readers.
    copy: Option<Link>,
}

impl<'a, C> Transaction<'a, C> {
    fn new(mut branch: Branch<'a, C>) -> Transaction<'a, C> {
        branch.approach();
        let Branch { shared, space, key, prefix_length, link: published, depth } = branch;
        let is_read = shared.epochs.has_readers();
        space.begin_transaction(shared, is_read);
        let copy = is_read.then(|| Link::new(published.get()));
        Transaction { shared, space, key, prefix_length, published, depth, copy }
    }

    /// Returns the part of the trie below the prefix, with the changes of this transaction.
    pub fn subtrie(&self) -> Subtrie<'_, C> {
        // SAFETY: the result borrows the writer.
        let view = unsafe { View::new(self.shared) };
        let root = self.copy.as_ref().unwrap_or(self.published).get();
        let prefix = &self.key[self.depth..self.prefix_length];
        Subtrie::below(view, view.find_below(root, prefix))
    }

    /// Returns the content of prefix + `suffix`.
    pub fn get(&self, suffix: &[u8]) -> Option<&C> {
        self.subtrie().get(suffix)
    }

    /// Returns a cursor over the part below the prefix.
    pub fn cursor(&self, direction: Direction) -> MemoryCursor<'_, C> {
        self.subtrie().cursor(direction)
    }

    /// Works like [`InMemoryTrie::put_with`], for prefix + `suffix`.
    ///
    /// # Errors
    /// Fails if the trie is full; earlier changes stay.
    pub fn put_with<R>(
        &mut self,
        suffix: &[u8],
        change: impl FnOnce(Option<&C>) -> (C, R),
    ) -> Result<R, TrieFull> {
        let (mut writer, link, key, depth) = self.writer(suffix)?;
        writer.apply_at(link, key, depth, change)
    }

    /// Maps prefix + `suffix` to `content`. Returns whether there was a content before.
    ///
    /// # Errors
    /// Fails if the trie is full; earlier changes stay.
    pub fn put(&mut self, suffix: &[u8], content: C) -> Result<bool, TrieFull> {
        self.put_with(suffix, |old| (content, old.is_some()))
    }

    /// Removes the content of prefix + `suffix`. Returns whether the content was removed. It may
    /// stay if no other key has the prefix.
    ///
    /// # Errors
    /// Fails if the trie is full; earlier changes stay.
    pub fn remove(&mut self, suffix: &[u8]) -> Result<bool, TrieFull> {
        if self.get(suffix).is_none() {
            return Ok(false);
        }
        let (mut writer, link, key, depth) = self.writer(suffix)?;
        // After the copies, which take blocks as well.
        writer.space.reserve(writer.shared, BLOCKS_PER_REMOVAL)?;
        Ok(writer.remove_below(link, key, depth))
    }

    /// Returns four values for prefix + `suffix`: a writer; a link below which the writer may
    /// change everything on the path of the key; the key; and the number of its bytes that lead to
    /// the link.
    #[inline]
    fn writer(&mut self, suffix: &[u8]) -> Result<(Writer<'_, C>, &Link, &[u8], usize), TrieFull> {
        self.key.truncate(self.prefix_length);
        self.key.extend_from_slice(suffix);
        let mut writer = Writer { shared: self.shared, space: &mut *self.space };
        let link = match &self.copy {
            None => self.published,
            Some(copy) => {
                writer.copy_on_write(copy, self.key, self.depth)?;
                copy
            }
        };
        Ok((writer, link, self.key, self.depth))
    }
}

impl<C> Drop for Transaction<'_, C> {
    fn drop(&mut self) {
        if let Some(copy) = &self.copy {
            self.published.publish(copy.get());
            self.space.end_transaction();
            self.space.settle(self.shared);
        }
    }
}

impl<C> InMemoryTrie<C> {
    /// Begins a transaction: changes below `prefix` that readers see all at once.
    ///
    /// ```
    /// # use espalier_trie::memory::InMemoryTrie;
    /// let mut trie = InMemoryTrie::<u32>::new();
    /// trie.put(b"partition/a", 1)?;
    /// let before = trie.snapshot(b"partition/");
    /// let mut transaction = trie.transaction(b"partition/");
    /// transaction.put(b"a", 2)?;
    /// transaction.put(b"b", 2)?;
    /// drop(transaction);
    /// assert_eq!((before.subtrie().get(b"a"), before.subtrie().get(b"b")), (Some(&1), None));
    /// assert_eq!(trie.get(b"partition/b"), Some(&2));
    /// # Ok::<(), espalier_trie::memory::TrieFull>(())
    /// ```
    pub fn transaction(&mut self, prefix: &[u8]) -> Transaction<'_, C> {
        Transaction::new(self.descend(prefix))
    }
}
