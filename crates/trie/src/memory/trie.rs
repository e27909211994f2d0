//! The owner's view of the trie: reading without a guard, and writing.

#![allow(unsafe_code)]

use super::branch::Branch;
use super::build::{BLOCKS_PER_INSERTION, Writer};
use super::chunk_pool::ChunkPool;
use super::cursor::MemoryCursor;
use super::incremental_drop::IncrementalDrop;
use super::place::Place;
use super::pointer::{CHAIN_LENGTH, INDEX_BITS, Link, Pointer};
use super::reader::Reader;
use super::remove::BLOCKS_PER_REMOVAL;
use super::shared::Shared;
use super::space::{Space, TrieFull};
use super::subtrie::Subtrie;
use super::view::View;
use crate::cursor::{Direction, Entries};
use std::sync::Arc;

/// A map from byte strings to `C`, ordered by the bytes. This is its owner and only writer; see
/// [`InMemoryTrie::reader`] for other threads.
///
/// Reading through `&self` needs no guard: recycling takes a `&mut self`, which the borrow
/// excludes.
///
/// ```
/// use espalier_trie::cursor::{Cursor, Direction, Slice};
/// use espalier_trie::memory::InMemoryTrie;
/// use std::ops::Bound;
///
/// let mut trie = InMemoryTrie::new();
/// let mut partition = trie.descend(b"partition/");
/// for row in [&b"a"[..], b"ab", b"b"] {
///     partition.apply(row, |old| old.map_or(1, |count| count + 1))?;
/// }
/// assert_eq!(trie.get(b"partition/ab"), Some(&1));
///
/// let rows = trie.cursor_from(b"partition/", Direction::Reverse);
/// let mut rows = Slice::new(rows, Bound::Unbounded, Bound::Excluded(b"b")).into_entries();
/// assert_eq!(rows.next_entry(), Some((&b"ab"[..], &1)));
/// rows.seek(b"aa");
/// assert_eq!(rows.next_entry(), Some((&b"a"[..], &1)));
/// assert_eq!(rows.next_entry(), None);
/// # Ok::<(), espalier_trie::memory::TrieFull>(())
/// ```
pub struct InMemoryTrie<C> {
    pub(super) shared: Arc<Shared<C>>,
    pub(super) space: Space,
    /// The buffer in which a [`Branch`] operation builds its key.
    pub(super) key_buffer: Vec<u8>,
}

impl<C> Default for InMemoryTrie<C> {
    fn default() -> Self {
        InMemoryTrie::new()
    }
}

impl<C> InMemoryTrie<C> {
    /// Creates an empty trie. It takes no memory for blocks and contents before it has any.
    pub fn new() -> InMemoryTrie<C> {
        InMemoryTrie::with_limit(1 << INDEX_BITS)
    }

    /// Creates an empty trie of at most `blocks` blocks of 32 bytes, 2^27 − 1 at most, for its
    /// structure and its contents. An insertion must find room for its worst case: 10 blocks, one
    /// for each 26 bytes of its key, and the blocks of an array or wide node if it must make one
    /// (up to 32).
    pub fn with_limit(blocks: u32) -> InMemoryTrie<C> {
        InMemoryTrie::with(Shared::new(None), blocks)
    }

    /// Sets the limit, as in [`InMemoryTrie::with_limit`]. Has no effect once the trie has taken
    /// memory.
    #[must_use]
    pub fn limited_to(mut self, blocks: u32) -> InMemoryTrie<C> {
        if self.allocated_bytes() == 0 {
            self.space = Space::new(blocks);
        }
        self
    }

    /// Creates an empty trie that takes its large chunks of memory from the pool `spare`, and
    /// returns them to it.
    pub fn with_chunk_pool(spare: Arc<ChunkPool>) -> InMemoryTrie<C> {
        InMemoryTrie::with(Shared::new(Some(spare)), 1 << INDEX_BITS)
    }

    /// Sets the function that returns the number of bytes that a content takes besides its block.
    /// `weight` must return the same for a content until the content is changed. Has no effect once
    /// the trie has readers, or retired blocks or contents. See [`InMemoryTrie::retired_weight`].
    #[must_use]
    pub fn with_weight(mut self, weight: fn(&C) -> usize) -> InMemoryTrie<C> {
        if let Some(shared) =
            Arc::get_mut(&mut self.shared).filter(|_| self.space.retired().is_empty())
        {
            shared.weight = weight;
        }
        self
    }

    fn with(shared: Shared<C>, blocks: u32) -> InMemoryTrie<C> {
        InMemoryTrie { shared: Arc::new(shared), space: Space::new(blocks), key_buffer: Vec::new() }
    }

