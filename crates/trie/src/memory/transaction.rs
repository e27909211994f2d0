//! Several changes below one prefix that readers see together.
//!
//! While there are readers, a transaction works on copies of the nodes on its keys' paths, which
//! hang on a link of its own, and ends with one store into the structure. Nothing that was in the
//! structure is changed, so a [`Snapshot`](super::Snapshot) stays as it is; what the copies stand
//! for is retired. Without readers it works in place, and costs nothing.
//!
//! Where the idea comes from: path copying (N. Sarnak and R. Tarjan, "Planar point location using
//! persistent search trees", 1986), as forced copying of Cassandra's tries is. Memory: the nodes on the paths of its keys below
//! the prefix, each once (`own_blocks`), of which a wide one has 1 KiB; besides, each child that an array node gets copies it,
//! as it does without a transaction. What was copied is freed as anything else that is retired.

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
/// When the trie is full, what was changed before stays and becomes visible. One that is forgotten and not dropped may
/// never become visible, and what it took is lost until the trie goes.
pub struct Transaction<'a, C> {
    shared: &'a Shared<C>,
    space: &'a mut Space,
    /// Begins with the prefix.
    key: &'a mut Vec<u8>,
    prefix_length: usize,
    /// The lowest link of the structure on the way to the prefix, and how many bytes lead to it.
    published: &'a Link,
    depth: usize,
    /// What that link is to hold, while there are readers.
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

    /// What is below the prefix, with the changes of this transaction.
    pub fn subtrie(&self) -> Subtrie<'_, C> {
        // SAFETY: the writer is borrowed by what is given away.
        let view = unsafe { View::new(self.shared) };
        let root = self.copy.as_ref().unwrap_or(self.published).get();
        let prefix = &self.key[self.depth..self.prefix_length];
        Subtrie::below(view, view.find_below(root, prefix))
    }

    /// The content of prefix + `suffix`.
    pub fn get(&self, suffix: &[u8]) -> Option<&C> {
        self.subtrie().get(suffix)
    }

    /// A walk over what is below the prefix.
    pub fn cursor(&self, direction: Direction) -> MemoryCursor<'_, C> {
        self.subtrie().cursor(direction)
    }

    /// As [`InMemoryTrie::put_with`], for prefix + `suffix`.
    pub fn put_with<R>(
        &mut self,
        suffix: &[u8],
        change: impl FnOnce(Option<&C>) -> (C, R),
    ) -> Result<R, TrieFull> {
        let (mut writer, link, key, depth) = self.writer(suffix)?;
        writer.apply_at(link, key, depth, change)
    }

    /// Maps prefix + `suffix` to `content`. Returns whether there was a content before.
    pub fn put(&mut self, suffix: &[u8], content: C) -> Result<bool, TrieFull> {
        self.put_with(suffix, |old| (content, old.is_some()))
    }

    /// Removes the content of prefix + `suffix`. Returns whether that was done: the only key with the
    /// prefix is not removed this way.
    pub fn remove(&mut self, suffix: &[u8]) -> Result<bool, TrieFull> {
        if self.get(suffix).is_none() {
            return Ok(false);
        }
        let (mut writer, link, key, depth) = self.writer(suffix)?;
        // After the copies, which take blocks as well.
        writer.space.reserve(writer.shared, BLOCKS_PER_REMOVAL)?;
        Ok(writer.remove_below(link, key, depth))
    }

    /// A writer, a link that it may change all on the way of prefix + `suffix` from, the key, and how
    /// many of its bytes lead to the link.
    #[inline]
    fn writer(&mut self, suffix: &[u8]) -> Result<(Writer<'_, C>, &Link, &[u8], usize), TrieFull> {
        self.key.truncate(self.prefix_length);
        self.key.extend_from_slice(suffix);
        let mut writer = Writer { shared: self.shared, space: &mut *self.space };
        let link = match &self.copy {
            None => self.published,
            Some(copy) => {
                writer.unshare(copy, self.key, self.depth)?;
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
    /// Changes below `prefix` that readers see all at once.
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