    fn writer(&mut self) -> Writer<'_, C> {
        Writer { shared: &self.shared, space: &mut self.space }
    }

    pub(super) fn view(&self) -> View<'_, C> {
        // SAFETY: recycling and mutation take `&mut self`, which this borrow excludes.
        unsafe { View::new(&self.shared) }
    }

    /// Returns the content of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&C> {
        self.view().get(key)
    }

    /// Returns the part of the trie below `prefix`, to read several keys there without a descent
    /// from the root for each.
    #[inline]
    pub fn subtrie(&self, prefix: &[u8]) -> Subtrie<'_, C> {
        Subtrie::new(self.view(), prefix)
    }

    /// Returns whether the trie has no content.
    pub fn is_empty(&self) -> bool {
        self.shared.root.get().is_none()
    }

    /// Maps `key` to `content`. Returns whether there was a content before; the old content is
    /// dropped once no reader can reach it.
    ///
    /// # Errors
    /// Fails, without a change, if the trie is full.
    pub fn put(&mut self, key: &[u8], content: C) -> Result<bool, TrieFull> {
        self.put_with(key, |old| (content, old.is_some()))
    }

    /// Maps `key` to the result of `change` for its present content. `change` is not called if the
    /// trie is full; if it panics, the trie is as before.
    ///
    /// # Errors
    /// Fails, without a change, if the trie is full.
    pub fn apply(
        &mut self,
        key: &[u8],
        change: impl FnOnce(Option<&C>) -> C,
    ) -> Result<(), TrieFull> {
        self.put_with(key, |old| (change(old), ()))
    }

    /// Works like [`InMemoryTrie::apply`], for a change that has a result.
    ///
    /// # Errors
    /// Fails, without a change, if the trie is full.
    pub fn put_with<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(Option<&C>) -> (C, R),
    ) -> Result<R, TrieFull> {
        let shared = &*self.shared;
        let mut writer = Writer { shared, space: &mut self.space };
        writer.apply_at(&shared.root, key, 0, change)
    }

    /// Changes the content of a key in place. If there are readers, it changes a copy and replaces
    /// the content by the copy. Returns `None` if the key has no content.
    ///
    /// # Errors
    /// Fails, without a change, if the trie is full.
    pub fn update<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<Option<R>, TrieFull>
    where
        C: Clone,
    {
        let shared = &*self.shared;
        let mut writer = Writer { shared, space: &mut self.space };
        writer.update_at(&shared.root, key, 0, change)
    }

    /// Returns the content of a key, to change it in place. Returns `None` if there is a
    /// [`Reader`], or no content.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut C> {
        if self.shared.epochs.has_readers() {
            return None;
        }
        let (content, _) = self.view().unwrap_prefix(self.view().find(key));
        if content.is_none() {
            return None;
        }
        // SAFETY: without readers, the exclusive borrow of the writer is one of all contents.
        Some(unsafe { &mut *self.shared.content(content.index()) })
    }

    /// Removes the content of a key, and nodes that lead nowhere else. Returns whether the key had
    /// a content.
    ///
    /// # Errors
    /// Fails, without a change, only if the trie is full to the last blocks, because a node may
    /// have to be copied.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, TrieFull> {
        self.space.reserve(&self.shared, BLOCKS_PER_REMOVAL)?;
        let removed = self.writer().remove(key);
        self.space.settle(&self.shared);
        Ok(removed)
    }

    /// Removes all keys at once, and keeps the memory for later keys. Returns false and changes
    /// nothing if the trie has readers or contents that must be dropped.
    pub fn clear(&mut self) -> bool {
        let Some(shared) = Arc::get_mut(&mut self.shared) else { return false };
        if std::mem::needs_drop::<C>() {
            return false;
        }
        shared.root = Link::none();
        self.space.clear();
        true
    }

    /// Removes all keys that begin with `prefix`. Returns whether there was any. Takes time in
    /// proportion to the removed part.
    ///
    /// # Errors
    /// Fails as [`InMemoryTrie::remove`] does.
    pub fn remove_branch(&mut self, prefix: &[u8]) -> Result<bool, TrieFull> {
        self.space.reserve(&self.shared, BLOCKS_PER_REMOVAL)?;
        let removed = self.writer().remove_branch(prefix);
        self.space.settle(&self.shared);
        Ok(removed)
    }

    /// Returns the part of the trie below `prefix`, to make many changes there without a descent
    /// from the root for each.
    pub fn descend(&mut self, prefix: &[u8]) -> Branch<'_, C> {
        Branch::new(self, prefix)
    }

    /// Drops the trie in steps of chosen size. A plain drop of millions of contents takes long.
    pub fn drop_incrementally(self) -> IncrementalDrop<C> {
        IncrementalDrop::new(self)
    }

    /// Returns whether there is any [`Reader`] or [`Snapshot`](super::Snapshot): then writing costs
    /// copies.
    pub fn has_readers(&self) -> bool {
        self.shared.epochs.has_readers()
    }

    /// Returns a handle for reading on any thread while this owner writes.
    pub fn reader(&self) -> Reader<C> {
        Reader::new(&self.shared)
    }

    /// Returns a cursor over the whole trie.
    pub fn cursor(&self, direction: Direction) -> MemoryCursor<'_, C> {
        self.cursor_from(&[], direction)
    }

    /// Returns a cursor over the keys that begin with `prefix`. The cursor's root is at the prefix,
    /// so its paths begin after the prefix.
    pub fn cursor_from(&self, prefix: &[u8], direction: Direction) -> MemoryCursor<'_, C> {
        self.subtrie(prefix).cursor(direction)
    }

    /// Returns all keys and contents in order.
    pub fn entries(&self, direction: Direction) -> Entries<MemoryCursor<'_, C>> {
        Entries::new(self.cursor(direction))
    }

    /// Returns the number of keys.
    pub fn content_count(&self) -> usize {
        self.space.live_contents() as usize
    }

    /// Returns the bytes of the blocks of the trie, including those of its contents. Memory to
    /// which contents point does not count.
    pub fn used_bytes(&self) -> usize {
        self.space.used_bytes()
    }

    /// Returns the bytes of blocks and contents that were removed but may still have readers.
    pub fn retired_bytes(&self) -> usize {
        self.space.retired_bytes()
    }

    /// Returns the weight of the contents that were removed but may still have readers, by the
    /// function given to [`InMemoryTrie::with_weight`]; 0 without one.
    pub fn retired_weight(&self) -> usize {
        self.space.retired_weight()
    }

    /// Returns the bytes of memory allocated for blocks, in whatever use.
    pub fn allocated_bytes(&self) -> usize {
        self.space.allocated_bytes()
    }

    /// Returns the bytes of the record of contents that must be dropped, which is not in blocks.
    pub fn record_bytes(&self) -> usize {
        self.space.record_bytes()
    }

    /// Returns the bytes of memory that are allocated and ready to be used.
    pub fn free_bytes(&self) -> usize {
        self.allocated_bytes() - self.used_bytes() - self.retired_bytes()
    }

    /// Frees retired units that have no readers any more, at most `count` blocks and contents.
    /// Writing does this too; call it when writes stop. Returns the bytes that remain retired.
    pub fn free_retired(&mut self, count: u32) -> usize {
        self.space.free_retired(&self.shared, count);
        self.retired_bytes()
    }
}

impl<'a, C> Writer<'a, C> {
    /// Works like [`InMemoryTrie::put_with`], for a key whose first `depth` bytes lead to `link`.
    #[inline]
    pub(super) fn apply_at<R>(
        &mut self,
        link: &'a Link,
        key: &[u8],
        depth: usize,
        change: impl FnOnce(Option<&C>) -> (C, R),
    ) -> Result<R, TrieFull> {
        let singles = 2 + BLOCKS_PER_INSERTION + key.len() / CHAIN_LENGTH;
        self.space.reserve(self.shared, singles)?;
        let place = self.locate(link, key, depth);
        let result = if let Place::Existing(link) = place {
            let leaf = link.get();
            let (content, result) = change(Some(self.view().content(leaf)));
            if self.shared.epochs.has_readers() {
                self.replace(link, leaf, content);
            } else {
                drop(std::mem::replace(self.content_mut(leaf), content));
            }
            result
        } else {
            self.make_room(&place, singles)?;
            let (content, result) = change(None);
            let leaf = self.space.take_content_for_chain(self.shared, content);
            self.insert(place, key, leaf);
            self.space.release_beside_content(self.shared);
            result
        };
        self.space.settle(self.shared);
        Ok(result)
    }

    /// Works like [`InMemoryTrie::update`], for a key whose first `depth` bytes lead to `link`.
    pub(super) fn update_at<R>(
        &mut self,
        link: &'a Link,
        key: &[u8],
        depth: usize,
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<Option<R>, TrieFull>
    where
        C: Clone,
    {
        self.space.reserve(self.shared, 1)?;
        let Place::Existing(link) = self.locate(link, key, depth) else {
            return Ok(None);
        };
        let leaf = link.get();
        if self.shared.epochs.has_readers() {
            let mut content = self.view().content(leaf).clone();
            let result = change(&mut content);
            self.replace(link, leaf, content);
            self.space.settle(self.shared);
            return Ok(Some(result));
        }
        Ok(Some(change(self.content_mut(leaf))))
    }

    /// Returns a content of the structure, to be changed in place: there must be no readers.
    fn content_mut(&mut self, leaf: Pointer) -> &mut C {
        debug_assert!(!self.shared.epochs.has_readers());
        // SAFETY: the content is in the structure, so it is alive; there are no readers, and the
        // owner's references end before it writes.
        unsafe { &mut *self.shared.content(leaf.index()) }
    }

    fn replace(&mut self, link: &Link, leaf: Pointer, content: C) {
        let new = self.space.take_content(self.shared, content);
        link.publish(new);
        self.retire(leaf);
    }
}

impl<C> Drop for InMemoryTrie<C> {
    fn drop(&mut self) {
        // The last user of the shared state drops the contents, including the retired ones.
        let space = std::mem::replace(&mut self.space, Space::new(0));
        self.shared.leave(space.into_live());
    }
}
